/* norm_rms - RMSNorm.
 *
 *   rstd = (mean x^2 + eps)^-1/2;  xh = x rstd;  y = gain xh + bias
 *   dx = rstd (q - xh mean(q xh)),  q = gain dy
 *
 * LayerNorm without its centring: two sums less a row, and the same function on a stream
 * whose rows have mean zero (Pre-RMSNorm, arXiv:2305.14858). One float a row is kept; xh
 * is made again from x. */
#include "encoder/norm.h"
#include "encoder/vector.h"

HOT static float forward_row(float *y, const float *x, int64_t width, const float *gain,
                             const float *bias, float eps) {
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t c = 0; c < width; c++)
        squares += x[c] * x[c];
    const float rstd = 1 / __builtin_sqrtf(squares / (float)width + eps);
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        y[c] = x[c] * rstd * (gain ? gain[c] : 1) + (bias ? bias[c] : 0);
    return rstd;
}

HOT static void backward_row(float *dx, const float *dy, const float *x, int64_t width,
                             const float *gain, float rstd) {
    float along = 0; /* of q xh */
#pragma omp simd reduction(+ : along)
    for (int64_t c = 0; c < width; c++)
        along += (gain ? gain[c] * dy[c] : dy[c]) * x[c];
    const float slope = along * rstd * rstd / (float)width;
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        dx[c] = rstd * ((gain ? gain[c] * dy[c] : dy[c]) - x[c] * slope);
}

static void forward(const struct norm *n, float *y, const float *x, int64_t row) {
    n->saved[row] = forward_row(y, x, n->width, n->weight ? n->weight->value : NULL,
                                n->bias ? n->bias->value : NULL, n->eps);
}

static void backward(const struct norm *n, float *dx, const float *dy, const float *x,
                     int64_t row, struct norm_sums sums) {
    if (sums.gain)
        norm_add_scaled(sums, dy, x, n->width, n->saved[row]);
    backward_row(dx, dy, x, n->width, n->weight ? n->weight->value : NULL, n->saved[row]);
}

const struct norm_kind norm_rms = {
    .name = "rms",
    .summary = "RMSNorm: scaled, not centred",
    .source = "Zhang, Sennrich 2019, arXiv:1910.07467",
    .saved_per_row = 1,
    .forward_row = forward,
    .backward_row = backward,
};
