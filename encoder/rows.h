/* rows - choosing, spreading and clearing rows of f32 tensors. */
#ifndef ENCODER_ROWS_H
#define ENCODER_ROWS_H

#include <string.h>

#include "encoder/tensor.h"

static inline float *rows_at(struct tensor t, int64_t n) {
    return tensor_floats(t) + n * t.columns;
}

static inline size_t rows_bytes(struct tensor t, int64_t count) {
    return (size_t)(count * t.columns) * sizeof(float);
}

/* Zeros from row `first` on. */
static inline void rows_clear(struct tensor t, int64_t first) {
    memset(rows_at(t, first), 0, rows_bytes(t, t.rows - first));
}

/* The first `count` rows of `from`, zeros after them. */
static inline void rows_copy(struct tensor to, struct tensor from, int64_t count) {
    if (count > 0)
        memcpy(to.data, from.data, rows_bytes(to, count));
    rows_clear(to, count);
}

/* Row i of `to` = row pick[i] of `from` for i < count, zeros after them. */
void rows_gather(struct tensor to, struct tensor from, const int32_t *pick, int64_t count,
                 int threads);
/* Row pick[i] of `to` += row i of `from`; no row is picked twice. */
void rows_scatter(struct tensor to, struct tensor from, const int32_t *pick,
                  int64_t count, int threads);
/* to = factor from; may be the same. */
void rows_scale(struct tensor to, struct tensor from, float factor, int threads);
/* to += factor from. */
void rows_add(struct tensor to, struct tensor from, float factor, int threads);

#endif
