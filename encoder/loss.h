/* loss - softmax cross-entropy and squared error, summed over rows; their gradient
 * replaces the input.
 *
 * Sums, not means: the trainer divides once by the number of targets of the whole step,
 * so that accumulation over micro-batches of unequal size equals the big batch. */
#ifndef ENCODER_LOSS_H
#define ENCODER_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "encoder/team.h"
#include "encoder/tensor.h"

/* Sum over rows of -log softmax(logits)[label]; with `want_gradient` logits become
 * softmax - onehot. logits (N, C) f32; labels N, each in [0, C). */
double loss_cross_entropy(struct tensor logits, const int32_t *labels, bool want_gradient,
                          int threads);
/* The same where a row's classes come block by block: add all blocks in order, then take
 * the sum, then ask for the gradient of any block. A block holds classes first, first + 1
 * ... of all rows; logits stay. */
struct loss_row {
    float max, sum; /* of exp(logit - max) */
    float score;    /* the label's logit */
};
void loss_block_add(struct loss_row *rows, struct tensor logits, const int32_t *labels,
                    int64_t first, int threads);
double loss_rows_sum(const struct loss_row *rows, int64_t count);
/* d, of any type, may be logits. The team has room for a row of a block. */
void loss_block_gradient(struct tensor d, struct tensor logits,
                         const struct loss_row *rows, const int32_t *labels,
                         int64_t first, const struct team *team);
/* Sum of (prediction - target)^2 over N predictions (N, 1); gradient 2 (prediction -
 * target). */
double loss_squared_error(struct tensor predictions, const float *targets,
                          bool want_gradient);
/* In place softmax of each row. */
void loss_softmax(struct tensor logits, int threads);

#endif
