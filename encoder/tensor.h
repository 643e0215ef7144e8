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

/* Rows rounded up to a multiple of 16, from 256 on to one of eight sizes an octave:
 * nearly equal sizes share one product. */
static inline int64_t tensor_round_rows(int64_t rows) {
    int64_t step = 16;
    while (step * 16 <= rows)
        step *= 2;
    return (rows + step - 1) / step * step;
}

/* Elements of an f32 tensor. */
static inline float *tensor_floats(struct tensor t) { return t.data; }

#endif
