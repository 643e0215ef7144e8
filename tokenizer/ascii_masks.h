/* ascii_masks - 64 bytes as bit masks of the pre-tokenizer's classes, a bit a byte; in
 * portable C, with AVX2 and with AVX-512. All three give the same masks.
 *
 * Of what is beyond ASCII only the commonest letters of two bytes have masks: U+00C0 to
 * U+027F but for the signs U+00D7 and U+00F7 (bytes C3 97, C3 B7), and U+0400 to U+047F,
 * that is Latin and Cyrillic. All others are left to the table of classes.
 *
 * Inline, so that each path of the caller is one function compiled for its processor.
 *
 * The trick that all three share: with unsigned bytes, c - first < count is one
 * comparison for a range, as what lies below `first` wraps round to a large number; (c |
 * 32) folds upper case onto lower. AVX2 has no unsigned comparison, so min(x, most) == x
 * stands in for x <= most. */
#ifndef TOKENIZER_ASCII_MASKS_H
#define TOKENIZER_ASCII_MASKS_H

#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define ASCII_MASKS_X86 1
#endif

enum { ASCII_MASKS_BYTES = 64 };

struct ascii_masks {
    uint64_t letter, number, space;     /* space: 0x20 only */
    uint64_t blank;                     /* other whitespace: \t \n \v \f \r */
    uint64_t newline, apostrophe, high; /* high: no ASCII; in none of the others */
};

struct two_byte_masks {
    uint64_t c3, sign;           /* byte C3; 97 or B7 */
    uint64_t lead, continuation; /* C4 to C9, D0 or D1; 80 to BF */
};

#define ASCII_MASKS_INLINE inline __attribute__((always_inline))

/* Both bytes of those letters. */
static ASCII_MASKS_INLINE uint64_t ascii_masks_letters_of_two(struct two_byte_masks m) {
    uint64_t first = m.lead & m.continuation >> 1;
    first |= m.c3 & (m.continuation & ~m.sign) >> 1;
    return first | first << 1;
}

static ASCII_MASKS_INLINE struct ascii_masks ascii_masks_portable(
    const unsigned char *bytes) {
    struct ascii_masks m = {0};
    for (int i = 0; i < ASCII_MASKS_BYTES; i++) {
        unsigned c = bytes[i];
        m.letter |= (uint64_t)((c | 32) - 'a' < 26) << i;
        m.number |= (uint64_t)(c - '0' < 10) << i;
        m.space |= (uint64_t)(c == ' ') << i;
        m.blank |= (uint64_t)(c - '\t' < 5) << i;
        m.newline |= (uint64_t)(c == '\n') << i;
        m.apostrophe |= (uint64_t)(c == '\'') << i;
        m.high |= (uint64_t)(c >> 7) << i;
    }
    return m;
}

static ASCII_MASKS_INLINE uint64_t ascii_masks_two_portable(const unsigned char *bytes) {
    struct two_byte_masks m = {0};
    for (int i = 0; i < ASCII_MASKS_BYTES; i++) {
        unsigned c = bytes[i];
        m.c3 |= (uint64_t)(c == 0xC3) << i;
        m.sign |= (uint64_t)((c | 32) == 0xB7) << i;
        m.lead |= (uint64_t)(c - 0xC4 < 6 || c - 0xD0 < 2) << i;
        m.continuation |= (uint64_t)(c - 0x80 < 64) << i;
    }
    return ascii_masks_letters_of_two(m);
}

#ifdef ASCII_MASKS_X86

#define ASCII_MASKS_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define ASCII_MASKS_AVX512 \
    __attribute__((target("avx512f,avx512bw,avx512vbmi2,avx2,bmi,bmi2,lzcnt,popcnt")))

/* Bytes of `v` within [first, first + count). */
ASCII_MASKS_AVX2 static ASCII_MASKS_INLINE uint64_t ascii_masks_within_2(__m256i v,
                                                                         char first,
                                                                         char count) {
    __m256i offset = _mm256_sub_epi8(v, _mm256_set1_epi8(first));
    __m256i most = _mm256_set1_epi8((char)(count - 1));
    __m256i inside = _mm256_cmpeq_epi8(_mm256_min_epu8(offset, most), offset);
    return (uint32_t)_mm256_movemask_epi8(inside);
}

