/* linear - y = x W^T + b.  x (N, in), y (N, out), W (out, in), b (out). */
#ifndef ENCODER_LINEAR_H
#define ENCODER_LINEAR_H

#include "encoder/onednn.h"
#include "encoder/parameters.h"
#include "encoder/tensor.h"

struct linear {
    struct parameter *weight, *bias;
    struct device *device;
};

/* Declares "<name>.weight" and "<name>.bias"; spec.init and spec.decay are the weight's,
 * biases are zero and not decayed. */
void linear_declare(struct linear *l, struct device *device, struct parameters *p,
                    struct parameter_spec spec, int64_t in, int64_t out,
                    const char *name);
/* A failing product is kept by the device (device_check), here and below. */
void linear_forward(const struct linear *l, struct tensor y, struct tensor x);
/* dweight += dy^T x, dbias += column sums of dy, dx = dy W (not computed when dx.data is
 * NULL). */
void linear_backward(const struct linear *l, struct tensor dx, struct tensor dy,
                     struct tensor x);
/* Its parts, where the pass that makes dy sums up the bias's gradient. */
void linear_backward_weight(const struct linear *l, struct tensor dy, struct tensor x);
void linear_backward_input(const struct linear *l, struct tensor dx, struct tensor dy);

#endif
