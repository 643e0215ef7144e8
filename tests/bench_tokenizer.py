#!/usr/bin/env python3
# bench_tokenizer - the tokenizer beside the Python packages gigatoken, tokenizers and
# tiktoken, as far as they are installed: medians over interleaved rounds.
#
#   make bench-tokenizer [PYTHON=python3] [BENCH="--english TEXT --multilingual TEXT
#                         --train TEXT --vocab vocab.json --merges merges.txt --rounds 5
#                         --only NAME --as-installed"]
#
# Every round starts a process for each of us and each text in turn. A row prints the
# medians, the median of the rounds' ratios, their range, the goal, and whether the median
# reaches it. --only takes the rows whose names contain NAME.
#
# Each peer works in its fastest way, on one processor as we do: gigatoken on bytes, both
# as one text and as documents (the better of them counts), after a first short text, told
# not to start threads; tokenizers in batches of 10 kB documents; tiktoken decoding to
# bytes. For all of us the allocator takes huge pages and gives none back (--as-installed:
# it is the C library's as it comes, which is always so for rows that are a bound). "cold" is the first
# pass of a process, "warm" the best of twelve (ours and theirs), the others the best of
# three. Figures are of processor time where one thread works, and of the clock where two
# do. Without texts those of the tests are taken, which are small and no natural language.
import argparse
import gzip
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import types

import bench_bpe_training as training

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "tokenizer")
FIRST = 5000000  # bytes of each text, as in bench_tokenizer.c

COMMON = """
import gc, json, os, sys, time
folder, path = sys.argv[1:]
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
gc.disable()
data = open(path, "rb").read()
def seconds(work, times=3):
    taken = []
    for _ in range(times):
        begin = time.process_time()
        work()
        taken.append(time.process_time() - begin)
    return taken
def rate(taken):
    return len(data) / taken / 1e6
"""
GIGATOKEN = """
import gigatoken
t = gigatoken.Tokenizer.from_json(open(folder + "/tokenizer.json").read())
documents = [data[i:i + 10000] for i in range(0, len(data), 10000)]
work = %s
work(b"A first text.", [b"A first text."])
taken = seconds(lambda: work(data, documents), 13)
print(json.dumps({"encode, cold": rate(taken[0]), "encode, warm": rate(min(taken[1:]))}))
"""
PEERS = {  # programs of each; of several the better figure of a row counts
    "gigatoken": [GIGATOKEN % way for way in (
        "lambda text, documents: t.encode(text)",
        "lambda text, documents: t.encode_batch(gigatoken.BytesSource(text), parallel=False)",
        "lambda text, documents: t.encode_batch(documents, parallel=False)")],
    "tokenizers": ["""
import tokenizers
t = tokenizers.Tokenizer.from_file(folder + "/tokenizer.json")
documents = [data[i:i + 10000].decode(errors="ignore") for i in range(0, len(data), 10000)]
print(json.dumps({"full encoding": rate(min(seconds(lambda: t.encode_batch(documents), 2)))}))
"""],
    "tiktoken": ["""
import tiktoken
alphabet = [*range(33, 127), *range(161, 173), *range(174, 256)]
others = [byte for byte in range(256) if byte not in alphabet]
byte_of = {chr(b): b for b in alphabet} | {chr(256 + i): b for i, b in enumerate(others)}
vocab = json.load(open(folder + "/tokenizer.json"))["model"]["vocab"]
ranks = {bytes(byte_of[c] for c in token): i for token, i in vocab.items() if token[0] != "<" or len(token) < 9}
t = tiktoken.Encoding("gpt2", mergeable_ranks=ranks, special_tokens={}, pat_str=
    r"'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++$|\\s+(?!\\S)|\\s")
ids = t.encode_ordinary(data.decode(errors="ignore"))
print(json.dumps({"decode": rate(min(seconds(lambda: t.decode_bytes(ids), 12)))}))
"""],
}

ENVIRONMENT = {
    "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1000000000"
                      ":glibc.malloc.trim_threshold=4000000000"}
KINDS = ("english", "multilingual")

