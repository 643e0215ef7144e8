/* small_product - register tiles in the compiler's own vector type.
 *
 * C's tile of 8 x 32 floats (AVX-512) or 6 x 16 (AVX2) stays in registers while k runs:
 * per step two vectors of B are loaded and eight words of A broadcast, 16 multiply-adds
 * for 10 loads. With bf16 a word is a pair along k, and one instruction does two
 * multiply-adds a lane in f32. Tile sizes are constants where the function is inlined, so
 * that the accumulators are registers and not an array.
 *
 * The functions for each processor are compiled into every build and chosen when called.
 */
#include "encoder/small_product.h"

#include <assert.h>
#include <string.h>

#include "encoder/bf16.h"
#include "encoder/vector.h"

#if VECTOR_BF16
#include <immintrin.h>
#endif

typedef float wide __attribute__((vector_size(64), aligned(4), may_alias));
typedef float narrow __attribute__((vector_size(32), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

/* One tile: `rows` x `vectors` accumulators, both constants where it is inlined; ADD is
 * sum += a * b for one word of A and a vector of words of B. */
#define DEFINE_TILE(name, vector, word, ADD)                                         \
    INLINE void name(const int rows, const int vectors, int64_t k, struct operand a, \
                     const float *b, int64_t ldb, float *c, int64_t ldc, int add) {  \
        enum { LANES = sizeof(vector) / sizeof(float) };                             \
        vector sum[8][2] = {0};                                                      \
        const word *left = a.data;                                                   \
        if (add)                                                                     \
            for (int i = 0; i < rows; i++)                                           \
                for (int j = 0; j < vectors; j++)                                    \
                    sum[i][j] = *(const vector *)(c + i * ldc + j * LANES);          \
        for (int64_t t = 0; t < k; t++)                                              \
            for (int i = 0; i < rows; i++)                                           \
                for (int j = 0; j < vectors; j++)                                    \
                    ADD(sum[i][j], left[i * a.row + t * a.column],                   \
                        *(const vector *)(b + t * ldb + j * LANES));                 \
        for (int i = 0; i < rows; i++)                                               \
            for (int j = 0; j < vectors; j++)                                        \
                *(vector *)(c + i * ldc + j * LANES) = sum[i][j];                    \
    }
#define ADD_FLOAT(sum, a, b) sum += (a) * (b)
DEFINE_TILE(tile_wide, wide, float, ADD_FLOAT)
DEFINE_TILE(tile_narrow, narrow, float, ADD_FLOAT)

/* Goes down `m` rows in tiles of `most`, then 4, 2 and 1. */
#define DEFINE_STRIP(name, tile, most)                                              \
    INLINE void name(const int vectors, int64_t m, int64_t k, struct operand a,     \
                     const float *b, int64_t ldb, float *c, int64_t ldc, int add) { \
        const float *left = a.data;                                                 \
        int64_t i = 0;                                                              \
        for (; m - i >= most; i += most, a.data = left + i * a.row)                 \
            tile(most, vectors, k, a, b, ldb, c + i * ldc, ldc, add);               \
        for (; m - i >= 4; i += 4, a.data = left + i * a.row)                       \
            tile(4, vectors, k, a, b, ldb, c + i * ldc, ldc, add);                  \
        for (; m - i >= 2; i += 2, a.data = left + i * a.row)                       \
            tile(2, vectors, k, a, b, ldb, c + i * ldc, ldc, add);                  \
        for (; m - i >= 1; i += 1, a.data = left + i * a.row)                       \
            tile(1, vectors, k, a, b, ldb, c + i * ldc, ldc, add);                  \
    }
DEFINE_STRIP(strip_wide, tile_wide, 8)
DEFINE_STRIP(strip_narrow, tile_narrow, 6)

/* 8 x 32 floats of C are 16 of AVX-512's 32 registers. */
#define DEFINE_WIDE(name, strip)                                                        \
    static void name(int64_t m, int64_t n, int64_t k, struct operand a, const float *b, \
                     int64_t ldb, float *c, int64_t ldc, int add) {                     \
        int64_t j = 0;                                                                  \
        for (; n - j >= 32; j += 32)                                                    \
            strip(2, m, k, a, b + j, ldb, c + j, ldc, add);                             \
        if (j < n)                                                                      \
            strip(1, m, k, a, b + j, ldb, c + j, ldc, add);                             \
    }
#if defined __x86_64__
__attribute__((target("arch=x86-64-v4")))
#endif
DEFINE_WIDE(product_wide, strip_wide)

#if VECTOR_BF16
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,avx512bf16")
    typedef int pair_of_bf16 __attribute__((aligned(4), may_alias));
#define ADD_PAIR(sum, a, b)                                                     \
    sum = (wide)_mm512_dpbf16_ps((__m512)(sum), (__m512bh)_mm512_set1_epi32(a), \
                                 (__m512bh)(b))
DEFINE_TILE(tile_pairs, wide, pair_of_bf16, ADD_PAIR)
DEFINE_STRIP(strip_pairs, tile_pairs, 8)
DEFINE_WIDE(product_pairs, strip_pairs)
#pragma GCC pop_options
#endif

/* 6 x 16 floats are 12 of AVX2's 16 registers. */
static void product_narrow(int64_t m, int64_t n, int64_t k, struct operand a,
                           const float *b, int64_t ldb, float *c, int64_t ldc, int add) {
    for (int64_t j = 0; j < n; j += 16)
        strip_narrow(2, m, k, a, b + j, ldb, c + j, ldc, add);
}

void small_product(enum dtype dtype, int64_t m, int64_t n, int64_t k, struct operand a,
                   const void *b, int64_t ldb, float *c, int64_t ldc, int add) {
#if VECTOR_BF16
    if (dtype == DTYPE_BF16) {
        product_pairs(m, n, k, a, b, ldb, c, ldc, add);
        return;
    }
#endif
    assert(dtype == DTYPE_F32);
#if defined __x86_64__
    if (__builtin_cpu_supports("x86-64-v4")) {
        product_wide(m, n, k, a, b, ldb, c, ldc, add);
        return;
    }
#endif
    product_narrow(m, n, k, a, b, ldb, c, ldc, add);
}

typedef int narrow_index __attribute__((vector_size(32)));

/* One 8 x 8 block: pairs, then quads, then halves are interleaved. */
INLINE void transpose_block(float *to, int64_t ld_to, const float *from,
                            int64_t ld_from) {
    const narrow_index low = {0, 8, 1, 9, 4, 12, 5, 13},
                       high = {2, 10, 3, 11, 6, 14, 7, 15};
    const narrow_index low2 = {0, 1, 8, 9, 4, 5, 12, 13},
                       high2 = {2, 3, 10, 11, 6, 7, 14, 15};
    const narrow_index first = {0, 1, 2, 3, 8, 9, 10, 11},
                       second = {4, 5, 6, 7, 12, 13, 14, 15};
    narrow r[8], s[8];
    for (int i = 0; i < 8; i++)
        r[i] = *(const narrow *)(from + i * ld_from);
    for (int i = 0; i < 8; i += 2) {
        s[i] = __builtin_shuffle(r[i], r[i + 1], low);
        s[i + 1] = __builtin_shuffle(r[i], r[i + 1], high);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = __builtin_shuffle(s[i + j], s[i + j + 2], low2);
            r[i + 2 * j + 1] = __builtin_shuffle(s[i + j], s[i + j + 2], high2);
        }
    for (int i = 0; i < 4; i++) {
        *(narrow *)(to + i * ld_to) = __builtin_shuffle(r[i], r[i + 4], first);
        *(narrow *)(to + (i + 4) * ld_to) = __builtin_shuffle(r[i], r[i + 4], second);
    }
}

void small_product_turn(void *words_to, int64_t ld_to, const void *words_from,
                        int64_t ld_from, int64_t rows, int64_t columns) {
    float *to = words_to;
    const float *from = words_from;
    const int64_t whole_rows = rows / 8 * 8, whole_columns = columns / 8 * 8;
    for (int64_t c = 0; c < whole_columns; c += 8)
        for (int64_t r = 0; r < whole_rows; r += 8)
            transpose_block(to + c * ld_to + r, ld_to, from + r * ld_from + c, ld_from);
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = c < whole_columns ? whole_rows : 0; r < rows; r++)
            to[c * ld_to + r] = from[r * ld_from + c];
}

void small_product_transpose(void *to, int64_t ld_to, const void *from, int64_t ld_from,
                             int64_t rows, int64_t columns) {
    small_product_turn(to, ld_to, from, ld_from, rows, columns);
    for (int64_t c = 0; c < columns && rows < ld_to; c++)
        memset((float *)to + c * ld_to + rows, 0, (size_t)(ld_to - rows) * sizeof(float));
}

static void pair_rows(uint32_t *to, int64_t ld_to, const uint16_t *from, int64_t ld_from,
                      int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; i += 2, to += ld_to, from += 2 * ld_from) {
        bf16_pair(to, from, i + 1 < rows ? from + ld_from : NULL, columns);
        memset(to + columns, 0, (size_t)(ld_to - columns) * sizeof *to);
    }
}

static void copy_rows(float *to, int64_t ld_to, const float *from, int64_t ld_from,
                      int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; i++, to += ld_to, from += ld_from) {
        memcpy(to, from, (size_t)columns * sizeof *to);
        memset(to + columns, 0, (size_t)(ld_to - columns) * sizeof *to);
    }
}

void small_product_pair(enum dtype dtype, void *to, int64_t ld_to, const void *from,
                        int64_t ld_from, int64_t rows, int64_t columns) {
    if (dtype == DTYPE_F32)
        copy_rows(to, ld_to, from, ld_from, rows, columns);
    else
        pair_rows(to, ld_to, from, ld_from, rows, columns);
}
