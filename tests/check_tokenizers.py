#!/usr/bin/env python3
"""check_tokenizers - differential run of `normglue tokenizer encode` against Hugging Face tokenizers.

  python3 tests/check_tokenizers.py [--strings N] [--mixed BYTES] [--seed N] [--normglue build/normglue]

Each round makes a tokenizer.json (GPT-2's vocabulary or a small trained one; random added
tokens with random flags; add_prefix_space, post-processor and normalizer at random), opens
it in both, and compares ids, tokens, offsets, word ids, sequence ids and special tokens
mask of random strings and pairs, truncated or not, and the ids of all of them as a file
whose lines keep their newlines. Truncated pairs are compared with the full longest-first rule, as releases
since 0.23 stop early. With --mixed then the ids of so many bytes of such text in lines of up
to 100 kB, by GPT-2's tokenizer. Needs the package tokenizers; not part of `make test`."""
import argparse, array, gzip, json, os, random, re, subprocess, sys, tempfile, unicodedata

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers import processors, trainers

DATA = os.path.join(os.path.dirname(__file__), "data", "tokenizer")
WORDS = """the of and to in is that it was for on are as with his they at be this from have or by one had not but what
all were when we there can an your which their said if do will each about how up out them then she many some so these
would other into has more her two like him see time could no make than first been its who now people my made over did
down only way find use may water long little very after words called just where most know""".split()
SPACES = [chr(c) for c in (9, 11, 12, 13, 32, 32, 32, 32, 0x85, 0xA0, 0x1680, 0x2003, 0x2028, 0x202F, 0x205F, 0x3000)]
NOT_SPACES = [chr(c) for c in (0x1C, 0x1F, 0x180E, 0x200B, 0x200D, 0x2060, 0xFEFF, 0xAD, 0)]
QUOTES = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'RE", "\u2019s", "'", "''", "'l", "'v", "'r"]
MARKS = [chr(c) for c in (0x300, 0x301, 0x308, 0x5B4, 0x64E, 0x93F, 0x94D, 0xE31, 0x20E3, 0xFE0F)]
CONTENTS = ["<mask>", "<s>", "</s>", "[W]", "<L>", "<R>", "foo", "foobar", "the", " x ", "\u4e2d", "\u00e9!", "ing",
            "\u0120q", "<|im_start|>", "a b", "\u00c9T\u00c9", "The", "\ufb01"]
JAMO = "\u3131\u314f\uffa1\uffc2\u1100\u1161\u11a8"


def scalar(rng):
    while True:
        plane = rng.choice((0x80, 0x250, 0x3100, 0xFFFF, 0x1FFFF, 0x2FFFF, 0x10FFFF))
        code = rng.randrange(plane)
        if not 0xD800 <= code <= 0xDFFF and code not in (9, 10) and assigned(code):
            return chr(code)


def assigned(code):
    # Normalisation differs between libraries in characters that are newer than their tables.
    old = unicodedata.ucd_3_2_0.category(chr(code)) != "Cn"
    plain = unicodedata.normalize("NFKC", chr(code)) == chr(code) and not unicodedata.combining(chr(code))
    return old or plain and unicodedata.category(chr(code)) != "Cn"


def piece(rng):
    kind = rng.randrange(13)
    if kind < 4:
        return rng.choice(("", " ", " ")) + rng.choice(WORDS)
    if kind == 4:
        return "".join(rng.choice(SPACES) for _ in range(rng.randrange(1, 4)))
    if kind == 5:
        return rng.choice(QUOTES)
    if kind == 6:
        return str(rng.randrange(10 ** rng.randrange(1, 12)))
    if kind == 7:
        return rng.choice(CONTENTS)
    if kind == 8:
        return "".join(scalar(rng) for _ in range(rng.randrange(1, 6)))
    if kind == 9:
        return "".join(rng.choice("!?.,;:-_=+*/\\\"#$%&()[]{}<>|~^`@") for _ in range(rng.randrange(1, 5)))
    if kind == 10:
        return rng.choice(NOT_SPACES)
    if kind == 11:
        return rng.choice("aeo" + JAMO) + rng.choice(MARKS) * rng.randrange(3)
    return rng.choice(("a", "=", "0", "ab", " ", "\u4e2d", "\U0001f600", ".", "_")) * rng.randrange(1, 60)


