/* activation - GELU and tanh over whole tensors.
 *
 * GELU needs Phi(x) and its slope exp(-x^2 / 2) too: both come from one function
 * (vector_normal_cdf), so that backward's slope costs one multiplication more. The exact
 * form, not the tanh form: it is what "gelu" means in RoBERTa's config.json. */
#include "encoder/activation.h"

#include <math.h>

#include "encoder/vector.h"

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

HOT static void gelu_slope(float *y, float *slope, const float *x, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float density;
        const float low = x[i] < -EDGE ? -EDGE : x[i], at = low > EDGE ? EDGE : low;
        const float cdf = vector_normal_cdf(at, &density);
        slope[i] = cdf + at * density * DENSITY_OF_ZERO;
        y[i] = x[i] < -EDGE ? 0 : x[i] * cdf;
    }
}

float *activation_gelu_row(float *y, const float *x, int64_t count) {
    gelu(y, x, count);
    return y;
}

float *activation_gelu_slope_row(float *y, float *slope, const float *x, int64_t count) {
    gelu_slope(y, slope, x, count);
    return y;
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
