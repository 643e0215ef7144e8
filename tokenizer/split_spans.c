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
 * The next 64 bytes begin at the last start found, so nothing is carried over. What is
 * not ASCII, and what is longer than a block, goes to split_next, which is the
 * specification; the tests compare the two. The idea of classifying whole registers is
 * that of simdjson (Langdale and Lemire, 2019). */
#include <stdbool.h>
#include <string.h>

#include "tokenizer/ascii_masks.h"
#include "tokenizer/split.h"

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
static ASCII_MASKS_INLINE size_t emit(struct walk *w, size_t at, uint64_t starts) {
    if (!starts)
        return at;
    size_t *ends = w->ends + w->count;
    size_t count = (size_t)__builtin_popcountll(starts);
    for (size_t i = 0; i < count; i += 8)
        for (size_t j = i; j < i + 8; j++, starts &= starts - 1)
            ends[j] = at + (size_t)__builtin_ctzll(starts | (uint64_t)1 << (BLOCK - 1));
    w->count += count;
    return ends[count - 1];
}

/* The starts within the block at `at` that are certain, without the first. *is_end: they
 * are all that the text still has. */
static ASCII_MASKS_INLINE uint64_t
certain_starts(const struct walk *w, size_t at, bool *is_end,
               struct ascii_masks (*masks)(const unsigned char *)) {
    unsigned char tail[BLOCK + 2] = {0};
    const unsigned char *block = w->text + at;
    size_t known = w->length - at < BLOCK ? w->length - at : BLOCK;
    *is_end = known == w->length - at;
    if (w->length - at < BLOCK + 2)
        block = memcpy(tail, block, known);
    struct ascii_masks m = masks(block);
    if (m.high) {
        known = (size_t)__builtin_ctzll(m.high);
        *is_end = false;
    }
    uint64_t starts = find_starts(block, &m, known, w->by_line) & ~(uint64_t)1;
    size_t sure = *is_end ? known : known > 1 ? known - 1 : 0;
    return sure < BLOCK ? starts & (((uint64_t)1 << sure) - 1) : starts;
}

static ASCII_MASKS_INLINE size_t
scan(struct walk *w, size_t at, struct ascii_masks (*masks)(const unsigned char *)) {
    bool has_room = w->max >= BLOCK;
    while (at < w->length && w->count < w->max) {
        /* A block's worth of room is left for the next call rather than stepped through.
         */
        if (has_room && w->max - w->count < BLOCK)
            break;
        if (!has_room || w->text[at] >= 0x80) {
            at = step(w, at);
            continue;
        }
        bool is_end;
        uint64_t starts = certain_starts(w, at, &is_end, masks);
        if (starts == 0 && !is_end) {
            at = step(w, at);
            continue;
        }
        at = emit(w, at, starts);
        if (is_end)
            at = w->ends[w->count++] = w->length;
    }
    return w->count;
}

static size_t scan_portable(struct walk *w, size_t at) {
    return scan(w, at, ascii_masks_portable);
}

#ifdef ASCII_MASKS_X86
ASCII_MASKS_AVX2 static size_t scan_avx2(struct walk *w, size_t at) {
    return scan(w, at, ascii_masks_avx2);
}

ASCII_MASKS_AVX512 static size_t scan_avx512(struct walk *w, size_t at) {
    return scan(w, at, ascii_masks_avx512);
}
#endif

enum split_path split_best_path(void) {
#ifdef ASCII_MASKS_X86
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("bmi2"))
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