# Row of ours; what it is compared with (a peer, or another row of ours); the goal as a
# ratio, or a bound of the figure itself.
ROWS = [
    ("encode, warm", "gigatoken", {"english": 1.05, "multilingual": 1.0}),
    ("encode, cold", "gigatoken", {"english": 1.3, "multilingual": 1.0}),
    ("full encoding", "tokenizers", {"english": 60, "multilingual": None}),
    ("decode", "tiktoken", {"english": 20, "multilingual": None}),
    ("encode, 2 threads", "encode, 1 thread", {"english": 1.9, "multilingual": 1.9}),
    ("shards, 2 threads", "encode, 2 threads", {"english": 0.6, "multilingual": 0.6}),
    ("split", None, {}),
]
BOUNDS = [("load", 15, "ms"), ("image", 1, "ms"), ("tokenizer and cache", 16, "MB")]
TRAINING = ("train 30,000", "tokenizers", 15)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", default="build/tests/bench_tokenizer")
    parser.add_argument("--normglue", default="./normglue")
    parser.add_argument("--vocab")
    parser.add_argument("--merges")
    parser.add_argument("--english")
    parser.add_argument("--multilingual")
    parser.add_argument("--train", help="a longer text to train on, besides the English one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--as-installed", action="store_true", help="the C library's own allocator, as users run all of them")
    parser.add_argument("--only", action="append", default=[], help="rows whose names contain this; may be repeated")
    return parser.parse_args()


def is_wanted(a, row):
    return not a.only or any(part in row for part in a.only)


def unpacked(folder, name, given, limit=-1):
    """A file of the tests, or what was given, in the folder; at most `limit` bytes."""
    source = given or os.path.join(DATA, name + ".gz")
    path = os.path.join(folder, os.path.basename(name))
    with open(source, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    with (gzip.open if packed else open)(source, "rb") as file, open(path, "wb") as out:
        text = file.read(limit)
        out.write(text.decode(errors="ignore").encode())
    return path


def write_tokenizer_json(folder, vocab, merges):
    with open(merges, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file]
    with open(vocab, encoding="utf-8") as file:
        model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                 "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                 "ignore_merges": False, "vocab": json.load(file),
                 "merges": [line for line in lines if line and not line.startswith("#version")]}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
             "pre_tokenizer": level, "post_processor": None, "decoder": level, "model": model}
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump(whole, file)


def run_ours(a, files, kind, rows, environment):
    only = [argument for row in rows for argument in ("--only", row)]
    out = subprocess.run([a.bench, *only, files["vocab"], files["merges"], files[kind]],
                         env=dict(os.environ, **environment), capture_output=True, text=True, check=True)
    lines = (line.split("\t") for line in out.stdout.splitlines())
    return {(name, kind if text else ""): float(figure) for name, figure, _, text in lines}


def run_peer(peer, folder, text):
    best = {}
    for program in PEERS[peer]:
        done = subprocess.run([sys.executable, "-c", COMMON + program, folder, text],
                              env=dict(os.environ, **ENVIRONMENT), capture_output=True, text=True)
        if done.returncode:
            return {}, (done.stderr.strip().splitlines() or ["failed"])[-1]
        for row, figure in json.loads(done.stdout).items():
            best[row] = max(figure, best.get(row, 0))
    return best, None


def measure(a, files, peers):
    """Figures of (who, row, kind), a round each; what failed."""
    wanted = [row for row in ROWS if is_wanted(a, row[0])]
    ours = {name for row in wanted for name in row[:2] if name and name not in PEERS}
    bounds = {row[0] for row in BOUNDS if is_wanted(a, row[0])}
    others = [peer for peer in peers if any(row[1] == peer for row in wanted)]
    found, failures = {}, {}

    def run(kind, rows, environment):
        for (row, of), figure in run_ours(a, files, kind, sorted(rows), environment).items() if rows else ():
            found.setdefault(("normglue", row, of), []).append(figure)

    for number in range(a.rounds if ours or bounds else 0):
        print("round %d of %d" % (number + 1, a.rounds), file=sys.stderr)
        run(KINDS[0], bounds, {})
        for kind in KINDS:
            run(kind, ours, dict(ENVIRONMENT, TMPDIR=files["folder"]))
            for peer in others:
                rows, failure = run_peer(peer, files["folder"], files[kind])
                if failure:
                    failures[peer] = failure
                for row, figure in rows.items():
                    found.setdefault((peer, row, kind), []).append(figure)
    return found, failures


