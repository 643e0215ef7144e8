/* bytes - the byte alphabet: one printable character for each of the 256 bytes.
 *
 * GPT-2 wants every byte to be a visible character, so that vocabularies and merges are
 * text files in which no token holds a blank. The alphabet is arithmetic, not a table:
 * 188 bytes stand for themselves, the others are counted through from U+0100.
 *
 *   byte        0x00-0x20      0x7F-0xA0      0xAD     all others
 *   character   U+0100-U+0120  U+0121-U+0142  U+0143   the byte itself */
#include "tokenizer/bytes.h"

#include "tokenizer/unicode.h"

/* The bytes that do not stand for themselves are three ranges and one byte. The first 33
 * are 0x00-0x20, then 0x7F-0xA0, then 0xAD. */
enum { FIRST_RANGE = 0x21, SECOND_RANGE = 0xA1 - 0x7F };

uint32_t bytes_to_character(unsigned char byte) {
    if (byte <= 0x20)
        return 0x100u + byte;
    if (byte >= 0x7F && byte <= 0xA0)
        return 0x100u + FIRST_RANGE + (byte - 0x7Fu);
    return byte == 0xAD ? BYTES_LAST_CHARACTER : byte;
}

int bytes_from_character(uint32_t code) {
    if (code > BYTES_LAST_CHARACTER)
        return -1;
    if (code == BYTES_LAST_CHARACTER)
        return 0xAD;
    if (code >= 0x100 + FIRST_RANGE)
        return (int)(code - 0x100 - FIRST_RANGE + 0x7F);
    if (code >= 0x100)
        return (int)(code - 0x100);
    return bytes_to_character((unsigned char)code) == code ? (int)code : -1;
}

unsigned char bytes_in_order(int rank) {
    enum { GRAPHIC = 0x7F - 0x21, LATIN = 0xAD - 0xA1, REST = 0x100 - 0xAE };
    if (rank < GRAPHIC)
        return (unsigned char)(0x21 + rank);
    if (rank < GRAPHIC + LATIN)
        return (unsigned char)(0xA1 + rank - GRAPHIC);
    if (rank < GRAPHIC + LATIN + REST)
        return (unsigned char)(0xAE + rank - GRAPHIC - LATIN);
    return (unsigned char)bytes_from_character(0x100u +
                                               (uint32_t)(rank - GRAPHIC - LATIN - REST));
}

size_t bytes_to_text(char *out, const unsigned char *bytes, size_t length) {
    size_t written = 0;
    for (size_t i = 0; i < length; i++) {
        char utf8[4];
        size_t n = unicode_encode(bytes_to_character(bytes[i]), utf8);
        out[written++] = utf8[0];
        if (n == 2)
            out[written++] = utf8[1];
    }
    return written;
}

size_t bytes_from_text(unsigned char *out, const char *text, size_t length) {
    size_t written = 0;
    for (size_t at = 0; at < length;) {
        uint32_t code;
        at += unicode_decode((const unsigned char *)text + at, length - at, &code);
        int byte = code == UNICODE_BAD ? -1 : bytes_from_character(code);
        if (byte < 0)
            return SIZE_MAX;
        out[written++] = (unsigned char)byte;
    }
    return written;
}
