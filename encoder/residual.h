/* residual - the end of a sublayer, from its branch to the stream, in one pass over rows.
 *
 *   z = dropout(N_out(z rep(head_scale)));  v = alpha gain x + z (+ bottom), z without
 *                                           its mean where the stream has none
 *   second += kappa z;                      y = N_post(v)
 *
 * and the way back. Most of it is absent (NULL) in most arrangements: gain (D),
 * head_scale (H), bottom (B2T's skip from the layer's input), second (ResiDual's stream),
 * the norms. A norm that needs all rows at once cannot be part of the pass: callers run
 * it before or after, and leave it out here. */
#ifndef ENCODER_RESIDUAL_H
#define ENCODER_RESIDUAL_H

#include "base/rng.h"
#include "encoder/dropout.h"
#include "encoder/norm.h"
#include "encoder/tensor.h"

struct residual {
    float alpha, kappa; /* kappa 0 = no second stream */
    const struct parameter *gain, *head_scale;
    const struct norm *out, *post;
    bool center; /* takes the mean of z out, after dropout */
    float rate;  /* of dropout, 0 outside training */
    struct rng stream;
    struct row_names names;
    struct team *team;
};

/* Scratch that the passes need. */
void residual_reserve(struct team *team, int64_t width);

/* v is what post reads, and is the result itself where there is none (y.data NULL).
 * `second` is f32. */
void residual_forward(const struct residual *r, struct tensor y, struct tensor v,
                      struct tensor x, struct tensor z, struct tensor bottom,
                      struct tensor second);

/* From the stream's gradient to the branch's. dv (f32) is the gradient of the result
 * before, of v after; dz gets that of the branch, `dbias` its sum over rows (added);
 * `dbottom` (f32) a copy of dv. v, x, z as in forward: v is read where post is, x where
 * gain is, z where out or head_scale is. */
void residual_branch_backward(const struct residual *r, struct tensor dv,
                              struct tensor dz, struct tensor v, struct tensor x,
                              struct tensor z, struct tensor dsecond,
                              struct tensor dbottom, float *dbias);

/* dx (f32, the gradient of what the branch read) += alpha gain dv + dbottom, after
 * backward through `pre` (may be NULL), whose input was x. Row i of dv belongs to row
 * pick[i] of dx; pick NULL = row i. */
void residual_skip_backward(const struct residual *r, const struct norm *pre,
                            struct tensor dx, struct tensor x, struct tensor dv,
                            struct tensor dbottom, const int32_t *pick);

#endif
