/* pack - a matrix B (k, n) in the blocks that a product reads it in.
 *
 * 64 columns lie side by side, 16 words down, a word being a float or two neighbours
 * along k in bf16; blocks follow each other down k, then along n; what is missing at the
 * edges is 0. oneDNN calls this BA16a64b and BA16a64b2a. Reading a plain matrix, it would
 * make this copy within every call, slower. */
#ifndef ENCODER_PACK_H
#define ENCODER_PACK_H

#include <stddef.h>

#include "encoder/tensor.h"

size_t pack_bytes(enum dtype dtype, int64_t k, int64_t n);
/* B = x (k, n), of the same type or f32. */
void pack_plain(void *to, enum dtype dtype, struct tensor x, int threads);
/* B = w^T, w (n, k), f32. */
void pack_transposed(void *to, enum dtype dtype, struct tensor w, int threads);

/* What a product reads as A (m, k) where it lies as the columns of another matrix:
 * columns first .. first + m - 1 of y (k, more than m), row by row. Rows of `to` are
 * pack_even(k) elements long, 0 in the last if k is odd. */
static inline int64_t pack_even(int64_t k) { return (k + 1) / 2 * 2; }
void pack_columns(void *to, struct tensor y, int64_t first, int64_t m, int threads);

#endif
