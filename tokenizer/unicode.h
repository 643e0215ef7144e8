/* unicode - UTF-8 and the character classes of the pre-tokenizer.
 *
 * The classes are those of Hugging Face tokenizers 0.23 (Unicode 16.0, see
 * unicode_table.h), which is newer than utf8proc's: \p{L}, \p{N}, \s and the rest
 * partition the scalar values. Marks, controls, unassigned and private use are "other".
 */
#ifndef TOKENIZER_UNICODE_H
#define TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

enum unicode_class { UNICODE_OTHER, UNICODE_LETTER, UNICODE_NUMBER, UNICODE_SPACE };

extern const char unicode_version[]; /* "16.0" */

/* unicode_table.h: which block of 128 code points is where, and two bits for each. */
enum { UNICODE_BLOCKS = 1608 }; /* all above is "other" */
extern const uint8_t unicode_block_index[UNICODE_BLOCKS];
extern const uint64_t unicode_block[][4];

static inline enum unicode_class unicode_class(uint32_t code) {
    uint32_t block = code >> 7;
    if (block >= UNICODE_BLOCKS)
        return UNICODE_OTHER;
    uint64_t word = unicode_block[unicode_block_index[block]][code >> 5 & 3];
    return (enum unicode_class)(word >> 2 * (code & 31) & 3);
}
/* \w of the Rust regex: alphabetic, mark, decimal number, connector, join control. */
bool unicode_is_word(uint32_t code);

#define UNICODE_BAD UINT32_MAX
#define UNICODE_REPLACEMENT 0xFFFDu

/* Bytes of the character at text[0], 1 to 4, and its code point. When no well-formed
 * character starts there, *code is UNICODE_BAD and the result is the length of the
 * maximal subpart, what one U+FFFD stands for (Unicode 16, section 3.9). length >= 1. */
static inline size_t unicode_decode(const unsigned char *text, size_t length,
                                    uint32_t *code);
/* Writes 1 to 4 bytes; `code` is a scalar value. */
size_t unicode_encode(uint32_t code, char out[4]);
/* Offset of the first byte that is no UTF-8; `length` when all of it is. */
size_t unicode_valid_prefix(const unsigned char *text, size_t length);
/* True for an empty text. */
bool unicode_is_ascii(const unsigned char *text, size_t length);
/* Appends the text with each maximal subpart of what is no UTF-8 as U+FFFD. */
enum status unicode_add_lossy(struct buffer *out, const unsigned char *text,
                              size_t length, struct error *err) MUST_CHECK;

/* The range of the second byte, which is what excludes overlong forms, surrogates and
 * values above U+10FFFF (Unicode 16, table 3-7). */
static inline bool unicode_second_byte_fits(unsigned char lead, unsigned char second) {
    unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

static inline size_t unicode_decode(const unsigned char *text, size_t length,
                                    uint32_t *code) {
    unsigned char lead = text[0];
    *code = lead;
    if (lead < 0x80)
        return 1;
    /* Most of what follows, shorter: leads after which any continuation is good. */
    if (lead >= 0xE1 && lead <= 0xEC && length >= 3 &&
        ((text[1] ^ 0x80) | (text[2] ^ 0x80)) < 0x40) {
        *code = (lead & 0xFu) << 12 | (text[1] & 0x3Fu) << 6 | (text[2] & 0x3Fu);
        return 3;
    }
    if (lead >= 0xC2 && lead <= 0xDF && length >= 2 && (text[1] ^ 0x80) < 0x40) {
        *code = (lead & 0x1Fu) << 6 | (text[1] & 0x3Fu);
        return 2;
    }
    *code = UNICODE_BAD;
    size_t need = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (lead < 0xC2 || lead > 0xF4 || length < 2 ||
        !unicode_second_byte_fits(lead, text[1]))
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

#endif
