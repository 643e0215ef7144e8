/* activation - exact GELU (to 1e-7 of its value at 1) and tanh, on rows of floats.
 *
 * gelu(x) = x Phi(x) with the error function; gelu'(x) = Phi(x) + x phi(x). Both are
 * right for every float, including 0, +-1e4 and infinities; NaN stays NaN. */
#ifndef ENCODER_ACTIVATION_H
#define ENCODER_ACTIVATION_H

#include "encoder/tensor.h"

/* y may be x. Returns y. */
float *activation_gelu_row(float *y, const float *x, int64_t count);
/* The same, and slope = gelu'(x). */
float *activation_gelu_slope_row(float *y, float *slope, const float *x, int64_t count);
void activation_tanh_forward(struct tensor y, struct tensor x);
/* dx = dy (1 - y^2); dx may be dy. */
void activation_tanh_backward(struct tensor dx, struct tensor dy, struct tensor y);

#endif
