/* norm_ln - LayerNorm.
 *
 *   mean = mean x;  rstd = (mean (x - mean)^2 + eps)^-1/2;  xh = (x - mean) rstd
 *   y = gain xh + bias
 *   dx = rstd (q - mean q - xh mean(q xh)),  q = gain dy
 *
 * Forward keeps mean and rstd, two floats a row; xh is made again from x. Backward is two
 * passes over the row: sums of q and of q (x - mean), with the row's share of the
 * gradients of gain and bias taken along, then dx. */
#include "encoder/norm.h"
#include "encoder/vector.h"

/* Four chains of additions, a quarter of the row each: one would wait for every addition
 * before the next. */
HOT static float sum_of(const float *x, int64_t width) {
    const int64_t q = width / 4;
    float a = 0, b = 0, c = 0, d = 0;
#pragma omp simd reduction(+ : a, b, c, d)
    for (int64_t i = 0; i < q; i++) {
        a += x[i];
        b += x[q + i];
        c += x[2 * q + i];
        d += x[3 * q + i];
    }
    for (int64_t i = 4 * q; i < width; i++)
        a += x[i];
    return (a + b) + (c + d);
}

/* Where x is large beside its deviation, a mean in single precision is off by an amount
 * common to all channels, which weights of one sign add up: what it is off by is the mean
 * of what is left of x, and is taken off too. */
HOT static void forward_row(float *y, const float *x, int64_t width, const float *gain,
                            const float *bias, float eps, float saved[2]) {
    const float share = 1 / (float)width, mean = sum_of(x, width) * share;
    const int64_t half = width / 2;
    float left = 0, squares = 0, left2 = 0, squares2 = 0;
#pragma omp simd reduction(+ : left, squares, left2, squares2)
    for (int64_t c = 0; c < half; c++) {
        left += x[c] - mean;
        squares += (x[c] - mean) * (x[c] - mean);
        left2 += x[half + c] - mean;
        squares2 += (x[half + c] - mean) * (x[half + c] - mean);
    }
    left += left2, squares += squares2;
    if (width % 2) {
        left += x[width - 1] - mean;
        squares += (x[width - 1] - mean) * (x[width - 1] - mean);
    }
    const float rest = left * share;
    const double variance = (double)squares / (double)width - (double)(rest * rest);
    const float rstd = (float)(1 / __builtin_sqrt(variance + (double)eps));
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        y[c] = (x[c] - mean - rest) * rstd * (gain ? gain[c] : 1) + (bias ? bias[c] : 0);
    saved[0] = mean + rest;
    saved[1] = rstd;
}

HOT static void rebuild_row(float *y, const float *x, int64_t width, const float *gain,
                            const float *bias, const float saved[2]) {
    const float mean = saved[0], rstd = saved[1];
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        y[c] = (x[c] - mean) * rstd * (gain ? gain[c] : 1) + (bias ? bias[c] : 0);
}

/* sum q, and the row's share of the gradients of gain and bias. */
HOT static float sum_row(const float *dy, const float *x, int64_t width,
                         const float *gain, const float saved[2], struct norm_sums sums) {
    const float mean = saved[0], rstd = saved[1];
    float sum = 0;
    if (!sums.bias) {
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < width; c++)
            sum += gain ? gain[c] * dy[c] : dy[c];
    } else {
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < width; c++) {
            sum += gain[c] * dy[c];
            sums.gain[c] += dy[c] * ((x[c] - mean) * rstd);
            sums.bias[c] += dy[c];
        }
    }
    return sum;
}

/* As in forward: what rounding leaves of the means of q and xh is taken back. */
HOT static void backward_row(float *dx, const float *dy, const float *x, int64_t width,
                             const float *gain, const float saved[2], float sum) {
    const float mean = saved[0], rstd = saved[1], share = 1 / (float)width;
    const float shift = sum * share;
    float left = 0, left_x = 0, along = 0;
#pragma omp simd reduction(+ : left, left_x, along)
    for (int64_t c = 0; c < width; c++) {
        const float q = (gain ? gain[c] * dy[c] : dy[c]) - shift;
        left += q;
        left_x += x[c] - mean;
        along += q * (x[c] - mean);
    }
    const float slope = along * rstd * rstd * share;
    const float rest = (left - left_x * slope) * share;
#pragma omp simd
    for (int64_t c = 0; c < width; c++) {
        const float q = (gain ? gain[c] * dy[c] : dy[c]) - shift;
        dx[c] = rstd * (q - rest - (x[c] - mean) * slope);
    }
}

static const float *gain_of(const struct norm *n) {
    return n->weight ? n->weight->value : NULL;
}
static const float *bias_of(const struct norm *n) {
    return n->bias ? n->bias->value : NULL;
}

static void forward(const struct norm *n, float *y, const float *x, int64_t row) {
    forward_row(y, x, n->width, gain_of(n), bias_of(n), n->eps, n->saved + 2 * row);
}

static void rebuild(const struct norm *n, float *y, const float *x, int64_t row) {
    rebuild_row(y, x, n->width, gain_of(n), bias_of(n), n->saved + 2 * row);
}

/* Gains without biases are rare: their share has a loop of its own. */
HOT static void add_gain(float *sum, const float *dy, const float *x, int64_t width,
                         const float saved[2]) {
    const float mean = saved[0], rstd = saved[1];
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        sum[c] += dy[c] * ((x[c] - mean) * rstd);
}

static void backward(const struct norm *n, float *dx, const float *dy, const float *x,
                     int64_t row, struct norm_sums sums) {
    const float *saved = n->saved + 2 * row, *gain = gain_of(n);
    const float sum = sum_row(dy, x, n->width, gain, saved, sums);
    if (sums.gain && !sums.bias)
        add_gain(sums.gain, dy, x, n->width, saved);
    backward_row(dx, dy, x, n->width, gain, saved, sum);
}

const struct norm_kind norm_ln = {
    .name = "ln",
    .summary = "LayerNorm: centred and scaled",
    .source = "Ba, Kiros, Hinton 2016, arXiv:1607.06450",
    .saved_per_row = 2,
    .forward_row = forward,
    .rebuild_row = rebuild,
    .backward_row = backward,
};
