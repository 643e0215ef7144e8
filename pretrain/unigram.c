/* unigram - what guessing by frequency alone would score.
 *
 * The best a model can do that ignores the context. Small models sit on this plateau
 * first; a validation loss beside it shows whether they have left.
 *
 * Counts are smoothed by one, so that a token that training text lacks has a finite loss.
 * The targets are those of validation, masks included: the two losses are then of the
 * same tokens and can be compared to the digit. */
#include "pretrain/unigram.h"

#include <math.h>
#include <stdlib.h>

#define WINDOW 4096

/* counts[id] over the corpus, then log p(id) in their place. */
static enum status measure_train(const struct corpus *train, const struct masking *m,
                                 double *log_p, struct error *err) {
    int32_t ids[WINDOW];
    for (uint64_t first = 0; first < train->num_tokens; first += WINDOW) {
        const uint64_t left = train->num_tokens - first;
        const uint64_t count = left < WINDOW ? left : WINDOW;
        TRY(corpus_read(train, first, count, ids, err));
        for (uint64_t i = 0; i < count; i++)
            log_p[ids[i]] += !m->special[ids[i]];
    }
    double total = 0;
    for (int32_t id = 0; id < m->vocab_size; id++)
        total += log_p[id] + 1;
    for (int32_t id = 0; id < m->vocab_size; id++)
        log_p[id] = log((log_p[id] + 1) / total);
    return OK;
}

/* `space` holds three arrays of a sequence's length. */
static enum status measure_valid(const struct packing *valid, const struct masking *m,
                                 struct rng stream, const double *log_p, int32_t *space,
                                 struct unigram_result *result, struct error *err) {
    int32_t *ids = space, *positions = ids + valid->length,
            *labels = positions + valid->length;
    double sum = 0;
    result->num_targets = 0;
    for (uint64_t i = 0; i < valid->num_sequences; i++) {
        int64_t count;
        TRY(packing_read(valid, i, ids, &count, err));
        const int64_t targets =
            masking_apply(m, stream, i, ids, count, positions, labels);
        for (int64_t t = 0; t < targets; t++)
            sum -= log_p[labels[t]];
        result->num_targets += (uint64_t)targets;
    }
    result->loss = result->num_targets ? sum / (double)result->num_targets : 0;
    return OK;
}

enum status unigram_measure(const struct corpus *train, const struct packing *valid,
                            const struct masking *m, struct rng stream,
                            struct unigram_result *result, struct error *err) {
    double *log_p = calloc((size_t)m->vocab_size, sizeof *log_p);
    int32_t *space = calloc(3 * (size_t)valid->length, sizeof *space);
    enum status status = OK;
    if (!log_p || !space)
        status = error_set(err, ERR_MEMORY, "out of memory for token counts");
    if (status == OK)
        status = measure_train(train, m, log_p, err);
    if (status == OK)
        status = measure_valid(valid, m, stream, log_p, space, result, err);
    free(log_p);
    free(space);
    return status;
}
