/* pack - weights in the blocks of products, converted on the way. */
#include "encoder/pack.h"

#include <string.h>

#include "encoder/bf16.h"
#include "encoder/small_product.h"

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

/* One block of w^T: `columns` rows of w, `count` elements of each. */
static void transpose_block(uint32_t *to, enum dtype dtype, const float *w, int64_t ld,
                            int64_t columns, int64_t count) {
    uint16_t rounded[COLUMNS][2 * WORDS];
    if (count < depth(dtype))
        memset(to, 0, BLOCK * sizeof *to);
    if (dtype == DTYPE_F32) {
        small_product_transpose(to, COLUMNS, w, ld, columns, count);
        return;
    }
    for (int64_t i = 0; i < columns; i++) {
        bf16_from_floats(rounded[i], w + i * ld, count);
        if (count % 2)
            rounded[i][count] = 0;
    }
    small_product_transpose(to, COLUMNS, rounded, WORDS, columns, (count + 1) / 2);
}

void pack_transposed(void *to, enum dtype dtype, const float *w, int64_t k, int64_t n,
                     int threads) {
    const int64_t down = blocks_down(dtype, k);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t j = 0; j < n; j += COLUMNS) {
        uint32_t *block = (uint32_t *)to + j / COLUMNS * down * BLOCK;
        for (int64_t i = 0; i < k; i += depth(dtype), block += BLOCK)
            transpose_block(block, dtype, w + j * k + i, k, least(COLUMNS, n - j),
                            least(depth(dtype), k - i));
    }
}

/* One block of w: `count` rows, `columns` elements of each. */
static void copy_block(uint32_t *to, enum dtype dtype, const float *w, int64_t ld,
                       int64_t count, int64_t columns) {
    uint16_t rounded[2][COLUMNS];
    if (count < depth(dtype))
        memset(to, 0, BLOCK * sizeof *to);
    if (dtype == DTYPE_F32) {
        small_product_pair(dtype, to, COLUMNS, w, ld, count, columns);
        return;
    }
    for (int64_t i = 0; i < count; i += 2, to += COLUMNS) {
        const int64_t rows = least(2, count - i);
        for (int64_t r = 0; r < rows; r++)
            bf16_from_floats(rounded[r], w + (i + r) * ld, columns);
        small_product_pair(dtype, to, COLUMNS, rounded, COLUMNS, rows, columns);
    }
}

void pack_plain(void *to, enum dtype dtype, const float *w, int64_t k, int64_t n,
                int threads) {
    const int64_t down = blocks_down(dtype, k);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < k; i += depth(dtype))
        for (int64_t j = 0; j < n; j += COLUMNS)
            copy_block((uint32_t *)to + (j / COLUMNS * down + i / depth(dtype)) * BLOCK,
                       dtype, w + i * n + j, n, least(depth(dtype), k - i),
                       least(COLUMNS, n - j));
}
