/* head_scale - one learned scalar a head. */
#include "encoder/head_scale.h"

#include <string.h>

#include "encoder/columns.h"
#include "encoder/vector.h"

HOT static void scale_row(float *y, const float *x, const float *scale, int64_t heads,
                          int64_t head_size) {
    for (int64_t h = 0; h < heads; h++)
#pragma omp simd
        for (int64_t c = h * head_size; c < (h + 1) * head_size; c++)
            y[c] = x[c] * scale[h];
}

void head_scale_forward(const struct parameter *scale, struct tensor y, struct tensor x,
                        int threads) {
    const int64_t heads = scale->shape[0], width = x.columns;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t n = 0; n < x.rows; n++)
        scale_row(tensor_floats(y) + n * width, tensor_floats(x) + n * width,
                  scale->value, heads, width / heads);
}

void head_scale_backward(const struct parameter *scale, struct tensor dy, struct tensor x,
                         float *sums, int threads) {
    const int64_t heads = scale->shape[0], head_size = x.columns / heads;
    memset(sums, 0, (size_t)x.columns * sizeof *sums);
    columns_dot(sums, dy, x, threads);
    for (int64_t c = 0; c < x.columns; c++)
        scale->gradient[c / head_size] += sums[c];
    head_scale_forward(scale, dy, dy, threads);
}
