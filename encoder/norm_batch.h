/* norm_batch - what the norms with statistics over a batch share. Private to
 * encoder/norm*.c. */
#ifndef ENCODER_NORM_BATCH_H
#define ENCODER_NORM_BATCH_H

#include "encoder/norm.h"

/* Row i of the kind's buffers. */
static inline float *norm_batch_buffer(const struct norm *n, int i) {
    return n->buffers[i]->value;
}
/* Array i of those that a forward keeps, a number a channel. */
static inline float *norm_batch_array(const struct norm *n, int i) {
    return n->channels + i * n->width;
}
static inline double norm_batch_gain(const struct norm *n, int64_t c) {
    return n->weight ? (double)n->weight->value[c] : 1;
}

/* Means over the rows of x, and of (x - origin)^2; origin NULL = 0. */
void norm_batch_mean(const struct norm *n, float *mean, struct tensor x);
void norm_batch_mean_square(const struct norm *n, float *mean, struct tensor x,
                            const float *origin);
/* y = gain (x - origin) scale + bias; origin NULL = 0. `a` becomes gain scale. */
void norm_batch_apply(const struct norm *n, struct tensor y, struct tensor x,
                      const float *origin, const float *scale, float *a);
/* dbias = sum dy, dgain = sum dy (x - origin) scale, which the gradients of bias and gain
 * get too. */
void norm_batch_sums(const struct norm *n, float *dgain, float *dbias, struct tensor dy,
                     struct tensor x, const float *origin, const float *scale);
/* Counts a step in a buffer of one number; returns its number, from 1. It stays at 2^24,
 * the last whole number that f32 counts to. */
double norm_batch_count(float *steps);

#endif