def text(rng):
    return "".join(piece(rng) for _ in range(rng.randrange(10))).replace("\n", "").replace("\t", "\x0b")


def gpt2():
    vocab = json.load(gzip.open(os.path.join(DATA, "gpt2-vocab.json.gz"), "rt", encoding="utf-8"))
    lines = gzip.open(os.path.join(DATA, "merges.txt.gz"), "rt", encoding="utf-8").read().split("\n")
    return vocab, [tuple(line.split(" ")) for line in lines[1:] if line]


def trained(rng):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet() if rng.random() < 0.7 else []
    trainer = trainers.BpeTrainer(vocab_size=rng.choice((300, 600, 2000)), show_progress=False,
                                  initial_alphabet=alphabet)
    tokenizer.train_from_iterator([text(rng) for _ in range(300)], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges = [tuple(m) for m in model["merges"]]
    if rng.random() < 0.4:
        rng.shuffle(merges)  # an order that no training gives
    return model["vocab"], merges, len(alphabet) > 0


def make(rng, base):
    """A tokenizer and what of it is comparable: offsets not after normalisation (they are
    exact to what composes together only) nor with missing bytes."""
    complete = True
    if rng.random() < 0.5:
        vocab, merges = base
    else:
        vocab, merges, complete = trained(rng)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    prefix, offsets = rng.random() < 0.4, complete
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    if rng.random() < 0.3:
        steps = rng.sample([normalizers.NFC(), normalizers.NFKC(), normalizers.Lowercase(), normalizers.NFD()],
                           rng.randrange(1, 3))
        tokenizer.normalizer = steps[0] if len(steps) == 1 else normalizers.Sequence(steps)
        offsets = False
    contents = ["<s>", "</s>"] + rng.sample(CONTENTS[3:], rng.randrange(8))
    if "the" in contents and "The" in contents:
        contents.remove("The")  # which of two equal ones counts is chance there: it differs from run to run
    if rng.random() < 0.7:
        contents.append("<mask>")
    for content in contents:
        flags = {key: rng.random() < 0.3 for key in ("single_word", "lstrip", "rstrip")}
        token = AddedToken(content, normalized=rng.random() < 0.5, **flags)
        (tokenizer.add_special_tokens if rng.random() < 0.4 else tokenizer.add_tokens)([token])
    kind = rng.randrange(3)
    if kind == 0:
        tokenizer.post_processor = processors.RobertaProcessing(
            ("</s>", tokenizer.token_to_id("</s>")), ("<s>", tokenizer.token_to_id("<s>")),
            trim_offsets=rng.random() < 0.7, add_prefix_space=prefix)
    elif kind == 1:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=rng.random() < 0.5, add_prefix_space=prefix)
    return tokenizer, offsets, kind == 0


