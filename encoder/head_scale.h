/* head_scale - one learned scalar a head over that head's channels (NormFormer).
 *
 * y = x rep(scale), each of H scalars repeated D / H times. */
#ifndef ENCODER_HEAD_SCALE_H
#define ENCODER_HEAD_SCALE_H

#include "encoder/parameters.h"
#include "encoder/tensor.h"

/* y may be x. */
void head_scale_forward(const struct parameter *scale, struct tensor y, struct tensor x,
                        int threads);
/* dscale += sums of dy x over rows and channels; dy becomes dx = dy rep(scale). `sums` is
 * room for D floats. */
void head_scale_backward(const struct parameter *scale, struct tensor dy, struct tensor x,
                         float *sums, int threads);

#endif
