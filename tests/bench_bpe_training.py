#!/usr/bin/env python3
# bench_bpe_training - `normglue tokenizer train` beside the Python package tokenizers on
# the same text and threads, in interleaved rounds; the files must be equal.
#
#   tests/bench_bpe_training.py TEXT [--first BYTES] [--rounds 5] [--threads 2]
#                               [--vocab-size 30000] [--normglue ./normglue]
#
# Ours is the time of the whole process with saving; theirs that of train() alone.
import argparse
import filecmp
import os
import statistics
import subprocess
import sys
import tempfile
import time

THEIRS = """
import resource, sys, time
from tokenizers import ByteLevelBPETokenizer
text, size, folder = sys.argv[1:]
tokenizer = ByteLevelBPETokenizer()
begin = time.perf_counter()
tokenizer.train([text], vocab_size=int(size), min_frequency=2, show_progress=False,
                special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
print(time.perf_counter() - begin)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
tokenizer.save_model(folder)
"""


def run_ours(a, text, folder):
    command = [a.normglue, "tokenizer", "train", "--vocab-size", str(a.vocab_size),
               "--threads", str(a.threads), "--progress", "never", "--overwrite",
               "--output", folder, text]
    begin = time.perf_counter()
    child = subprocess.Popen(command, stderr=subprocess.PIPE)
    said = child.stderr.read()
    _, code, usage = os.wait4(child.pid, 0)
    taken = time.perf_counter() - begin
    if code:
        sys.exit(said.decode())
    return taken, usage.ru_maxrss / 1024


def run_theirs(a, text, folder):
    os.makedirs(folder, exist_ok=True)
    environment = dict(os.environ, RAYON_NUM_THREADS=str(a.threads),
                       TOKENIZERS_PARALLELISM="true")
    done = subprocess.run([sys.executable, "-c", THEIRS, text, str(a.vocab_size), folder],
                          env=environment, capture_output=True, text=True, check=True)
    taken, memory = done.stdout.split()
    return float(taken), float(memory)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("text")
    parser.add_argument("--first", type=int, help="only the first bytes of the text")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--vocab-size", type=int, default=30000)
    parser.add_argument("--normglue", default="./normglue")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = a.text
        if a.first:
            text = os.path.join(folder, "text")
            with open(a.text, "rb") as source, open(text, "wb") as part:
                part.write(source.read(a.first).decode(errors="ignore").encode())
        ours, theirs = os.path.join(folder, "ours"), os.path.join(folder, "theirs")
        rounds = [(run_ours(a, text, ours), run_theirs(a, text, theirs))
                  for _ in range(a.rounds)]
        same = filecmp.cmpfiles(ours, theirs, ["vocab.json", "merges.txt"], False)[0]
    our_time, their_time = (statistics.median(r[i][0] for r in rounds) for i in (0, 1))
    our_memory, their_memory = (max(r[i][1] for r in rounds) for i in (0, 1))
    print(f"training {a.vocab_size} on {a.text}"
          f"{f' ({a.first} bytes)' if a.first else ''}, {a.threads} threads, "
          f"median of {a.rounds}: normglue {our_time:.3f} s {our_memory:.0f} MB, "
          f"tokenizers {their_time:.3f} s {their_memory:.0f} MB, "
          f"{their_time / our_time:.1f} x; files "
          f"{'equal' if len(same) == 2 else 'DIFFER'}")
    sys.exit(len(same) != 2)


if __name__ == "__main__":
    main()
