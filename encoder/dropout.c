/* dropout - masks drawn from counters, forward and backward alike.
 *
 * rng_fill makes counters into bits (Philox), 8 draws of 16 bits a block, several blocks
 * at once; a comparison and a multiplication do the rest. Nothing is stored for backward,
 * which draws again: 0.8 ns a block with AVX-512. 16 bits give rates in steps of 1/65536;
 * the scale is 1 / (1 - rate) of the rate that was asked for. */
#include "encoder/dropout.h"

#include "encoder/vector.h"

enum { PIECE = 1024 }; /* channels drawn at a time; a multiple of the 8 of a draw */

HOT static void keep(float *restrict x, const uint16_t *restrict draws, int64_t count,
                     uint32_t threshold, float scale) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        x[i] = draws[i] >= threshold ? x[i] * scale : 0;
}

void dropout_row(float *x, int64_t columns, float rate, struct rng stream, uint32_t i0,
                 uint32_t i1, uint32_t i2) {
    if (rate == 0)
        return;
    uint32_t words[PIECE / 2];
    for (int64_t first = 0; first < columns; first += PIECE) {
        const int64_t count = columns - first < PIECE ? columns - first : PIECE;
        rng_fill(stream, i0, i1, i2, (uint32_t)(first / 8), (uint32_t)(count + 7) / 8,
                 words);
        keep(x + first, (const uint16_t *)words, count, dropout_threshold(rate),
             1 / (1 - rate));
    }
}

void dropout_apply(struct tensor x, float rate, struct rng stream, struct row_names names,
                   int threads) {
    if (rate == 0)
        return;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t n = 0; n < x.rows; n++)
        dropout_row(tensor_floats(x) + n * x.columns, x.columns, rate, stream,
                    names.sequence[n], names.token[n], 0);
}
