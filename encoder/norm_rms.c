/* norm_rms - RMSNorm.
 *
 *   rstd = (mean x^2 + eps)^-1/2;  xh = x rstd;  y = gain xh + bias
 *   dx = rstd (q - xh mean(q xh)),  q = gain dy */
#include "encoder/columns.h"
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

static void forward(const struct norm *n, struct tensor y, struct tensor x,
                    struct norm_rows rows) {
    (void)rows;
    const float *gain = n->weight ? n->weight->value : NULL;
    const float *bias = n->bias ? n->bias->value : NULL;
#pragma omp parallel for schedule(static) num_threads(n->threads)
    for (int64_t r = 0; r < x.rows; r++)
        n->saved[r] =
            forward_row(tensor_floats(y) + r * n->width, tensor_floats(x) + r * n->width,
                        n->width, gain, bias, n->eps);
}

static void backward(const struct norm *n, struct tensor dx, struct tensor dy,
                     struct tensor x, struct norm_rows rows) {
    (void)rows;
    const float *gain = n->weight ? n->weight->value : NULL;
    if (n->weight)
        columns_affine(n->weight->gradient, n->bias ? n->bias->gradient : NULL, dy, x,
                       NULL, n->saved, 1, n->threads);
#pragma omp parallel for schedule(static) num_threads(n->threads)
    for (int64_t r = 0; r < x.rows; r++)
        backward_row(tensor_floats(dx) + r * n->width, tensor_floats(dy) + r * n->width,
                     tensor_floats(x) + r * n->width, n->width, gain, n->saved[r]);
}

const struct norm_kind norm_rms = {
    .name = "rms",
    .summary = "RMSNorm: scaled, not centred",
    .source = "Zhang, Sennrich 2019, arXiv:1910.07467",
    .saved_per_row = 1,
    .forward = forward,
    .backward = backward,
};
