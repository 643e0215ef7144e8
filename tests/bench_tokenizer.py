#!/usr/bin/env python3
# bench_tokenizer - the tokenizer beside the Python packages gigatoken, tokenizers and
# tiktoken, as far as they are installed: one table of medians over interleaved rounds.
#
#   make bench-tokenizer [PYTHON=python3] [BENCH="--english TEXT --multilingual TEXT
#                         --train TEXT --vocab vocab.json --merges merges.txt --rounds 5"]
#
# Every round starts a process for each of us in turn. Each peer works in its fastest way:
# gigatoken on bytes, after a first short text; tokenizers in batches of 10 kB documents;
# tiktoken decoding to bytes. Figures are of processor time, best of three in a process,
# where one thread works, and of the clock where two do. Without texts those of the tests
# are taken, which are small and no natural language.
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
import json, sys, time
folder, path = sys.argv[1:]
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
PEERS = {
    "gigatoken": """
import gigatoken
t = gigatoken.Tokenizer.from_json(open(folder + "/tokenizer.json").read())
t.encode(b"A first text.")
taken = seconds(lambda: t.encode(data), 4)
print(json.dumps({"encode, cold": rate(taken[0]), "encode, warm": rate(min(taken[1:]))}))
""",
    "tokenizers": """
import tokenizers
t = tokenizers.Tokenizer.from_file(folder + "/tokenizer.json")
documents = [data[i:i + 10000].decode(errors="ignore") for i in range(0, len(data), 10000)]
print(json.dumps({"full encoding": rate(min(seconds(lambda: t.encode_batch(documents), 2)))}))
""",
    "tiktoken": """
import tiktoken
alphabet = [*range(33, 127), *range(161, 173), *range(174, 256)]
others = [byte for byte in range(256) if byte not in alphabet]
byte_of = {chr(b): b for b in alphabet} | {chr(256 + i): b for i, b in enumerate(others)}
vocab = json.load(open(folder + "/tokenizer.json"))["model"]["vocab"]
ranks = {bytes(byte_of[c] for c in token): i for token, i in vocab.items() if token[0] != "<" or len(token) < 9}
t = tiktoken.Encoding("gpt2", mergeable_ranks=ranks, special_tokens={}, pat_str=
    r"'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++$|\\s+(?!\\S)|\\s")
ids = t.encode_ordinary(data.decode(errors="ignore"))
print(json.dumps({"decode": rate(min(seconds(lambda: t.decode_bytes(ids))))}))
""",
}

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
BOUNDS = [("load", 15), ("tokenizer and cache", 16)]


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
    return parser.parse_args()


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


def run_ours(a, files):
    out = subprocess.run([a.bench, files["vocab"], files["merges"], files["english"], files["multilingual"]],
                         env=dict(os.environ, TMPDIR=files["folder"]), capture_output=True, text=True, check=True)
    kinds = {files["english"]: "english", files["multilingual"]: "multilingual", "": ""}
    lines = (line.split("\t") for line in out.stdout.splitlines())
    return {(name, kinds[text]): float(figure) for name, figure, _, text in lines}


def run_peer(peer, folder, text):
    environment = dict(os.environ, RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    done = subprocess.run([sys.executable, "-c", COMMON + PEERS[peer], folder, text],
                          env=environment, capture_output=True, text=True)
    if done.returncode:
        return {}, (done.stderr.strip().splitlines() or ["failed"])[-1]
    return json.loads(done.stdout), None


def measure(a, files, peers):
    found, failures = {}, {}
    for number in range(a.rounds):
        print("round %d of %d" % (number + 1, a.rounds), file=sys.stderr)
        for (row, kind), figure in run_ours(a, files).items():
            found.setdefault(("normglue", row, kind), []).append(figure)
        for peer in peers:
            for kind in ("english", "multilingual"):
                rows, failure = run_peer(peer, files["folder"], files[kind])
                if failure:
                    failures[peer] = failure
                for row, figure in rows.items():
                    found.setdefault((peer, row, kind), []).append(figure)
    return {key: statistics.median(figures) for key, figures in found.items()}, failures


def print_row(name, ours, unit, other="", theirs=None, ratio=None, goal=""):
    def shown(figure, digits):
        return "" if figure is None else "%.*f" % (0 if figure >= 100 else digits, figure)
    digits = 3 if unit == "s" else 1
    print("%-32s %9s %-5s %-18s %8s %7s  %s"
          % (name, shown(ours, digits), unit, other, shown(theirs, digits), shown(ratio, 2), goal))


def print_rates(found):
    for kind in ("english", "multilingual"):
        for row, other, goals in ROWS:
            ours = found[("normglue", row, kind)]
            key = (other, row, kind) if other in PEERS else ("normglue", other, kind)
            theirs = found.get(key)
            goal = goals.get(kind)
            print_row("%s, %s" % (row, kind), ours, "MB/s", other or "", theirs,
                      ours / theirs if theirs else None, ">= %g x" % goal if goal else "")
    for row, bound in BOUNDS:
        unit = "ms" if row == "load" else "MB"
        print_row(row, found[("normglue", row, "")], unit, goal="<= %g %s" % (bound, unit))


def print_training(a, text, has_peer):
    options = types.SimpleNamespace(normglue=a.normglue, vocab_size=30000, threads=2)
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = [], []
        for _ in range(a.rounds):
            ours.append(training.run_ours(options, text, os.path.join(folder, "ours"))[0])
            if has_peer:
                theirs.append(training.run_theirs(options, text, os.path.join(folder, "theirs"))[0])
    name = "train 30,000 on %.0f MB" % (os.path.getsize(text) / 1e6)
    median = statistics.median(ours)
    ratio = statistics.median(theirs) / median if theirs else None
    print_row(name, median, "s", "tokenizers", statistics.median(theirs) if theirs else None, ratio, ">= 15 x")


def main():
    a = parse()
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
        print("%-32s %9s %-5s %-18s %8s %7s  %s" % ("", "normglue", "", "beside", "", "ratio", "goal"))
        print_rates(found)
        for text in [files["english"]] + ([a.train] if a.train else []):
            print_training(a, text, "tokenizers" in peers)


if __name__ == "__main__":
    main()
