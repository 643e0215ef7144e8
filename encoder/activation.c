/* activation - GELU and tanh over whole tensors. */
#include "encoder/activation.h"

#include <math.h>

#include "encoder/vector.h"

enum { PIECE = 4096 }; /* elements a thread takes at a time */

/* Beyond this the normal's tail is no float any more, and infinity times 0 is near. */
#define EDGE 13.5f

HOT static void gelu(float *y, const float *x, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float density;
        const float cdf = vector_normal_cdf(x[i], &density);
        y[i] = x[i] < -EDGE ? 0 : x[i] * cdf;
    }
}

/* 1 / sqrt(2 pi) */
#define DENSITY_OF_ZERO 0.39894228f

HOT static void gelu_slope(float *dx, const float *dy, const float *x, float *y,
                           int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float density;
        const float low = x[i] < -EDGE ? -EDGE : x[i], at = low > EDGE ? EDGE : low;
        const float cdf = vector_normal_cdf(at, &density);
        dx[i] = dy[i] * (cdf + at * density * DENSITY_OF_ZERO);
        y[i] = x[i] < -EDGE ? 0 : x[i] * cdf;
    }
}

void activation_gelu_forward(struct tensor y, struct tensor x, int threads) {
    const int64_t count = x.rows * x.columns;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t first = 0; first < count; first += PIECE)
        gelu(tensor_floats(y) + first, tensor_floats(x) + first,
             count - first < PIECE ? count - first : PIECE);
}

void activation_gelu_backward(struct tensor dx, struct tensor dy, struct tensor x,
                              int threads) {
    float unused[PIECE];
    const int64_t count = x.rows * x.columns;
#pragma omp parallel for schedule(static) num_threads(threads) private(unused)
    for (int64_t first = 0; first < count; first += PIECE)
        gelu_slope(tensor_floats(dx) + first, tensor_floats(dy) + first,
                   tensor_floats(x) + first, unused,
                   count - first < PIECE ? count - first : PIECE);
}

void activation_gelu_backward_rebuild(struct tensor dx, struct tensor dy, struct tensor x,
                                      int threads) {
    const int64_t count = x.rows * x.columns;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t first = 0; first < count; first += PIECE)
        gelu_slope(tensor_floats(dx) + first, tensor_floats(dy) + first,
                   tensor_floats(x) + first, tensor_floats(x) + first,
                   count - first < PIECE ? count - first : PIECE);
}

void activation_tanh_forward(struct tensor y, struct tensor x) {
    for (int64_t i = 0; i < x.rows * x.columns; i++)
        tensor_floats(y)[i] = tanhf(tensor_floats(x)[i]);
}

void activation_tanh_backward(struct tensor dx, struct tensor dy, struct tensor y) {
    for (int64_t i = 0; i < y.rows * y.columns; i++) {
        const float t = tensor_floats(y)[i];
        tensor_floats(dx)[i] = tensor_floats(dy)[i] * (1 - t * t);
    }
}
