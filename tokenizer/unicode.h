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

enum unicode_class unicode_class(uint32_t code);
/* \w of the Rust regex: alphabetic, mark, decimal number, connector, join control. */
bool unicode_is_word(uint32_t code);

#define UNICODE_BAD UINT32_MAX
#define UNICODE_REPLACEMENT 0xFFFDu

/* Bytes of the character at text[0], 1 to 4, and its code point. When no well-formed
 * character starts there, *code is UNICODE_BAD and the result is the length of the
 * maximal subpart, what one U+FFFD stands for (Unicode 16, section 3.9). length >= 1. */
size_t unicode_decode(const unsigned char *text, size_t length, uint32_t *code);
/* Writes 1 to 4 bytes; `code` is a scalar value. */
size_t unicode_encode(uint32_t code, char out[4]);
/* Offset of the first byte that is no UTF-8; `length` when all of it is. */
size_t unicode_valid_prefix(const unsigned char *text, size_t length);
bool unicode_is_ascii(const unsigned char *text, size_t length);
/* Appends the text with each maximal subpart of what is no UTF-8 as U+FFFD. */
enum status unicode_add_lossy(struct buffer *out, const unsigned char *text,
                              size_t length, struct error *err) MUST_CHECK;

#endif
