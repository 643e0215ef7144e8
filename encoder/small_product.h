/* small_product - products of the size of an attention head, on the calling thread.
 *
 * oneDNN's calls cost as much as these products do; here one tile of C stays in registers
 * while A's elements are broadcast against rows of B. */
#ifndef ENCODER_SMALL_PRODUCT_H
#define ENCODER_SMALL_PRODUCT_H

#include <stdint.h>

#include "encoder/tensor.h"

/* Columns of B and C come in multiples of this: callers pad their scratch. */
enum { SMALL_PRODUCT_COLUMNS = 16 };

static inline int64_t small_product_round(int64_t columns) {
    return (columns + SMALL_PRODUCT_COLUMNS - 1) / SMALL_PRODUCT_COLUMNS *
           SMALL_PRODUCT_COLUMNS;
}

/* Operands are words of 4 bytes: a float, or in bf16 a pair of neighbours along the sum's
 * index k, which the processor multiplies and adds at once. So k counts words; a last
 * single element's partner must be 0 on both sides. */
static inline int64_t small_product_words(enum dtype dtype, int64_t count) {
    return dtype == DTYPE_F32 ? count : (count + 1) / 2;
}

/* A matrix in memory: word (i, j) is data[i * row + j * column]. */
struct operand {
    const void *data;
    int64_t row, column;
};

/* C (m, n) = A (m, k) B (k, n), or C += A B; C is of floats. B and C are row-major with
 * `ldb` words and `ldc` floats a row; n is a multiple of SMALL_PRODUCT_COLUMNS. bf16
 * needs bf16_is_native(). */
void small_product(enum dtype dtype, int64_t m, int64_t n, int64_t k, struct operand a,
                   const void *b, int64_t ldb, float *c, int64_t ldc, int add);

/* to (columns, rows) = from (rows, columns) transposed, word by word; rows of `to` are
 * `ld_to` words apart and zero from `rows` to ld_to. */
void small_product_transpose(void *to, int64_t ld_to, const void *from, int64_t ld_from,
                             int64_t rows, int64_t columns);

/* The same without the zeros: a tile of a larger matrix. */
void small_product_turn(void *to, int64_t ld_to, const void *from, int64_t ld_from,
                        int64_t rows, int64_t columns);

/* to (rows, columns) in words that are pairs along k = rows: B's form of `from` (rows,
 * columns), whose rows are `ld_from` elements apart. f32 copies; bf16 puts rows 2 i and
 * 2 i + 1 side by side, 0 after an odd last one. Rows of `to` are `ld_to` words apart and
 * zero from `columns` on. */
void small_product_pair(enum dtype dtype, void *to, int64_t ld_to, const void *from,
                        int64_t ld_from, int64_t rows, int64_t columns);

#endif
