/* rows - choosing, spreading, copying and converting rows of tensors.
 *
 * gather and scatter lead from all rows to those that a head reads, and back (encoder.c).
 */
#include "encoder/rows.h"

#include <assert.h>

#include "encoder/vector.h"

enum { PIECE = 1024 }; /* elements converted at a time */

HOT static void add_piece(float *to, const float *from, float factor, int64_t count) {
#pragma omp simd
    for (int64_t c = 0; c < count; c++)
        to[c] += factor * from[c];
}

HOT static void scale_piece(float *to, const float *from, float factor, int64_t count) {
#pragma omp simd
    for (int64_t c = 0; c < count; c++)
        to[c] = factor * from[c];
}

/* One row, between any two types. */
static void copy_row(struct tensor to, int64_t n, struct tensor from, int64_t m) {
    if (to.dtype == from.dtype)
        memcpy(rows_at(to, n), rows_at(from, m), rows_bytes(to, 1));
    else if (to.dtype == DTYPE_F32)
        bf16_to_floats(rows_at(to, n), rows_at(from, m), to.columns);
    else
        bf16_from_floats(rows_at(to, n), rows_at(from, m), to.columns);
}

void rows_copy(struct tensor to, struct tensor from, int64_t count) {
    for (int64_t n = 0; n < count; n++)
        copy_row(to, n, from, n);
    rows_clear(to, count);
}

void rows_gather(struct tensor to, struct tensor from, const int32_t *pick, int64_t count,
                 int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t n = 0; n < count; n++)
        copy_row(to, n, from, pick[n]);
    rows_clear(to, count);
}

void rows_scatter(struct tensor to, struct tensor from, const int32_t *pick,
                  int64_t count, int threads) {
    assert(to.dtype == DTYPE_F32 && from.dtype == DTYPE_F32);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t n = 0; n < count; n++)
        add_piece(rows_at(to, pick[n]), rows_at(from, n), 1, to.columns);
}

/* Elements first .. first + count - 1 of all, as rows_read() reads a row. */
static const float *read_piece(struct tensor t, int64_t first, int64_t count,
                               float *room) {
    const struct tensor all = {t.data, t.dtype, 1, first};
    struct tensor piece = {rows_at(all, 1), t.dtype, 1, count};
    return rows_read(piece, 0, room);
}

void rows_scale(struct tensor to, struct tensor from, float factor, int threads) {
    const int64_t count = to.rows * to.columns;
    assert(to.dtype == DTYPE_F32);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t first = 0; first < count; first += PIECE) {
        float room[PIECE];
        const int64_t length = count - first < PIECE ? count - first : PIECE;
        scale_piece(tensor_floats(to) + first, read_piece(from, first, length, room),
                    factor, length);
    }
}

void rows_add(struct tensor to, struct tensor from, float factor, int threads) {
    const int64_t count = to.rows * to.columns;
    assert(to.dtype == DTYPE_F32);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t first = 0; first < count; first += PIECE) {
        float room[PIECE];
        const int64_t length = count - first < PIECE ? count - first : PIECE;
        add_piece(tensor_floats(to) + first, read_piece(from, first, length, room),
                  factor, length);
    }
}

HOT static float mean_of(const float *row, int64_t width, int64_t of) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < width; c++)
        sum += row[c];
    return sum / (float)of;
}

void rows_center(float *to, int64_t to_width, const float *from, int64_t from_width) {
    const int64_t all = to_width > from_width ? to_width : from_width;
    const int64_t common = to_width < from_width ? to_width : from_width;
    const float mean = mean_of(from, from_width, all);
    for (int64_t c = 0; c < common; c++)
        to[c] = from[c] - mean;
    for (int64_t c = common; c < to_width; c++)
        to[c] = -mean;
}