def run(args, directory, options, lines):
    command = [args.normglue, "tokenizer", "encode", "--tokenizer", directory, *options]
    done = subprocess.run(command, input=lines, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit("exit code %d: %s" % (done.returncode, done.stderr.decode()))
    return done.stdout


def longest_first(a, b, most):
    n, m = (len(a), len(b)) if len(a) <= len(b) else (len(b), len(a))
    if n + m > most:
        m = n if n > most else max(n, most - n)
        if n + m > most:
            n, m = most // 2, most // 2 + most % 2
    return (a[:n], b[:m]) if len(a) <= len(b) else (a[:m], b[:n])


def expected(tokenizer, line, special, offsets):
    encoding = tokenizer.encode(*(line if isinstance(line, tuple) else (line,)), add_special_tokens=special)
    row = {"ids": encoding.ids, "special_tokens_mask": encoding.special_tokens_mask,
           "word_ids": encoding.word_ids, "sequence_ids": encoding.sequence_ids}
    if offsets:
        row["offsets"] = [list(pair) for pair in encoding.offsets]
    return row


class Report:
    compared = differences = 0

    def check(self, what, line, found, wanted):
        self.compared += 1
        if found != wanted:
            self.differences += 1
            if self.differences <= 20:
                print("%s: %.300r\n  expected %.600r\n  found    %.600r" % (what, line, wanted, found))


def compare(args, rng, report, tokenizer, directory, offsets, framed):
    strings = [text(rng) for _ in range(args.round)]
    pairs = [(text(rng), text(rng)) for _ in range(args.round // 4)]
    for special in (False, True):
        options = ["--format", "jsonl"] + ["--special-tokens"] * special
        lines = run(args, directory, options, "".join(s + "\n" for s in strings).encode()).decode().split("\n")
        for line, found in zip(strings, lines):
            wanted = expected(tokenizer, line, special, offsets)
            found = json.loads(found)
            report.check("text", line, {key: found[key] for key in wanted}, wanted)
    lines = run(args, directory, ["--format", "jsonl", "--pairs"],
                "".join("%s\t%s\n" % p for p in pairs).encode()).decode().split("\n")
    for pair, found in zip(pairs, lines):
        wanted = expected(tokenizer, pair, True, offsets)
        found = json.loads(found)
        report.check("pair", pair, {key: found[key] for key in wanted}, wanted)
    most = rng.randrange(4, 20)
    lines = run(args, directory, ["--pairs", "--max-length", str(most)],
                "".join("%s\t%s\n" % p for p in pairs).encode()).decode().split("\n")
    for pair, found in zip(pairs, lines):
        a, b = (tokenizer.encode(s, add_special_tokens=False).ids for s in pair)
        a, b = longest_first(a, b, most - 4 * framed)
        if framed:
            cls, sep = tokenizer.token_to_id("<s>"), tokenizer.token_to_id("</s>")
            a, b = [cls] + a + [sep], [sep] + b + [sep]
        report.check("truncated pair", pair, [int(i) for i in found.split()], a + b)
    whole = rng.choice(("\n", "\n\n", " \n", "\n ")).join(strings)
    ids = array.array("I", run(args, directory, ["--format", "u32"], whole.encode()))
    wanted = []
    for line in re.findall("[^\n]*\n|[^\n]+", whole):
        wanted += tokenizer.encode(line, add_special_tokens=False).ids
    report.check("lines with their newlines", whole[:60], list(ids), wanted)


def mixed_lines(rng, size):
    while size > 0:
        wanted, pieces = min(size, rng.choice((100, 1000, 10000, 100000))), []
        while wanted > 0:
            pieces.append(piece(rng).replace("\n", "").replace("\t", "\x0b"))
            wanted -= len(pieces[-1].encode())
        yield "".join(pieces)
        size -= sum(len(part.encode()) for part in pieces)


def compare_mixed(args, rng, report, base):
    tokenizer = Tokenizer(models.BPE(vocab=base[0], merges=base[1]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    lines = list(mixed_lines(rng, args.mixed))
    with tempfile.TemporaryDirectory() as directory:
        tokenizer.save(os.path.join(directory, "tokenizer.json"))
        found = run(args, directory, [], "".join(line + "\n" for line in lines).encode()).decode().split("\n")
    for line, ids in zip(lines, found):
        report.check("mixed line", line[:60], [int(i) for i in ids.split()],
                     tokenizer.encode(line, add_special_tokens=False).ids)
    print("%d lines of mixed text, %d bytes" % (len(lines), sum(len(line.encode()) for line in lines)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--strings", type=int, default=20000)
    parser.add_argument("--mixed", type=int, default=0)
    parser.add_argument("--round", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--normglue", default="build/normglue")
    args = parser.parse_args()
    base, report, strings, seed = gpt2(), Report(), 0, args.seed
    while strings < args.strings:
        rng = random.Random(seed)
        tokenizer, offsets, framed = make(rng, base)
        before = report.differences
        with tempfile.TemporaryDirectory() as directory:
            tokenizer.save(os.path.join(directory, "tokenizer.json"))
            compare(args, rng, report, tokenizer, directory, offsets, framed)
        if report.differences > before:
            print("seed %d: %d differences" % (seed, report.differences - before))
        strings += args.round + args.round // 4 * 2
        seed += 1
    if args.mixed:
        compare_mixed(args, random.Random(args.seed), report, base)
    print("%d strings, %d tokenizers, %d comparisons: %d differences"
          % (strings, seed - args.seed, report.compared, report.differences))
    sys.exit(report.differences > 0)


main()
