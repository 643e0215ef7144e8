/* norm_crms - CRMSNorm: RMSNorm of a vector of mean zero whose last channel is left out.
 *
 * x has d - 1 channels; the last would be minus their sum s.
 *   r = ((sum x^2 + s^2) / d + eps)^-1/2;  xh = x r;  y = gain xh + bias
 *   dx = r (q - (sum(q xh) / d) (xh + sum xh)),  q = gain dy
 *
 * arXiv:2305.14858: if all that writes to the stream has mean zero, the last channel
 * follows from the others and need be neither stored nor multiplied. The matrices that
 * read and write the stream lose a row or a column (encoder/rewrite); their function
 * stays the same. */
#include "encoder/norm.h"
#include "encoder/vector.h"

/* What a row keeps. */
enum { RSTD, SUM, SAVED };

HOT static void forward_row(float *y, const float *x, int64_t width, const float *gain,
                            const float *bias, float eps, float saved[SAVED]) {
    float squares = 0, sum = 0;
#pragma omp simd reduction(+ : squares, sum)
    for (int64_t c = 0; c < width; c++) {
        squares += x[c] * x[c];
        sum += x[c];
    }
    const float rstd =
        1 / __builtin_sqrtf((squares + sum * sum) / (float)(width + 1) + eps);
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        y[c] = x[c] * rstd * (gain ? gain[c] : 1) + (bias ? bias[c] : 0);
    saved[RSTD] = rstd;
    saved[SUM] = sum;
}

HOT static void backward_row(float *dx, const float *dy, const float *x, int64_t width,
                             const float *gain, const float saved[SAVED]) {
    const float rstd = saved[RSTD], sum = saved[SUM];
    float along = 0; /* of q x */
#pragma omp simd reduction(+ : along)
    for (int64_t c = 0; c < width; c++)
        along += (gain ? gain[c] * dy[c] : dy[c]) * x[c];
    const float slope = along * rstd * rstd / (float)(width + 1);
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        dx[c] = rstd * ((gain ? gain[c] * dy[c] : dy[c]) - (x[c] + sum) * slope);
}

static void forward(const struct norm *n, float *y, const float *x, int64_t row) {
    forward_row(y, x, n->width, n->weight ? n->weight->value : NULL,
                n->bias ? n->bias->value : NULL, n->eps, n->saved + SAVED * row);
}

static void backward(const struct norm *n, float *dx, const float *dy, const float *x,
                     int64_t row, struct norm_sums sums) {
    const float *saved = n->saved + SAVED * row;
    if (sums.gain)
        norm_add_scaled(sums, dy, x, n->width, saved[RSTD]);
    backward_row(dx, dy, x, n->width, n->weight ? n->weight->value : NULL, saved);
}

const struct norm_kind norm_crms = {
    .name = "crms",
    .summary = "CRMSNorm: RMSNorm of mean-zero vectors without their last channel",
    .source = "Jiang et al. 2023, arXiv:2305.14858",
    .saved_per_row = SAVED,
    .implies_channel = true,
    .forward_row = forward,
    .backward_row = backward,
};
