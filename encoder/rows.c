/* rows - choosing, spreading and clearing rows of f32 tensors. */
#include "encoder/rows.h"

#include "encoder/vector.h"

HOT static void add_row(float *to, const float *from, float factor, int64_t width) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        to[c] += factor * from[c];
}

HOT static void scale_row(float *to, const float *from, float factor, int64_t width) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        to[c] = factor * from[c];
}

void rows_gather(struct tensor to, struct tensor from, const int32_t *pick, int64_t count,
                 int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t n = 0; n < count; n++)
        memcpy(rows_at(to, n), rows_at(from, pick[n]), rows_bytes(to, 1));
    rows_clear(to, count);
}

void rows_scatter(struct tensor to, struct tensor from, const int32_t *pick,
                  int64_t count, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t n = 0; n < count; n++)
        add_row(rows_at(to, pick[n]), rows_at(from, n), 1, to.columns);
}

void rows_scale(struct tensor to, struct tensor from, float factor, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t n = 0; n < to.rows; n++)
        scale_row(rows_at(to, n), rows_at(from, n), factor, to.columns);
}

void rows_add(struct tensor to, struct tensor from, float factor, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t n = 0; n < to.rows; n++)
        add_row(rows_at(to, n), rows_at(from, n), factor, to.columns);
}
