#!/usr/bin/env python3
"""make_unicode_table - writes tokenizer/unicode_table.h.

usage: make_unicode_table.py CLASSES.tsv > tokenizer/unicode_table.h

CLASSES.tsv holds the ranges of \\p{L}, \\p{N} and \\s as Hugging Face tokenizers 0.23.2
sees them (tests/data/tokenizer). The ranges of \\w, which decide where a single_word token
may stand, are probed here from the installed Python package tokenizers.
"""
import sys

BLOCK = 128


def classes(path):
    table = {}
    for line in open(path):
        if line.startswith("#"):
            continue
        start, end, name = line.split()
        for code in range(int(start, 16), int(end, 16) + 1):
            table[code] = " LNS".index(name)
    return table


def blocks(table):
    limit = -(-(max(table) + 1) // BLOCK)
    index, unique = [], []
    for block in range(limit):
        bits = [table.get(block * BLOCK + i, 0) for i in range(BLOCK)]
        words = tuple(
            sum(c << 2 * i for i, c in enumerate(bits[w : w + 32])) for w in range(0, BLOCK, 32)
        )
        if words not in unique:
            unique.append(words)
        index.append(unique.index(words))
    return index, unique


def word_ranges():
    import tokenizers

    model = tokenizers.models.BPE(vocab={}, merges=[])
    probe = tokenizers.Tokenizer(model)
    probe.add_tokens([tokenizers.AddedToken("#", single_word=True, normalized=False)])
    ranges = []
    for code in range(0x110000):
        if 0xD800 <= code <= 0xDFFF or code == 0x23:
            continue
        if probe.encode(chr(code) + "#").ids:
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return ranges


def rows(items, per_line):
    for i in range(0, len(items), per_line):
        print("    " + ", ".join(items[i : i + per_line]) + ",")


def main():
    index, unique = blocks(classes(sys.argv[1]))
    words = word_ranges()
    print("/* unicode_table - made by tests/make_unicode_table.py; not edited by hand.")
    print(" *")
    print(" * Classes of Unicode 16.0 as Hugging Face tokenizers 0.23.2 has them. */")
    print("#ifndef TOKENIZER_UNICODE_TABLE_H\n#define TOKENIZER_UNICODE_TABLE_H\n")
    print("#include <stdint.h>\n")
    print("/* clang-format off */")
    print('#define UNICODE_TABLE_VERSION "16.0"')
    print("_Static_assert(UNICODE_BLOCKS == %d, \"unicode.h: blocks of %d code points\");\n" % (len(index), BLOCK))
    print("const uint8_t unicode_block_index[UNICODE_BLOCKS] = {")
    rows(["%d" % i for i in index], 24)
    print("};\n\n/* Two bits a code point: 0 other, 1 letter, 2 number, 3 space. */")
    print("const uint64_t unicode_block[%d][4] = {" % len(unique))
    rows(["{" + ", ".join("0x%x" % w for w in block) + "}" for block in unique], 1)
    print("};\n\n/* \\w: first and last code point of each range. */")
    print("static const uint32_t unicode_word_ranges[%d][2] = {" % len(words))
    rows(["{0x%x, 0x%x}" % tuple(r) for r in words], 4)
    print("};\n/* clang-format on */\n\n#endif")


main()
