/* evaluate - batches by length, results back in order.
 *
 * Sequences are taken in order of length, so that sequences of a batch are about as long
 * as each other and the products of two batches have like shapes. A row of outputs does
 * not depend on what else is in its batch (norms over batches use running statistics
 * here), up to rounding, so the order is free; each row is written to its own sequence's
 * place. */
#include "finetune/evaluate.h"

#include <string.h>

/* The sequence at a place of the order by length: the lower half of its key. */
static inline int64_t sequence_at(const struct input *in, int64_t place) {
    return (int64_t)(in->by_length[place] & UINT32_MAX);
}

/* Fills the batch from `place` on; the place after it. */
static int64_t fill(struct input_batch *b, const struct input *in, int64_t place,
                    int64_t most) {
    input_batch_clear(b);
    while (
        place < in->count && b->batch.num_sequences < most &&
        input_batch_add(b, in, sequence_at(in, place), (uint32_t)b->batch.num_sequences))
        place++;
    return place;
}

enum status evaluate_outputs(struct classifier *c, const struct input *in, int64_t most,
                             float *outputs, double *loss, struct error *err) {
    if (loss)
        *loss = 0;
    for (int64_t place = 0, next; place < in->count; place = next) {
        struct tensor rows;
        next = fill(&c->batch, in, place, most);
        if (next == place)
            return error_set(err, ERR_FAILED, "a sequence of %lld tokens fits no batch",
                             (long long)input_length(in, sequence_at(in, place)));
        TRY(classifier_outputs(c, &rows, err));
        for (int64_t b = 0; b < rows.rows; b++)
            memcpy(outputs + sequence_at(in, place + b) * rows.columns,
                   tensor_floats(rows) + b * rows.columns,
                   (size_t)rows.columns * sizeof *outputs);
        if (loss)
            *loss += classifier_loss(c);
    }
    return OK;
}

int evaluate_argmax(const float *values, int count) {
    int best = 0;
    for (int i = 1; i < count; i++)
        if (values[i] > values[best])
            best = i;
    return best;
}
