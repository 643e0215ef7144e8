/* middle - what stands between two matrices, in one pass over rows.
 *
 *   c = N_mid(gelu(x))                 in a feed-forward, and in the MLM head
 *   c = N_mid(x)                       after attention
 *
 * Backward keeps x alone: it makes c once more, for the gradient of the matrix that read
 * it. mid may be absent (NULL). */
#ifndef ENCODER_MIDDLE_H
#define ENCODER_MIDDLE_H

#include "encoder/norm.h"
#include "encoder/tensor.h"

struct middle {
    bool gelu;
    const struct norm *mid; /* one that works row by row */
    struct team *team;
};

/* Scratch that the passes need. */
void middle_reserve(struct team *team, int64_t width);
/* c = x: no pass is needed. */
static inline bool middle_is_identity(const struct middle *m) {
    return !m->gelu && !m->mid;
}
/* c may be x. */
void middle_forward(const struct middle *m, struct tensor c, struct tensor x);
/* dx, the gradient of c before, becomes that of x, and its sum over rows is added to
 * `dbias` (NULL = not wanted). c (which may be x) gets its value again; c.data NULL = not
 * wanted. */
void middle_backward(const struct middle *m, struct tensor dx, struct tensor c,
                     struct tensor x, float *dbias);

#endif
