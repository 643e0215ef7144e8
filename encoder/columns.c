/* columns - sums down the rows of a tensor. */
#include "encoder/columns.h"

#include "encoder/vector.h"

/* Columns that a thread takes at a time: eight AVX2 registers of sums, whole cache lines.
 * BLOCK rows are summed before they are added to the total: shorter chains round less. */
enum { WIDTH = 64, BLOCK = 256 };

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static inline void add_to(float *sum, const float part[WIDTH], int64_t width) {
    for (int64_t c = 0; c < width; c++)
        sum[c] += part[c];
}

HOT static void sum_block(float *sum, const float *x, int64_t stride, int64_t rows,
                          int64_t width) {
    float part[WIDTH] = {0};
    if (width == WIDTH) {
        for (int64_t n = 0; n < rows; n++)
#pragma omp simd
            for (int64_t c = 0; c < WIDTH; c++)
                part[c] += x[n * stride + c];
    } else {
        for (int64_t n = 0; n < rows; n++)
            for (int64_t c = 0; c < width; c++)
                part[c] += x[n * stride + c];
    }
    add_to(sum, part, width);
}

HOT static void dot_block(float *sum, const float *x, const float *y, const float *origin,
                          int64_t stride, int64_t rows, int64_t width) {
    float part[WIDTH] = {0}, from[WIDTH] = {0};
    for (int64_t c = 0; origin && c < width; c++)
        from[c] = origin[c];
    for (int64_t n = 0; n < rows; n++)
#pragma omp simd
        for (int64_t c = 0; c < width; c++)
            part[c] += x[n * stride + c] * (y[n * stride + c] - from[c]);
    add_to(sum, part, width);
}

struct statistics {
    const float *mean, *rstd;
    int stride;
};

HOT static void affine_block(float *gain, float *bias, const float *dy, const float *x,
                             int64_t stride, int64_t rows, int64_t width,
                             struct statistics s) {
    float part_gain[WIDTH] = {0}, part_bias[WIDTH] = {0};
    for (int64_t n = 0; n < rows; n++) {
        const float mean = s.mean ? s.mean[n * s.stride] : 0;
        const float rstd = s.rstd[n * s.stride];
#pragma omp simd
        for (int64_t c = 0; c < width; c++) {
            part_gain[c] += dy[n * stride + c] * ((x[n * stride + c] - mean) * rstd);
            part_bias[c] += dy[n * stride + c];
        }
    }
    add_to(gain, part_gain, width);
    if (bias)
        add_to(bias, part_bias, width);
}

void columns_sum(float *sum, struct tensor x, int threads) {
    const float *data = x.data;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t c = 0; c < x.columns; c += WIDTH)
        for (int64_t n = 0; n < x.rows; n += BLOCK)
            sum_block(sum + c, data + n * x.columns + c, x.columns,
                      least(BLOCK, x.rows - n), least(WIDTH, x.columns - c));
}

void columns_dot(float *sum, struct tensor x, struct tensor y, int threads) {
    columns_dot_from(sum, x, y, NULL, threads);
}

void columns_dot_from(float *sum, struct tensor x, struct tensor y, const float *origin,
                      int threads) {
    const float *xs = x.data, *ys = y.data;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t c = 0; c < x.columns; c += WIDTH)
        for (int64_t n = 0; n < x.rows; n += BLOCK)
            dot_block(sum + c, xs + n * x.columns + c, ys + n * x.columns + c,
                      origin ? origin + c : NULL, x.columns, least(BLOCK, x.rows - n),
                      least(WIDTH, x.columns - c));
}

void columns_affine(float *gain, float *bias, struct tensor dy, struct tensor x,
                    const float *mean, const float *rstd, int stride, int threads) {
    const float *xs = x.data, *dys = dy.data;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t c = 0; c < x.columns; c += WIDTH)
        for (int64_t n = 0; n < x.rows; n += BLOCK) {
            const struct statistics s = {mean ? mean + n * stride : NULL,
                                         rstd + n * stride, stride};
            affine_block(gain + c, bias ? bias + c : NULL, dys + n * x.columns + c,
                         xs + n * x.columns + c, x.columns, least(BLOCK, x.rows - n),
                         least(WIDTH, x.columns - c), s);
        }
}
