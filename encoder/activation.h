/* activation - exact GELU (to 1e-7 of its value at 1) and tanh.
 *
 * gelu(x) = x Phi(x) with the error function; gelu'(x) = Phi(x) + x phi(x). Both are
 * right for every float, including 0, +-1e4 and infinities; NaN stays NaN. */
#ifndef ENCODER_ACTIVATION_H
#define ENCODER_ACTIVATION_H

#include "encoder/tensor.h"

/* y may be x. */
void activation_gelu_forward(struct tensor y, struct tensor x, int threads);
/* dx = dy gelu'(x); dx may be dy. */
void activation_gelu_backward(struct tensor dx, struct tensor dy, struct tensor x,
                              int threads);
/* The same, and x becomes gelu(x) again: what forward need not keep. */
void activation_gelu_backward_rebuild(struct tensor dx, struct tensor dy, struct tensor x,
                                      int threads);
void activation_tanh_forward(struct tensor y, struct tensor x);
/* dx = dy (1 - y^2); dx may be dy. */
void activation_tanh_backward(struct tensor dx, struct tensor dy, struct tensor y);

#endif
