/* unicode - UTF-8 and the character classes of the pre-tokenizer.
 *
 * UTF-8 as in table 3-7 of the Unicode standard: no overlong forms, no surrogates,
 * nothing above U+10FFFF. What is damaged is replaced by maximal subparts (section 3.9,
 * as WHATWG, Python and Rust do), so that "E2 82 41" is one U+FFFD and an 'A'.
 *
 * The classes are two bits a code point in blocks of 128, equal blocks stored once: one
 * indirection and a shift, 8 KiB in all. Validation decodes character by character; where
 * there are vectors they pass over what is good, 32 bytes at a time. */
#include "tokenizer/unicode.h"

#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

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

#ifdef __AVX2__
/* What may be wrong with two neighbouring bytes, a bit a kind, as the upper and lower
 * half of the first and the upper half of the second allow it: wrong is what all three
 * allow. Keiser and Lemire, "Validating UTF-8 in less than one instruction per byte",
 * 2021. */
enum {
    TOO_SHORT = 1,  /* a lead, then no continuation */
    TOO_LONG = 2,   /* ASCII, then a continuation */
    OVERLONG_3 = 4, /* E0 and less than A0 */
    TOO_LARGE = 8,  /* F4 and more than 8F, or F5 and more */
    SURROGATE = 16, /* ED and more than 9F */
    OVERLONG_2 = 32,
    OVERLONG_4 = 64, /* F0 and less than 90, or F5 and more and less than 90 */
    TWO_CONTS = 128, /* right only as the third or fourth byte of a character */
    ALWAYS = TOO_SHORT | TOO_LONG | TWO_CONTS,
    LARGE = ALWAYS | TOO_LARGE | OVERLONG_4,
    SECOND = TOO_LONG | OVERLONG_2 | TWO_CONTS
};

/* clang-format off */
static const unsigned char first_upper[16] = {
    TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG,
    TWO_CONTS, TWO_CONTS, TWO_CONTS, TWO_CONTS,
    TOO_SHORT | OVERLONG_2, TOO_SHORT, TOO_SHORT | OVERLONG_3 | SURROGATE,
    TOO_SHORT | TOO_LARGE | OVERLONG_4};
static const unsigned char first_lower[16] = {
    ALWAYS | OVERLONG_2 | OVERLONG_3 | OVERLONG_4, ALWAYS | OVERLONG_2, ALWAYS, ALWAYS,
    ALWAYS | TOO_LARGE, LARGE, LARGE, LARGE, LARGE, LARGE, LARGE, LARGE, LARGE,
    LARGE | SURROGATE, LARGE, LARGE};
static const unsigned char second_upper[16] = {
    TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT,
    TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT,
    SECOND | OVERLONG_3 | OVERLONG_4, SECOND | OVERLONG_3 | TOO_LARGE,
    SECOND | SURROGATE | TOO_LARGE, SECOND | SURROGATE | TOO_LARGE,
    TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT};
/* clang-format on */

static __m256i look_up(__m256i halves, const unsigned char table[16]) {
    __m128i sixteen = _mm_loadu_si128((const __m128i *)(const void *)table);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(sixteen), halves);
}

static __m256i upper_half(__m256i bytes) {
    return _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15));
}

static __m256i load_32(const unsigned char *bytes) {
    return _mm256_loadu_si256((const __m256i *)(const void *)bytes);
}

/* Not 0 where 32 bytes, before which three more can be read, are no UTF-8. */
static __m256i errors_at(const unsigned char *at) {
    __m256i second = load_32(at), first = load_32(at - 1);
    __m256i lower = _mm256_and_si256(first, _mm256_set1_epi8(15));
    __m256i wrong =
        _mm256_and_si256(look_up(upper_half(first), first_upper),
                         _mm256_and_si256(look_up(lower, first_lower),
                                          look_up(upper_half(second), second_upper)));
    /* Two continuations are right behind a lead of three or four bytes, and needed. */
    __m256i third = _mm256_subs_epu8(load_32(at - 2), _mm256_set1_epi8(0xE0 - 0x80));
    __m256i fourth = _mm256_subs_epu8(load_32(at - 3), _mm256_set1_epi8(0xF0 - 0x80));
    __m256i needed = _mm256_and_si256(_mm256_or_si256(third, fourth),
                                      _mm256_set1_epi8(TWO_CONTS - 256));
    return _mm256_xor_si256(wrong, needed);
}

/* Passes over blocks without an error; the result is where a character starts up to which
 * all is good. */
static size_t valid_blocks(const unsigned char *text, size_t length) {
    size_t at = 0;
    while (at < 3 && at < length) {
        uint32_t code;
        at += unicode_decode(text + at, length - at, &code);
        if (code == UNICODE_BAD)
            return 0;
    }
    if (at < 3)
        return 0;
    for (; at + 32 <= length; at += 32) {
        __m256i high = _mm256_or_si256(load_32(text + at), load_32(text + at - 3));
        if (_mm256_movemask_epi8(high) == 0)
            continue;
        __m256i errors = errors_at(text + at);
        if (!_mm256_testz_si256(errors, errors))
            break;
    }
    for (size_t back = 1; back <= 3; back++)
        if (text[at - back] >= 0xC0)
            return at - back;
    return at;
}
#else
static size_t valid_blocks(const unsigned char *text, size_t length) {
    (void)text;
    (void)length;
    return 0;
}
#endif

/* The specification; the blocks before are only quicker. */
size_t unicode_valid_prefix(const unsigned char *text, size_t length) {
    size_t at = valid_blocks(text, length);
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
