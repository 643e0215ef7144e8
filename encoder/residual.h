/* residual - the add that ends a sublayer, in one pass over its rows.
 *
 *   z = dropout(z);  v = alpha gain x + z (+ bottom);  second += kappa z
 *
 * gain (D), bottom (B2T's skip from the layer's input) and second (ResiDual's stream) are
 * absent (NULL) in most arrangements. */
#ifndef ENCODER_RESIDUAL_H
#define ENCODER_RESIDUAL_H

#include "base/rng.h"
#include "encoder/dropout.h"
#include "encoder/tensor.h"

struct residual {
    float alpha, kappa; /* kappa 0 = no second stream */
    const float *gain;
    float rate; /* of dropout, 0 outside training */
    struct rng stream;
    struct row_names names;
    int threads;
};

/* v may be z. */
void residual_forward(const struct residual *r, struct tensor v, struct tensor x,
                      struct tensor z, struct tensor bottom, struct tensor second);
/* dz = dropout(dv + kappa dsecond). */
void residual_branch_backward(const struct residual *r, struct tensor dz,
                              struct tensor dv, struct tensor dsecond);
/* dx += alpha gain dv + dbottom. Row i of dv belongs to row pick[i] of dx; pick NULL =
 * row i. */
void residual_skip_backward(const struct residual *r, struct tensor dx, struct tensor dv,
                            struct tensor dbottom, const int32_t *pick);

#endif
