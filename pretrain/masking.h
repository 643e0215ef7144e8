/* masking - chooses the tokens that the model must guess.
 *
 * Of the maskable tokens of a sequence (all but special ones) the exact share
 * `mlm_probability` is chosen, rounded up or down at random so that the mean is exact.
 * Each chosen token becomes <mask> (0.8), any token that is not special (0.1) or stays
 * (0.1), as BERT does. All draws are a function of (stream, number of the sequence,
 * place in it): with a stream per (seed, epoch) the masks do not depend on batch size,
 * threads or order. A short sequence may get no target at all. */
#ifndef PRETRAIN_MASKING_H
#define PRETRAIN_MASKING_H

#include "base/rng.h"
#include "tokenizer/tokenizer.h"

struct masking_rates {
    double mlm_probability, mask_token_probability, random_token_probability;
};
/* BERT's, and what validation always uses. */
extern const struct masking_rates masking_standard;

struct masking {
    struct masking_rates rates;
    bool *special;     /* owned, by id: never chosen */
    int32_t *ordinary; /* owned: what a random replacement may be */
    int32_t num_ordinary, vocab_size, mask_id;
};

/* Takes from the tokenizer which tokens are special; it is not needed afterwards. */
enum status masking_open(struct masking *m, const struct tokenizer *t,
                         struct masking_rates rates, struct error *err) MUST_CHECK;
/* The most targets that a sequence of `length` tokens can get. */
int64_t masking_limit(const struct masking *m, int64_t length);
/* Masks ids[0 .. count - 1] in place. positions[] and labels[] (masking_limit(count)
 * entries) get where the targets are, ascending, and what stood there. Returns their
 * number. */
int64_t masking_apply(const struct masking *m, struct rng stream, uint64_t sequence,
                      int32_t *ids, int64_t count, int32_t *positions, int32_t *labels);
void masking_close(struct masking *m);

#endif