def shown(figure, digits=1):
    return "" if figure is None else "%.*f" % (0 if figure >= 100 else digits, figure)


def print_line(*columns):
    print("%-36s %9s %-5s %-18s %9s %8s  %-14s %-10s %s" % columns)


def verdict(reached):
    return "reached" if reached else "MISSED"


def print_ratio(name, unit, ours, other, theirs, goal):
    """`ours` and `theirs` are figures of the same rounds; seconds are better when small."""
    digits = 3 if unit == "s" else 1
    pairs = list(zip(ours, theirs or []))
    ratios = [theirs / ours if unit == "s" else ours / theirs for ours, theirs in pairs]
    middle = statistics.median(ratios) if ratios else None
    print_line(name, shown(statistics.median(ours), digits), unit, other or "",
               shown(statistics.median(theirs), digits) if theirs else "", shown(middle, 2),
               "%s to %s" % (shown(min(ratios), 2), shown(max(ratios), 2)) if ratios else "",
               ">= %g x" % goal if goal else "", verdict(middle >= goal) if ratios and goal else "")


def print_rates(a, found):
    print_line("", "normglue", "", "beside", "", "ratio", "range", "goal", "")
    for kind in KINDS:
        for row, other, goals in ROWS:
            if is_wanted(a, row):
                theirs = found.get((other if other in PEERS else "normglue", row if other in PEERS else other, kind))
                print_ratio("%s, %s" % (row, kind), "MB/s", found["normglue", row, kind], other, theirs,
                            goals.get(kind))
    for row, bound, unit in BOUNDS:
        if is_wanted(a, row):
            figures = found["normglue", row, ""]
            middle = statistics.median(figures)
            print_line(row, shown(middle), unit, "", "", "", "%s to %s" % (shown(min(figures)), shown(max(figures))),
                       "<= %g %s" % (bound, unit), verdict(middle <= bound))


def print_training(a, text, has_peer):
    name, peer, goal = TRAINING
    options = types.SimpleNamespace(normglue=a.normglue, vocab_size=30000, threads=2)
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = [], []
        for _ in range(a.rounds):
            ours.append(training.run_ours(options, text, os.path.join(folder, "ours"))[0])
            if has_peer:
                theirs.append(training.run_theirs(options, text, os.path.join(folder, "theirs"))[0])
    print_ratio("%s on %.0f MB" % (name, os.path.getsize(text) / 1e6), "s", ours, peer, theirs, goal)


def main():
    a = parse()
    if a.as_installed:
        del ENVIRONMENT["GLIBC_TUNABLES"]
    peers = [peer for peer in PEERS if importlib.util.find_spec(peer)]
    missing = [peer for peer in PEERS if peer not in peers]
    if missing:
        print("not installed: %s" % ", ".join(missing))
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # no disk is measured
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        files = {"folder": folder,
                 "vocab": unpacked(folder, "gpt2-vocab.json", a.vocab),
                 "merges": unpacked(folder, "merges.txt", a.merges),
                 "english": unpacked(folder, "train/corpus_syn1m.txt", a.english, FIRST),
                 "multilingual": unpacked(folder, "train/corpus_unicode.txt", a.multilingual, FIRST)}
        write_tokenizer_json(folder, files["vocab"], files["merges"])
        found, failures = measure(a, files, peers)
        for peer, failure in failures.items():
            print("%s failed: %s" % (peer, failure))
        print_rates(a, found)
        texts = [files["english"]] + ([a.train] if a.train else [])
        for text in texts if is_wanted(a, TRAINING[0]) else []:
            print_training(a, text, "tokenizers" in peers)


if __name__ == "__main__":
    main()
