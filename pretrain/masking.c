/* masking - chooses the tokens that the model must guess.
 *
 * Three kinds of draws, told apart by an index of the address: how many targets (one a
 * sequence), whether a token is one (one a token), what stands in its place (two a
 * token). The address never holds a place in memory or in a batch.
 *
 * Which tokens: BERT (arXiv:1810.04805, section 3.1) takes 15 % of the tokens and of
 * those 80, 10 and 10 % for <mask>, a random token and the token itself. Drawn anew every
 * epoch, as RoBERTa does (arXiv:1907.11692, section 4.1, dynamic masking), which costs
 * nothing here, as a mask is a function and not data.
 *
 * The number is fixed first, then the set: a coin for each token would have a binomial
 * number of targets, which is noise in the loss and needs room for the worst case.
 * Rounding is at random, so that the mean is exact for short sequences too: of 10 tokens
 * 1 or 2, each half of the time. */
#include "pretrain/masking.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* What a draw decides; the last index is the place within the sequence. */
enum role { ROLE_COUNT, ROLE_CHOICE, ROLE_REPLACEMENT };

const struct masking_rates masking_standard = {0.15, 0.8, 0.1};

enum status masking_open(struct masking *m, const struct tokenizer *t,
                         struct masking_rates rates, struct error *err) {
    const int32_t size = tokenizer_size(t);
    *m = (struct masking){
        .rates = rates, .vocab_size = size, .mask_id = tokenizer_specials(t).mask};
    m->special = calloc((size_t)size, sizeof *m->special);
    m->ordinary = calloc((size_t)size, sizeof *m->ordinary);
    if (!m->special || !m->ordinary) {
        masking_close(m);
        return error_set(err, ERR_MEMORY, "out of memory for masking %d tokens", size);
    }
    for (int32_t id = 0; id < size; id++) {
        m->special[id] = tokenizer_is_special(t, id);
        if (!m->special[id] && tokenizer_token(t, id))
            m->ordinary[m->num_ordinary++] = id;
    }
    if (m->num_ordinary)
        return OK;
    masking_close(m);
    return error_set(err, ERR_INPUT, "the tokenizer has special tokens only");
}

void masking_close(struct masking *m) {
    free(m->special);
    free(m->ordinary);
    *m = (struct masking){0};
}

/* floor(share + u) with u < 1 is never more than ceil(share). */
int64_t masking_limit(const struct masking *m, int64_t length) {
    const int64_t most = (int64_t)ceil(m->rates.mlm_probability * (double)length);
    return most < length ? most : length;
}

static uint32_t draw(struct rng stream, uint64_t sequence, enum role role, int64_t at) {
    const struct rng_block b = rng_draw(
        stream, (uint32_t)sequence, (uint32_t)(sequence >> 32), role, (uint32_t)(at / 4));
    return b.word[at % 4];
}

/* What the model sees where `id` must be guessed. Random tokens are any ordinary token,
 * `id` itself too, as in BERT. */
static int32_t replacement(const struct masking *m, struct rng stream, uint64_t sequence,
                           int64_t at, int32_t id) {
    const struct masking_rates *r = &m->rates;
    const float u = rng_uniform(draw(stream, sequence, ROLE_REPLACEMENT, 2 * at));
    if (u < r->mask_token_probability)
        return m->mask_id;
    if (u >= r->mask_token_probability + r->random_token_probability)
        return id;
    const uint32_t which = draw(stream, sequence, ROLE_REPLACEMENT, 2 * at + 1);
    return m->ordinary[rng_below(which, (uint32_t)m->num_ordinary)];
}

int64_t masking_apply(const struct masking *m, struct rng stream, uint64_t sequence,
                      int32_t *ids, int64_t count, int32_t *positions, int32_t *labels) {
    uint32_t maskable = 0;
    for (int64_t i = 0; i < count; i++)
        maskable += !m->special[ids[i]];
    const double share = m->rates.mlm_probability * maskable;
    const uint32_t wanted =
        (uint32_t)floor(share + rng_uniform(draw(stream, sequence, ROLE_COUNT, 0)));
    int64_t chosen = 0;
    /* Selection sampling: each token is taken with (still wanted) / (still to come),
     * which gives every set of `wanted` tokens the same chance. */
    for (int64_t i = 0; i < count && chosen < wanted; i++) {
        if (m->special[ids[i]])
            continue;
        const uint32_t left = wanted - (uint32_t)chosen;
        if (rng_below(draw(stream, sequence, ROLE_CHOICE, i), maskable--) >= left)
            continue;
        positions[chosen] = (int32_t)i;
        labels[chosen++] = ids[i];
        ids[i] = replacement(m, stream, sequence, i, ids[i]);
    }
    assert(chosen == wanted && chosen <= masking_limit(m, count));
    return chosen;
}
