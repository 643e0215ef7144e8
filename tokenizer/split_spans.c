/* split_spans - many pre-tokens at once.
 *
 * 64 bytes from the start of a pre-token on become bit masks, from which shifts and ANDs
 * give the starts of the pre-tokens in them:
 *
 *   letter, digit, other   starts one unless the byte before is of its class or a space
 *   whitespace             starts one if none precedes it, or if it is the last of its
 *                          run (that one is left to what follows)
 *   contractions           found at apostrophes that start one, which are few
 *
 * The next 64 bytes begin at the last start found, so nothing is carried over. Characters
 * beyond ASCII get their classes from the table, all bytes of one the same, unless they
 * are the commonest, which have masks too. Chinese and Japanese, white space beyond ASCII
 * and what is longer than a block go to split_next, which is the specification; the tests
 * compare the two. The idea of classifying whole registers is that of simdjson (Langdale
 * and Lemire, 2019). */
#include <stdbool.h>
#include <string.h>

#include "tokenizer/ascii_masks.h"
#include "tokenizer/split.h"
#include "tokenizer/unicode.h"

enum { BLOCK = ASCII_MASKS_BYTES };

struct walk {
    const unsigned char *text;
    size_t length;
    bool by_line;    /* the text ends, and begins again, after each '\n' */
    size_t line_end; /* by_line: of the line last stepped through */
    size_t *ends;
    size_t max, count;
};

