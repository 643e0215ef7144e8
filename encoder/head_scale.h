/* head_scale - one learned scalar a head over that head's channels (NormFormer).
 *
 * y = x rep(scale), each of H scalars repeated D / H times. The gradient of a scalar is
 * the sum of dy x over rows and its channels. */
#ifndef ENCODER_HEAD_SCALE_H
#define ENCODER_HEAD_SCALE_H

#include "encoder/parameters.h"
#include "encoder/team.h"

/* One row of `width` floats; y may be x. Returns y. */
float *head_scale_row(float *y, const float *x, const struct parameter *scale,
                      int64_t width);
/* The scalars' gradients += the parts' sums over rows of dy x, a sum a channel, which
 * begin at `offset` of a part's sums. */
void head_scale_add(const struct parameter *scale, const struct team *team, int64_t rows,
                    int64_t offset, int64_t width);

#endif
