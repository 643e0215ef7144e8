/* loss - softmax cross-entropy and squared error, summed over rows; their gradient
 * replaces the input.
 *
 * Sums, not means: the trainer divides once by the number of targets of the whole step,
 * so that accumulation over micro-batches of unequal size equals the big batch. */
#ifndef ENCODER_LOSS_H
#define ENCODER_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "encoder/tensor.h"

/* Sum over rows of -log softmax(logits)[label]; with `want_gradient` logits become
 * softmax - onehot. logits (N, C) f32; labels N, each in [0, C). */
double loss_cross_entropy(struct tensor logits, const int32_t *labels, bool want_gradient,
                          int threads);
/* Sum of (prediction - target)^2 over N predictions (N, 1); gradient 2 (prediction -
 * target). */
double loss_squared_error(struct tensor predictions, const float *targets,
                          bool want_gradient);
/* In place softmax of each row. */
void loss_softmax(struct tensor logits, int threads);

#endif