static size_t contraction(const unsigned char *at) {
    unsigned char a = at[1], b = at[2];
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    bool is_two =
        (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
    return is_two ? 3 : 0;
}

/* A contraction ends where it ends, though a letter follows. */
static ASCII_MASKS_INLINE uint64_t cut_contractions(const unsigned char *block,
                                                    const struct ascii_masks *m,
                                                    uint64_t starts) {
    const uint64_t one = 1;
    uint64_t candidates = starts & m->apostrophe & m->letter >> 1;
    for (; candidates; candidates &= candidates - 1) {
        int i = __builtin_ctzll(candidates);
        size_t length = contraction(block + i);
        if (length) {
            starts &= ~(one << (i + 1));
            starts |= i + (int)length < BLOCK ? one << (i + (int)length) : 0;
        }
    }
    return starts;
}

/* Starts of pre-tokens in a block of which `known` bytes are ASCII text. The first is
 * one. Those whose place depends on what follows the known bytes are wrong. */
static ASCII_MASKS_INLINE uint64_t find_starts(const unsigned char *block,
                                               const struct ascii_masks *m, size_t known,
                                               bool by_line) {
    uint64_t beyond = known < BLOCK ? ~(uint64_t)0 << known : 0;
    uint64_t white = m->space | m->blank | beyond;
    uint64_t next_white = white >> 1 | (uint64_t)1 << (BLOCK - 1);
    uint64_t other = ~(m->letter | m->number | white);
    uint64_t same = (m->letter & m->letter << 1) | (m->number & m->number << 1) |
                    (other & other << 1);
    uint64_t line_ends = by_line ? m->newline : 0;
    uint64_t starts = ~white & ~same & ~(m->space << 1);
    starts |= white & (~(white << 1) | ~(next_white | line_ends));
    starts |= line_ends << 1 | 1;
    return cut_contractions(block, m, starts);
}

/* The first byte of most characters of scripts that put no spaces between words. */
static ASCII_MASKS_INLINE bool is_unspaced(unsigned char lead) {
    return lead >= 0xE3 && lead <= 0xE9;
}

/* Gives every byte of a character beyond ASCII its class; `letters` are known. The result
 * is the number of bytes known then: up to white space, the last character of which is no
 * single byte, to what is no whole character, and to long runs. */
static ASCII_MASKS_INLINE size_t add_high(const unsigned char *block,
                                          struct ascii_masks *m, uint64_t letters,
                                          size_t known) {
    m->letter |= letters;
    for (uint64_t rest = m->high & ~letters; rest;) {
        size_t at = (size_t)__builtin_ctzll(rest);
        uint32_t code;
        size_t bytes =
            is_unspaced(block[at]) ? 0 : unicode_decode(block + at, known - at, &code);
        if (bytes == 0 || code == UNICODE_BAD)
            return at;
        enum unicode_class class = unicode_class(code);
        uint64_t bits = (((uint64_t)1 << bytes) - 1) << at;
        if (class == UNICODE_SPACE)
            return at;
        m->letter |= class == UNICODE_LETTER ? bits : 0;
        m->number |= class == UNICODE_NUMBER ? bits : 0;
        rest &= ~bits;
    }
    return known;
}

/* One pre-token as split_next sees it. */
static size_t step(struct walk *w, size_t at) {
    if (at >= w->line_end) {
        const unsigned char *newline =
            w->by_line ? memchr(w->text + at, '\n', w->length - at) : NULL;
        w->line_end = newline ? (size_t)(newline - w->text) + 1 : w->length;
    }
    return w->ends[w->count++] = split_next(w->text, at, w->line_end);
}

/* Writes the places of all bits, eight at a time: how many there are decides nothing that
 * the processor has to foresee for each. There is room for BLOCK ends. */
static ASCII_MASKS_INLINE void write_places(size_t *ends, size_t at, uint64_t bits) {
    size_t count = (size_t)__builtin_popcountll(bits);
    for (size_t i = 0; i < count; i += 8)
        for (size_t j = i; j < i + 8; j++, bits &= bits - 1)
            ends[j] = at + (size_t)__builtin_ctzll(bits | (uint64_t)1 << (BLOCK - 1));
}

#ifdef ASCII_MASKS_X86
/* The same with one instruction that packs the numbers of the bits. */
ASCII_MASKS_AVX512 static ASCII_MASKS_INLINE void write_places_avx512(size_t *ends,
                                                                      size_t at,
                                                                      uint64_t bits) {
    static const unsigned char numbers[BLOCK] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
        16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
        32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
        48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    unsigned char places[BLOCK];
    __m512i packed = _mm512_maskz_compress_epi8(bits, _mm512_loadu_si512(numbers));
    __m512i from = _mm512_set1_epi64((long long)at);
    __m128i first = _mm512_castsi512_si128(packed);
    _mm512_storeu_si512(ends, _mm512_add_epi64(from, _mm512_cvtepu8_epi64(first)));
    first = _mm_srli_si128(first, 8);
    _mm512_storeu_si512(ends + 8, _mm512_add_epi64(from, _mm512_cvtepu8_epi64(first)));
    size_t count = (size_t)__builtin_popcountll(bits);
    if (count <= 16)
        return;
    _mm512_storeu_si512(places, packed);
    for (size_t i = 16; i < count; i++)
        ends[i] = at + places[i];
}
#endif

/* What a path does its own way. */
struct tools {
    struct ascii_masks (*masks)(const unsigned char *);
    uint64_t (*letters_of_two)(const unsigned char *);
    void (*write_places)(size_t *ends, size_t at, uint64_t bits);
};

/* Writes the starts, which are ends too; the last one is where to go on. */
static ASCII_MASKS_INLINE size_t emit(struct walk *w, size_t at, uint64_t starts,
                                      struct tools tools) {
    if (!starts)
        return at;
    tools.write_places(w->ends + w->count, at, starts);
    w->count += (size_t)__builtin_popcountll(starts);
    return at + BLOCK - 1 - (size_t)__builtin_clzll(starts);
}

/* The starts within the block at `at` that are certain, without the first. *is_end: they
 * are all that the text still has. */
static ASCII_MASKS_INLINE uint64_t certain_starts(const struct walk *w, size_t at,
                                                  bool *is_end, struct tools tools) {
    unsigned char tail[BLOCK + 2] = {0};
    const unsigned char *block = w->text + at;
    size_t known = w->length - at < BLOCK ? w->length - at : BLOCK;
    *is_end = known == w->length - at;
    if (w->length - at < BLOCK + 2)
        block = memcpy(tail, block, known);
    struct ascii_masks m = tools.masks(block);
    uint64_t letters = m.high ? tools.letters_of_two(block) : 0;
    size_t readable = add_high(block, &m, letters, known);
    *is_end &= readable == known;
    known = readable;
    uint64_t starts = find_starts(block, &m, known, w->by_line) & ~(uint64_t)1;
    size_t sure = *is_end ? known : known > 1 ? known - 1 : 0;
    return sure < BLOCK ? starts & (((uint64_t)1 << sure) - 1) : starts;
}

/* Is the first character but a space Chinese or Japanese? Its run is seldom within a
 * block, which would be looked at in vain. */
static ASCII_MASKS_INLINE bool begins_long_run(const struct walk *w, size_t at) {
    size_t first = at + (w->text[at] == ' ' && at + 1 < w->length);
    return is_unspaced(w->text[first]);
}

static ASCII_MASKS_INLINE size_t scan(struct walk *w, size_t at, struct tools tools) {
    bool has_room = w->max >= BLOCK;
    while (at < w->length && w->count < w->max) {
        /* A block's worth of room is left for the next call rather than stepped through.
         */
        if (has_room && w->max - w->count < BLOCK)
            break;
        if (!has_room || begins_long_run(w, at)) {
            at = step(w, at);
            continue;
        }
        bool is_end;
        uint64_t starts = certain_starts(w, at, &is_end, tools);
        if (starts == 0 && !is_end) {
            at = step(w, at);
            continue;
        }
        at = emit(w, at, starts, tools);
        if (is_end)
            at = w->ends[w->count++] = w->length;
    }
    return w->count;
}

static size_t scan_portable(struct walk *w, size_t at) {
    return scan(
        w, at,
        (struct tools){ascii_masks_portable, ascii_masks_two_portable, write_places});
}

#ifdef ASCII_MASKS_X86
ASCII_MASKS_AVX2 static size_t scan_avx2(struct walk *w, size_t at) {
    return scan(w, at,
                (struct tools){ascii_masks_avx2, ascii_masks_two_avx2, write_places});
}

ASCII_MASKS_AVX512 static size_t scan_avx512(struct walk *w, size_t at) {
    return scan(
        w, at,
        (struct tools){ascii_masks_avx512, ascii_masks_two_avx512, write_places_avx512});
}
#endif

enum split_path split_best_path(void) {
#ifdef ASCII_MASKS_X86
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi2") &&
        __builtin_cpu_supports("bmi2"))
        return SPLIT_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"))
        return SPLIT_AVX2;
#endif
    return SPLIT_PORTABLE;
}

size_t split_spans_by(enum split_path path, bool by_line, const unsigned char *text,
                      size_t start, size_t length, size_t *ends, size_t max) {
    struct walk w = {text, length, by_line, 0, ends, max, 0};
#ifdef ASCII_MASKS_X86
    if (path == SPLIT_AVX512)
        return scan_avx512(&w, start);
    if (path == SPLIT_AVX2)
        return scan_avx2(&w, start);
#endif
    (void)path;
    return scan_portable(&w, start);
}

size_t split_spans(const unsigned char *text, size_t start, size_t length, size_t *ends,
                   size_t max) {
    return split_spans_by(split_best_path(), false, text, start, length, ends, max);
}
