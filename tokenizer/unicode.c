/* unicode - UTF-8 and the character classes of the pre-tokenizer. */
#include "tokenizer/unicode.h"

#include <string.h>

#include "tokenizer/unicode_table.h"

const char unicode_version[] = UNICODE_TABLE_VERSION;

enum unicode_class unicode_class(uint32_t code) {
    uint32_t block = code >> 7;
    if (block >= UNICODE_BLOCKS)
        return UNICODE_OTHER;
    uint64_t word = unicode_block[unicode_block_index[block]][code >> 5 & 3];
    return (enum unicode_class)(word >> 2 * (code & 31) & 3);
}

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

/* The range of the second byte, which is what excludes overlong forms, surrogates and
 * values above U+10FFFF (Unicode 16, table 3-7). */
static bool second_byte_fits(unsigned char lead, unsigned char second) {
    unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

size_t unicode_decode(const unsigned char *text, size_t length, uint32_t *code) {
    unsigned char lead = text[0];
    *code = lead;
    if (lead < 0x80)
        return 1;
    *code = UNICODE_BAD;
    size_t need = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (lead < 0xC2 || lead > 0xF4 || length < 2 || !second_byte_fits(lead, text[1]))
        return 1;
    uint32_t value = (lead & (0x7Fu >> need)) << 6 | (text[1] & 0x3F);
    for (size_t i = 2; i < need; i++) {
        if (i >= length || (text[i] & 0xC0) != 0x80)
            return i;
        value = value << 6 | (text[i] & 0x3F);
    }
    *code = value;
    return need;
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
