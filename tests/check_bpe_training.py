#!/usr/bin/env python3
# check_bpe_training - `normglue tokenizer train` against the Python package tokenizers:
# random corpora, random options, vocab.json and merges.txt compared byte for byte.
#
#   tests/check_bpe_training.py [--runs 200] [--seed 1] [--normglue ./normglue]
#
# Not part of `make test`: it needs `pip install tokenizers`.
import argparse
import filecmp
import gzip
import os
import random
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
ALPHABETS = [
    "ab", "abc ", "aab  \n", "etaoin shrdlu", "'sdtmrevl a", "0123456789.-, ", "\r\n\t x",
    "äöüßé e\u0301\u0300", "абвгд еж", "中文字符漢", "日本語テキスト ", "한국어 가나",
    "हिन्दी का", "العربية ا", "😀🇩🇪👩‍💻 ", "\u00a0\u2003\u3000\u200b x", "ĠĊé Ġ", "ǅﬁﬀ²ⅷİ i",
]
NORMALIZERS = {"nfc": normalizers.NFC, "nfd": normalizers.NFD, "nfkc": normalizers.NFKC,
               "nfkd": normalizers.NFKD, "lowercase": normalizers.Lowercase}


def random_words(r):
    """Words of one or two alphabets, so that some come again and again."""
    letters = "".join(r.sample(ALPHABETS, r.randint(1, 3)))
    return ["".join(r.choice(letters) for _ in range(r.choice([1, 2, 3, 5, 8, 13, 40])))
            for _ in range(r.randint(1, 200))]


def random_text(r):
    words = random_words(r) + r.sample(ROBERTA, r.randint(0, 2))
    weights = [1 / (i + 1) for i in range(len(words))]
    separators = r.choice([[" "], [" ", "\n"], ["", " ", "  ", "\n", "\n\n", "\t", "\r\n"]])
    parts = []
    for word in r.choices(words, weights, k=r.choice([0, 10, 300, 3000, 3000, 20000])):
        parts += [word, r.choice(separators)]
    return "".join(parts)


def random_specials(r):
    if r.random() < 0.5:
        return ROBERTA
    pool = ROBERTA + ["a", "Ġ", "ab", "aa", "Ġa", "th", "<|endoftext|>", "中", "é", "[CLS] x"]
    return r.sample(pool, r.randint(1, 8))


def random_options(r):
    specials = random_specials(r)
    return {
        "specials": specials,
        "vocab_size": 256 + len(specials) + r.choice([0, 1, 20, 300, 2000, 2000]),
        "min_frequency": r.choice([0, 0, 1, 2, 2, 3, 10]),
        "max_token_length": r.choice([None, None, 2, 3, 5, 16]),
        "add_prefix_space": r.random() < 0.3,
        "normalization": r.choice([None, None, None] + list(NORMALIZERS)),
    }


def write_corpus(folder, r):
    paths = []
    for i in range(r.randint(1, 3)):
        packed = r.random() < 0.3
        path = os.path.join(folder, f"corpus{i}.txt")
        data = random_text(r).encode()
        with open(path, "wb") as f:
            f.write(data)
        if packed:
            with gzip.open(path + ".gz", "wb") as f:
                f.write(data)
        paths.append((path, path + ".gz" if packed else path))
    return paths


def train_theirs(folder, paths, o):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=o["add_prefix_space"])
    if o["normalization"]:
        tokenizer.normalizer = NORMALIZERS[o["normalization"]]()
    limit = {} if o["max_token_length"] is None else {
        "max_token_length": o["max_token_length"]}
    tokenizer.train([plain for plain, _ in paths], trainers.BpeTrainer(
        vocab_size=o["vocab_size"], min_frequency=o["min_frequency"], show_progress=False,
        special_tokens=o["specials"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **limit))
    os.mkdir(folder)
    tokenizer.model.save(folder)


def train_ours(program, folder, paths, o, threads):
    command = [program, "tokenizer", "train", "--output", folder,
               "--vocab-size", str(o["vocab_size"]),
               "--min-frequency", str(o["min_frequency"]),
               "--threads", str(threads), "--progress", "never"]
    if o["max_token_length"] is not None:
        command += ["--max-token-length", str(o["max_token_length"])]
    if o["add_prefix_space"]:
        command += ["--add-prefix-space"]
    if o["normalization"]:
        command += ["--normalization", o["normalization"]]
    command += ["--special-tokens"] + o["specials"] + ["--"]
    command += [packed for _, packed in paths]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"exit code {done.returncode}: {done.stderr}\n{' '.join(command)}")


def run_one(program, seed, keep):
    r = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        paths, o = write_corpus(folder, r), random_options(r)
        theirs, ours = os.path.join(folder, "theirs"), os.path.join(folder, "ours")
        train_theirs(theirs, paths, o)
        train_ours(program, ours, paths, o, r.randint(1, 3))
        files = ["vocab.json", "merges.txt"]
        same = filecmp.cmpfiles(theirs, ours, files, shallow=False)[0]
        if len(same) == 2:
            return True
        print(f"seed {seed}: {set(files) - set(same)} differ with {o}")
        if keep:
            subprocess.run(["cp", "-r", folder, keep])
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--normglue", default="./normglue")
    parser.add_argument("--keep", help="copy the files of a run that differs here")
    a = parser.parse_args()
    seeds = range(a.seed * 1000000, a.seed * 1000000 + a.runs)
    good = sum(run_one(a.normglue, seed, a.keep) for seed in seeds)
    print(f"{a.runs} random training runs, {a.runs - good} differences")
    sys.exit(good != a.runs)


if __name__ == "__main__":
    main()
