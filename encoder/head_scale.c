/* head_scale - one learned scalar a head.
 *
 * NormFormer, arXiv:2110.09456, section 2: HeadScaleMHA. The paper scales heads before
 * the output projection, fairseq's published code the slices of what comes out of it; the
 * two differ, and both are here (head_scale = pre_proj, post_proj). */
#include "encoder/head_scale.h"

#include "encoder/vector.h"

HOT static void scale_row(float *y, const float *x, const float *scale, int64_t heads,
                          int64_t head_size) {
    for (int64_t h = 0; h < heads; h++)
#pragma omp simd
        for (int64_t c = h * head_size; c < (h + 1) * head_size; c++)
            y[c] = x[c] * scale[h];
}

float *head_scale_row(float *y, const float *x, const struct parameter *scale,
                      int64_t width) {
    scale_row(y, x, scale->value, scale->shape[0], width / scale->shape[0]);
    return y;
}

void head_scale_add(const struct parameter *scale, const struct team *team, int64_t rows,
                    int64_t offset, int64_t width) {
    const int64_t head_size = width / scale->shape[0];
    for (int part = 0; part < team_parts(rows); part++) {
        const float *sums = team->sums + part * team->sums_each + offset;
        for (int64_t c = 0; c < width; c++)
            scale->gradient[c / head_size] += sums[c];
    }
}
