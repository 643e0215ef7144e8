/* tensor - a view of a matrix of activations: it owns nothing.
 *
 * Rows are real tokens (N), columns channels; row-major and dense. The element type
 * travels with the view, so that bf16 needs no other signatures. */
#ifndef ENCODER_TENSOR_H
#define ENCODER_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

enum dtype { DTYPE_F32, DTYPE_BF16 };

struct tensor {
    void *data;
    enum dtype dtype;
    int64_t rows, columns;
};

static inline size_t dtype_bytes(enum dtype dtype) { return dtype == DTYPE_F32 ? 4 : 2; }
static inline const char *dtype_name(enum dtype dtype) {
    return dtype == DTYPE_F32 ? "f32" : "bf16";
}

/* A matrix from the arena; no data while the arena only measures. */
static inline struct tensor tensor_take(struct arena *arena, enum dtype dtype,
                                        int64_t rows, int64_t columns) {
    return (struct tensor){
        arena_take(arena, (size_t)rows * (size_t)columns, dtype_bytes(dtype)), dtype,
        rows, columns};
}

static inline struct tensor tensor_f32(float *data, int64_t rows, int64_t columns) {
    return (struct tensor){data, DTYPE_F32, rows, columns};
}

/* The first `rows` rows of t. */
static inline struct tensor tensor_head(struct tensor t, int64_t rows) {
    return (struct tensor){t.data, t.dtype, rows, t.columns};
}

/* `count` rows of t from row `first`. */
static inline struct tensor tensor_rows(struct tensor t, int64_t first, int64_t count) {
    unsigned char *data = t.data;
    data += (size_t)(first * t.columns) * dtype_bytes(t.dtype);
    return (struct tensor){data, t.dtype, count, t.columns};
}

/* Rows are rounded up to few numbers, so that the products of ever new batch sizes find
 * their primitives made: multiples of 16, above 512 of 1/32 of the power of two below. At
 * most 3 % of the work is on rows of zeros. */
static inline int64_t tensor_round_rows(int64_t rows) {
    int64_t unit = 16;
    while (unit * 64 <= rows)
        unit *= 2;
    return (rows + unit - 1) / unit * unit;
}

/* Elements of an f32 tensor. */
static inline float *tensor_floats(struct tensor t) { return t.data; }

#endif
