/* attention - scaled dot-product attention of each (sequence, head), fused.
 *
 *   P = softmax(Q K^T / sqrt(e)),  O = dropout(P) V,  e = D / H channels a head
 *   dV = dropout(P)^T dO;  dP = mask dO V^T / (1 - rate);  dS = P (dP - rowsum(P dP))
 *   dQ = dS K / sqrt(e);   dK = dS^T Q / sqrt(e)
 *
 * With a learned scalar s a head (NormFormer's head_scale) the output is s O: backward
 * takes dO of s O, so that its products give gradients without s, which they get where
 * they are written, and ds = sum of rowsum(P dP).
 *
 * Only a block of query rows of P exists at a time, in a thread's scratch: forward keeps
 * the log of the softmax's denominator, a float a row and head, and backward computes P
 * again from it and draws the same mask (as Dao et al. 2022, arXiv:2205.14135). A
 * (sequence, head) belongs to one thread, so its sums have one order. With bf16 operands
 * products add up in f32, and P is rounded to bf16 once more where it is an operand. */
#ifndef ENCODER_ATTENTION_H
#define ENCODER_ATTENTION_H

#include "base/rng.h"
#include "encoder/dropout.h"
#include "encoder/tensor.h"

/* Columns of a tensor that hold queries, keys or values: D channels of each row from
 * `data`, rows `stride` elements apart. */
struct heads_view {
    void *data;
    int64_t stride;
};

static inline struct heads_view heads_view(struct tensor t, int64_t first_column) {
    unsigned char *data = t.data;
    return (struct heads_view){data + (size_t)first_column * dtype_bytes(t.dtype),
                               t.columns};
}

/* Values, or their gradients; of the type that attention computes in. */
struct heads {
    struct heads_view q, k, v;
};

/* The rows of each sequence among the keys and among the queries; they differ in the last
 * layer, which computes only the rows that the head reads. */
struct attention_rows {
    int64_t num_sequences;
    const int32_t *key_starts, *query_starts; /* num_sequences + 1 */
    struct row_names queries;                 /* name the dropout draws */
};

struct attention {
    enum dtype dtype;             /* of all operands; bf16 needs an even head_size */
    int64_t num_heads, head_size; /* H, e */
    int threads;
    float *scratch; /* of all threads */
    int64_t scratch_each;
};

/* Takes the threads' scratch for sequences of up to `max_keys` tokens. */
void attention_layout(struct attention *a, struct arena *arena, int64_t max_keys);

/* context (queries, D); lse (queries, H) is kept for backward. `rate` 0 = no dropout;
 * head_scale (H) NULL = 1. */
void attention_forward(const struct attention *a, struct attention_rows rows,
                       struct heads x, float rate, struct rng stream,
                       const float *head_scale, struct tensor context, float *lse);
/* Writes the gradients of all rows of the sequences to dx, and adds that of head_scale to
 * dscale (H); lse is used up. The rest as in forward. */
void attention_backward(const struct attention *a, struct attention_rows rows,
                        struct heads x, float rate, struct rng stream,
                        const float *head_scale, float *lse, struct tensor dcontext,
                        struct heads dx, float *dscale);

#endif