ASCII_MASKS_AVX2 static ASCII_MASKS_INLINE struct ascii_masks ascii_masks_half(
    const unsigned char *bytes) {
    __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)bytes);
    __m256i lower = _mm256_or_si256(v, _mm256_set1_epi8(32));
    return (struct ascii_masks){
        .letter = ascii_masks_within_2(lower, 'a', 26),
        .number = ascii_masks_within_2(v, '0', 10),
        .space = ascii_masks_within_2(v, ' ', 1),
        .blank = ascii_masks_within_2(v, '\t', 5),
        .newline = ascii_masks_within_2(v, '\n', 1),
        .apostrophe = ascii_masks_within_2(v, '\'', 1),
        .high = (uint32_t)_mm256_movemask_epi8(v),
    };
}

ASCII_MASKS_AVX2 static ASCII_MASKS_INLINE struct ascii_masks ascii_masks_avx2(
    const unsigned char *bytes) {
    struct ascii_masks low = ascii_masks_half(bytes), up = ascii_masks_half(bytes + 32);
    return (struct ascii_masks){
        low.letter | up.letter << 32,   low.number | up.number << 32,
        low.space | up.space << 32,     low.blank | up.blank << 32,
        low.newline | up.newline << 32, low.apostrophe | up.apostrophe << 32,
        low.high | up.high << 32,
    };
}

ASCII_MASKS_AVX2 static ASCII_MASKS_INLINE struct two_byte_masks ascii_masks_two_half(
    const unsigned char *bytes) {
    __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)bytes);
    __m256i folded = _mm256_or_si256(v, _mm256_set1_epi8(32));
    return (struct two_byte_masks){
        .c3 = ascii_masks_within_2(v, (char)0xC3, 1),
        .sign = ascii_masks_within_2(folded, (char)0xB7, 1),
        .lead = ascii_masks_within_2(v, (char)0xC4, 6) |
                ascii_masks_within_2(v, (char)0xD0, 2),
        .continuation = ascii_masks_within_2(v, (char)0x80, 64),
    };
}

ASCII_MASKS_AVX2 static ASCII_MASKS_INLINE uint64_t
ascii_masks_two_avx2(const unsigned char *bytes) {
    struct two_byte_masks low = ascii_masks_two_half(bytes),
                          up = ascii_masks_two_half(bytes + 32);
    return ascii_masks_letters_of_two((struct two_byte_masks){
        low.c3 | up.c3 << 32, low.sign | up.sign << 32, low.lead | up.lead << 32,
        low.continuation | up.continuation << 32});
}

ASCII_MASKS_AVX512 static ASCII_MASKS_INLINE uint64_t ascii_masks_within_5(__m512i v,
                                                                           char first,
                                                                           char count) {
    return _mm512_cmplt_epu8_mask(_mm512_sub_epi8(v, _mm512_set1_epi8(first)),
                                  _mm512_set1_epi8(count));
}

ASCII_MASKS_AVX512 static ASCII_MASKS_INLINE struct ascii_masks ascii_masks_avx512(
    const unsigned char *bytes) {
    __m512i v = _mm512_loadu_si512((const void *)bytes);
    __m512i lower = _mm512_or_si512(v, _mm512_set1_epi8(32));
    return (struct ascii_masks){
        .letter = ascii_masks_within_5(lower, 'a', 26),
        .number = ascii_masks_within_5(v, '0', 10),
        .space = ascii_masks_within_5(v, ' ', 1),
        .blank = ascii_masks_within_5(v, '\t', 5),
        .newline = ascii_masks_within_5(v, '\n', 1),
        .apostrophe = ascii_masks_within_5(v, '\'', 1),
        .high = _mm512_movepi8_mask(v),
    };
}

ASCII_MASKS_AVX512 static ASCII_MASKS_INLINE uint64_t
ascii_masks_two_avx512(const unsigned char *bytes) {
    __m512i v = _mm512_loadu_si512((const void *)bytes);
    __m512i folded = _mm512_or_si512(v, _mm512_set1_epi8(32));
    return ascii_masks_letters_of_two((struct two_byte_masks){
        .c3 = ascii_masks_within_5(v, (char)0xC3, 1),
        .sign = ascii_masks_within_5(folded, (char)0xB7, 1),
        .lead = ascii_masks_within_5(v, (char)0xC4, 6) |
                ascii_masks_within_5(v, (char)0xD0, 2),
        .continuation = ascii_masks_within_5(v, (char)0x80, 64),
    });
}

#endif
#endif
