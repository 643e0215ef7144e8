/* dropout - zeroes a share `rate` of the channels and scales the others by 1 / (1 -
 * rate).
 *
 * The mask is drawn, not stored: backward applies the same mask to the gradient. A draw's
 * address is (stream, sequence number in the global batch, token within its sequence,
 * channel). */
#ifndef ENCODER_DROPOUT_H
#define ENCODER_DROPOUT_H

#include <stdint.h>

#include "base/rng.h"
#include "encoder/tensor.h"

/* Which sequence and token each row of a tensor is. */
struct row_names {
    const uint32_t *sequence; /* number in the global batch */
    const uint32_t *token;    /* place within its sequence */
};

/* In place; forward on x, backward on dy with the same arguments. rate 0 changes nothing.
 */
void dropout_apply(struct tensor x, float rate, struct rng stream, struct row_names names,
                   int threads);

/* The same for one row on the calling thread. Its channel j is dropped by the j % 8 th
 * 16-bit half (low halves first) of rng_draw(stream, i0, i1, i2, j / 8). */
void dropout_row(float *x, int64_t columns, float rate, struct rng stream, uint32_t i0,
                 uint32_t i1, uint32_t i2);

/* A 16-bit draw below the threshold drops. */
static inline uint32_t dropout_threshold(float rate) {
    return (uint32_t)(rate * 65536.0f + 0.5f);
}

#endif
