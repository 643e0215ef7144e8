/* unicode - UTF-8 and the character classes of the pre-tokenizer.
 *
 * UTF-8 as in table 3-7 of the Unicode standard: no overlong forms, no surrogates,
 * nothing above U+10FFFF. What is damaged is replaced by maximal subparts (section 3.9,
 * as WHATWG, Python and Rust do), so that "E2 82 41" is one U+FFFD and an 'A'.
 *
 * The classes are two bits a code point in blocks of 128, equal blocks stored once: one
 * indirection and a shift, 8 KiB in all. Validation passes over ASCII eight bytes at a
 * time; what it costs beside encoding is small enough for no vector code. */
#include "tokenizer/unicode.h"

#include <string.h>

#include "tokenizer/unicode_table.h"

const char unicode_version[] = UNICODE_TABLE_VERSION;

bool unicode_is_word(uint32_t code) {
    size_t low = 0;
    size_t high = sizeof unicode_word_ranges / sizeof *unicode_word_ranges;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (code > unicode_word_ranges[middle][1])
            low = middle + 1;
        else
            high = middle;
    }
    return low < sizeof unicode_word_ranges / sizeof *unicode_word_ranges &&
           code >= unicode_word_ranges[low][0];
}

size_t unicode_encode(uint32_t code, char out[4]) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)(0xF00u >> length | code);
    return length;
}

size_t unicode_valid_prefix(const unsigned char *text, size_t length) {
    size_t at = 0;
    while (at < length) {
        uint64_t eight;
        while (at + 8 <= length && (memcpy(&eight, text + at, 8), true) &&
               !(eight & 0x8080808080808080u))
            at += 8;
        if (at == length)
            break;
        uint32_t code;
        size_t bytes = unicode_decode(text + at, length - at, &code);
        if (code == UNICODE_BAD)
            break;
        at += bytes;
    }
    return at;
}

bool unicode_is_ascii(const unsigned char *text, size_t length) {
    unsigned char all = 0;
    for (size_t i = 0; i < length; i++)
        all |= text[i];
    return all < 0x80;
}

enum status unicode_add_lossy(struct buffer *out, const unsigned char *text,
                              size_t length, struct error *err) {
    size_t at = 0;
    for (;;) {
        size_t valid = unicode_valid_prefix(text + at, length - at);
        TRY(buffer_add(out, text + at, valid, err));
        at += valid;
        if (at == length)
            return OK;
        uint32_t code;
        at += unicode_decode(text + at, length - at, &code);
        TRY(buffer_add(out, "\xEF\xBF\xBD", 3, err));
    }
}
