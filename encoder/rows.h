/* rows - reading, writing, choosing, spreading and clearing rows of tensors.
 *
 * Row passes compute on floats: an f32 row is used where it lies, a bf16 row is converted
 * into room of the caller's on the way in, and from it on the way out. */
#ifndef ENCODER_ROWS_H
#define ENCODER_ROWS_H

#include <string.h>

#include "encoder/bf16.h"
#include "encoder/tensor.h"

/* Where row n begins, and the bytes of `count` rows. */
static inline void *rows_at(struct tensor t, int64_t n) {
    return (unsigned char *)t.data + (size_t)(n * t.columns) * dtype_bytes(t.dtype);
}

static inline size_t rows_bytes(struct tensor t, int64_t count) {
    return (size_t)(count * t.columns) * dtype_bytes(t.dtype);
}

/* Row n, for reading only: in place, or in `room` (columns floats). */
static inline const float *rows_read(struct tensor t, int64_t n, float *room) {
    if (t.dtype == DTYPE_F32)
        return rows_at(t, n);
    bf16_to_floats(room, rows_at(t, n), t.columns);
    return room;
}

/* A copy of row n. */
static inline void rows_load(float *to, struct tensor t, int64_t n) {
    const float *row = rows_read(t, n, to);
    if (row != to)
        memcpy(to, row, rows_bytes(t, 1));
}

/* Where row n can be written: in place, or `room`; rows_store() has the last word. */
static inline float *rows_open(struct tensor t, int64_t n, float *room) {
    return t.dtype == DTYPE_F32 ? rows_at(t, n) : room;
}

/* Row n becomes `row`, which may be the place that rows_open() gave. */
static inline void rows_store(struct tensor t, int64_t n, const float *row) {
    if (t.dtype == DTYPE_BF16)
        bf16_from_floats(rows_at(t, n), row, t.columns);
    else if (row != rows_at(t, n))
        memcpy(rows_at(t, n), row, rows_bytes(t, 1));
}

/* Zeros from row `first` on. */
static inline void rows_clear(struct tensor t, int64_t first) {
    memset(rows_at(t, first), 0, rows_bytes(t, t.rows - first));
}

/* The first `count` rows of `from`, zeros after them. */
void rows_copy(struct tensor to, struct tensor from, int64_t count);
/* Row i of `to` = row pick[i] of `from` for i < count, zeros after them. */
void rows_gather(struct tensor to, struct tensor from, const int32_t *pick, int64_t count,
                 int threads);
/* Row pick[i] of `to` += row i of `from` (f32 both); no row is picked twice. */
void rows_scatter(struct tensor to, struct tensor from, const int32_t *pick,
                  int64_t count, int threads);
/* to = factor from, in f32; may be the same. */
void rows_scale(struct tensor to, struct tensor from, float factor, int threads);
/* to += factor from, in f32. */
void rows_add(struct tensor to, struct tensor from, float factor, int threads);

/* A row of floats without its mean. Where one of them has a channel less, that is the
 * last of a row whose sum is zero: left out of `to`, or nothing in `from` (the gradient
 * of leaving it out). May be the same. */
void rows_center(float *to, int64_t to_width, const float *from, int64_t from_width);

#endif
