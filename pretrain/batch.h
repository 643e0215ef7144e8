/* batch - masked sequences in a row, ready for the encoder and the MLM head. */
#ifndef PRETRAIN_BATCH_H
#define PRETRAIN_BATCH_H

#include "encoder/encoder.h"
#include "pretrain/masking.h"
#include "pretrain/packing.h"

struct mlm_batch {
    struct batch batch; /* what the encoder reads; its arrays are those below */
    int32_t *input_ids, *starts, *output_rows;
    uint32_t *sequence_numbers;
    int32_t *labels; /* what stood at output_rows */
};

/* The most that a batch of `sequences` sequences of `length` tokens holds. */
struct limits batch_limits(int64_t sequences, int64_t length, const struct masking *m);
/* Takes the arrays for `limits`; batch_clear() before the first use. */
void batch_layout(struct mlm_batch *b, struct arena *arena, struct limits limits);
void batch_clear(struct mlm_batch *b);
/* Adds sequence `index` of the packing, masked by the draws of `stream`; `number` is its
 * place in the step's global batch. */
enum status batch_add(struct mlm_batch *b, const struct packing *p,
                      const struct masking *m, struct rng stream, uint64_t index,
                      uint32_t number, struct error *err) MUST_CHECK;

#endif
