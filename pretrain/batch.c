/* batch - masked sequences in a row, ready for the encoder and the MLM head.
 *
 * There is no padding: sequence b is rows starts[b] .. starts[b + 1] of input_ids, and
 * the head reads output_rows only. All arrays are taken once, for the largest batch.
 *
 * A mask's stream is named by the epoch and the number of the sequence in the packing,
 * dropout's by the sequence's place in the step: the one must not change with the batch
 * size, the other must differ between sequences of a step. */
#include "pretrain/batch.h"

struct limits batch_limits(int64_t sequences, int64_t length, const struct masking *m) {
    return (struct limits){.tokens = sequences * length,
                           .sequences = sequences,
                           .tokens_per_sequence = length,
                           .output_rows = sequences * masking_limit(m, length)};
}

void batch_layout(struct mlm_batch *b, struct arena *arena, struct limits limits) {
    b->input_ids = ARENA_TAKE(arena, int32_t, limits.tokens);
    b->starts = ARENA_TAKE(arena, int32_t, limits.sequences + 1);
    b->sequence_numbers = ARENA_TAKE(arena, uint32_t, limits.sequences);
    b->output_rows = ARENA_TAKE(arena, int32_t, limits.output_rows);
    b->labels = ARENA_TAKE(arena, int32_t, limits.output_rows);
    b->batch = (struct batch){.input_ids = b->input_ids,
                              .starts = b->starts,
                              .sequence_numbers = b->sequence_numbers,
                              .output_rows = b->output_rows};
}

void batch_clear(struct mlm_batch *b) {
    b->batch.num_sequences = b->batch.num_tokens = b->batch.num_output_rows = 0;
    b->starts[0] = 0;
}

enum status batch_add(struct mlm_batch *b, const struct packing *p,
                      const struct masking *m, struct rng stream, uint64_t index,
                      uint32_t number, struct error *err) {
    struct batch *to = &b->batch;
    const int64_t first = to->num_tokens, targets = to->num_output_rows;
    int64_t count;
    TRY(packing_read(p, index, b->input_ids + first, &count, err));
    const int64_t masked = masking_apply(m, stream, index, b->input_ids + first, count,
                                         b->output_rows + targets, b->labels + targets);
    for (int64_t i = 0; i < masked; i++)
        b->output_rows[targets + i] += (int32_t)first;
    to->num_tokens = first + count;
    to->num_output_rows = targets + masked;
    b->sequence_numbers[to->num_sequences++] = number;
    b->starts[to->num_sequences] = (int32_t)to->num_tokens;
    return OK;
}
