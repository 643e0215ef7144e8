/* channels - a line of its own for each channel, over all rows: what a norm with
 * statistics a channel is, forward and backward.
 *
 * Arrays hold a number a channel. The sums that such norms need are in columns. */
#ifndef ENCODER_CHANNELS_H
#define ENCODER_CHANNELS_H

#include "encoder/team.h"
#include "encoder/tensor.h"

/* y = (x - origin) scale + shift; NULL: origin 0, scale 1, shift 0. y, of any type, may
 * be x, which is f32. The team has room for a row. */
void channels_map(struct tensor y, struct tensor x, const float *origin,
                  const float *scale, const float *shift, const struct team *team);

/* The line dx = a dy + b (x - origin) + c. */
struct channels_line {
    const float *a, *b, *c, *origin; /* b, c, origin NULL = 0 */
};
/* All in f32. In the first `real` rows; 0 in those after them. dx may be dy. */
void channels_combine(struct tensor dx, struct tensor dy, struct tensor x,
                      struct channels_line line, int64_t real, int threads);

#endif
