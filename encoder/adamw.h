/* adamw - the update rule (Loshchilov and Hutter, arXiv:1711.05101, algorithm 2) over all
 * parameters.
 *
 *   g = scale * gradient;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
 *   w -= lr (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + weight_decay w)
 *
 * The last term only where the parameter's row says `decay`: matrices and tables, not
 * biases, gains or scales. */
#ifndef ENCODER_ADAMW_H
#define ENCODER_ADAMW_H

#include <stdint.h>

#include "encoder/parameters.h"

struct adamw {
    double learning_rate, beta1, beta2, epsilon, weight_decay;
};

/* Square root of the sum of squares of all gradients times `scale`, in f64 and in a fixed
 * order for any thread count. */
double adamw_gradient_norm(const struct parameters *p, double scale, int threads);
/* Update number `step` (from 1). Gradients are multiplied by `scale` first and cleared
 * after, or left stale where a product can write them. */
void adamw_update(struct parameters *p, const struct adamw *rule, double scale,
                  int64_t step, int threads);

#endif
