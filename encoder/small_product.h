/* small_product - products of the size of an attention head, on the calling thread.
 *
 * oneDNN's calls cost as much as these products do; here one tile of C stays in registers
 * while A's elements are broadcast against rows of B. */
#ifndef ENCODER_SMALL_PRODUCT_H
#define ENCODER_SMALL_PRODUCT_H

#include <stdint.h>

/* Columns of B and C come in multiples of this: callers pad their scratch. */
enum { SMALL_PRODUCT_COLUMNS = 16 };

static inline int64_t small_product_round(int64_t columns) {
    return (columns + SMALL_PRODUCT_COLUMNS - 1) / SMALL_PRODUCT_COLUMNS *
           SMALL_PRODUCT_COLUMNS;
}

/* A matrix in memory: element (i, j) is data[i * row + j * column]. */
struct operand {
    const float *data;
    int64_t row, column;
};

/* C (m, n) = A (m, k) B (k, n), or C += A B. B and C are row-major with `ldb` and `ldc`
 * floats a row; n is a multiple of SMALL_PRODUCT_COLUMNS. */
void small_product(int64_t m, int64_t n, int64_t k, struct operand a, const float *b,
                   int64_t ldb, float *c, int64_t ldc, int add);

/* to (columns, rows) = from (rows, columns) transposed; rows of `to` are `ld_to` floats
 * apart and zero from `rows` to ld_to. */
void small_product_transpose(float *to, int64_t ld_to, const float *from, int64_t ld_from,
                             int64_t rows, int64_t columns);

#endif
