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
/* B = w (k, n), f32, row-major. */
void pack_plain(void *to, enum dtype dtype, const float *w, int64_t k, int64_t n,
                int threads);
/* B = w^T, w (n, k). */
void pack_transposed(void *to, enum dtype dtype, const float *w, int64_t k, int64_t n,
                     int threads);

#endif
