/* bytes - the byte alphabet: one printable character for each of the 256 bytes.
 *
 * 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF stand for themselves; the other 68 bytes, in rising
 * order, are U+0100, U+0101, ... So a space is U+0120 (Ġ), a newline U+010A (Ċ).
 * Source: openai/gpt-2, src/encoder.py, bytes_to_unicode. */
#ifndef TOKENIZER_BYTES_H
#define TOKENIZER_BYTES_H

#include <stddef.h>
#include <stdint.h>

#define BYTES_LAST_CHARACTER 0x143u

/* The code point of a byte, and the byte of a code point (-1: not in the alphabet). */
uint32_t bytes_to_character(unsigned char byte);
int bytes_from_character(uint32_t code);
/* The byte whose character is the `rank`th smallest (0 to 255): the order of the ids of
 * single bytes in GPT-2's vocabulary and in trained ones. */
unsigned char bytes_in_order(int rank);

/* UTF-8 of the characters of `length` bytes; writes at most 2 a byte, no NUL; the length
 * written. */
size_t bytes_to_text(char *out, const unsigned char *bytes, size_t length);
/* The bytes of UTF-8 text all of whose characters are in the alphabet; writes at most
 * `length`. SIZE_MAX when a character is not. */
size_t bytes_from_text(unsigned char *out, const char *text, size_t length);

#endif
