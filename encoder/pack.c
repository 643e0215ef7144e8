/* pack - weights in the blocks of products, converted on the way.
 *
 *   B (k, n) in f32        block 0: k 0-15, n 0-63   block 1: k 16-31, n 0-63 ...
 *   a block                64 words of k = 0, 64 of k = 1 ... (4 KiB)
 *   in bf16                a word is (k, k + 1): 32 of k a block
 *
 * A thread makes whole blocks. What costs is reading weights from memory, so each row is
 * read in stretches of 2 KiB, long enough to stream, and rearranged from the cache. */
#include "encoder/pack.h"

#include <stdbool.h>
#include <string.h>

#include "encoder/bf16.h"
#include "encoder/rows.h"
#include "encoder/small_product.h"
#include "encoder/turn.h"

enum { COLUMNS = 64, WORDS = 16, BLOCK = COLUMNS * WORDS /* words */ };

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Elements along k that a block holds, and the blocks of a column of them. */
static int64_t depth(enum dtype dtype) { return dtype == DTYPE_F32 ? WORDS : 2 * WORDS; }
static int64_t blocks_down(enum dtype dtype, int64_t k) {
    return (k + depth(dtype) - 1) / depth(dtype);
}

size_t pack_bytes(enum dtype dtype, int64_t k, int64_t n) {
    const int64_t along = (n + COLUMNS - 1) / COLUMNS;
    return (size_t)(along * blocks_down(dtype, k)) * BLOCK * 4;
}

/* Weights come from memory, not from a cache: they are read row by row, a few hundred
 * floats at a time, and are turned or interleaved from there. */
enum { STRETCH = 512 };

/* Blocks of w^T from `columns` rows of w, `count` elements of each. */
static void transpose_stretch(uint32_t *to, enum dtype dtype, const float *w, int64_t ld,
                              int64_t columns, int64_t count) {
    uint16_t rounded[COLUMNS][STRETCH];
    const int64_t step = depth(dtype);
    for (int64_t r = 0; dtype == DTYPE_BF16 && r < columns; r++) {
        bf16_from_floats(rounded[r], w + r * ld, count);
        if (count % 2)
            rounded[r][count] = 0;
    }
    for (int64_t i = 0; i < count; i += step, to += BLOCK) {
        const int64_t left = least(step, count - i);
        if (left < step)
            memset(to, 0, BLOCK * sizeof *to);
        if (dtype == DTYPE_F32)
            small_product_transpose(to, COLUMNS, w + i, ld, columns, left);
        else
            small_product_transpose(to, COLUMNS, &rounded[0][i], STRETCH / 2, columns,
                                    (left + 1) / 2);
    }
}

void pack_transposed(void *to, enum dtype dtype, struct tensor w, int threads) {
    const int64_t n = w.rows, k = w.columns, down = blocks_down(dtype, k);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t j = 0; j < n; j += COLUMNS)
        for (int64_t i = 0; i < k; i += STRETCH)
            transpose_stretch(
                (uint32_t *)to + (j / COLUMNS * down + i / depth(dtype)) * BLOCK, dtype,
                tensor_floats(w) + j * k + i, k, least(COLUMNS, n - j),
                least(STRETCH, k - i));
}

/* Element (i, j) of x. */
static const void *element(struct tensor x, int64_t i, int64_t j) {
    return (const unsigned char *)rows_at(x, i) + (size_t)j * dtype_bytes(x.dtype);
}

/* `count` words: two rows of bf16 side by side, from floats or bf16; high NULL = 0. */
static void pair_rows(uint32_t *to, enum dtype from, const void *low, const void *high,
                      int64_t count) {
    if (from == DTYPE_F32)
        bf16_pair_floats(to, low, high, count);
    else
        bf16_pair(to, low, high, count);
}

/* A line of words of every block along n from row i of x on, or from rows i and i + 1. */
static void copy_line(uint32_t *to, enum dtype dtype, struct tensor x, int64_t i,
                      int64_t down) {
    const bool has_next = i + 1 < x.rows;
    for (int64_t j = 0; j < x.columns; j += COLUMNS, to += down * BLOCK) {
        const int64_t count = least(COLUMNS, x.columns - j);
        if (dtype == DTYPE_F32)
            memcpy(to, element(x, i, j), (size_t)count * sizeof *to);
        else
            pair_rows(to, x.dtype, element(x, i, j),
                      has_next ? element(x, i + 1, j) : NULL, count);
        if (count < COLUMNS)
            memset(to + count, 0, (size_t)(COLUMNS - count) * sizeof *to);
    }
}

static void clear_line(uint32_t *to, int64_t columns, int64_t down) {
    for (int64_t j = 0; j < columns; j += COLUMNS, to += down * BLOCK)
        memset(to, 0, COLUMNS * sizeof *to);
}

void pack_plain(void *to, enum dtype dtype, struct tensor x, int threads) {
    const int64_t down = blocks_down(dtype, x.rows), step = depth(dtype) / WORDS;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t block = 0; block < down; block++)
        for (int64_t line = 0; line < WORDS; line++) {
            const int64_t i = block * depth(dtype) + line * step;
            uint32_t *words = (uint32_t *)to + block * BLOCK + line * COLUMNS;
            if (i < x.rows)
                copy_line(words, dtype, x, i, down);
            else
                clear_line(words, x.columns, down);
        }
}

enum { TILE = 64 /* rows of y that are turned at a time */ };

/* Rows i .. i + count - 1 of y: words i / 2 .. of the turned rows in bf16. */
static void turn_tile(uint32_t *to, int64_t ld, struct tensor y, int64_t i, int64_t count,
                      int64_t column, int64_t columns) {
    uint32_t pairs[TILE / 2 * COLUMNS];
    if (y.dtype == DTYPE_F32) {
        small_product_turn(to + i, ld, element(y, i, column), y.columns, count, columns);
        return;
    }
    small_product_pair(y.dtype, pairs, COLUMNS, element(y, i, column), y.columns, count,
                       columns);
    small_product_turn(to + i / 2, ld, pairs, COLUMNS, (count + 1) / 2, columns);
}

/* A whole strip in one go, where it has only whole tiles. */
static bool turn_strip(uint32_t *to, int64_t ld, struct tensor y, int64_t column,
                       int64_t columns) {
    return y.dtype == DTYPE_BF16 && y.rows % TURN_TILE == 0 && columns % TURN_TILE == 0 &&
           turn_bf16((uint16_t *)to, 2 * ld, element(y, 0, column), y.columns, y.rows,
                     columns);
}

void pack_columns(void *to, struct tensor y, int64_t first, int64_t m, int threads) {
    const int64_t ld = small_product_words(y.dtype, pack_even(y.rows));
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t j = 0; j < m; j += COLUMNS) {
        uint32_t *strip = (uint32_t *)to + j * ld;
        const int64_t columns = least(COLUMNS, m - j);
        if (!turn_strip(strip, ld, y, first + j, columns))
            for (int64_t i = 0; i < y.rows; i += TILE)
                turn_tile(strip, ld, y, i, least(TILE, y.rows - i), first + j, columns);
    }
    if (y.dtype == DTYPE_F32 && y.rows % 2)
        for (int64_t j = 0; j < m; j++)
            ((float *)to)[j * ld + y.rows] = 0;
}
