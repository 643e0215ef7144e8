/* embedding - token ids to hidden states: word + position + token type, norm, dropout.
 *
 * Position ids begin at pad_token_id + 1, as RoBERTa counts them; all tokens have type 0,
 * whose row is always added. Rows of the pad token get no gradient. */
#ifndef ENCODER_EMBEDDING_H
#define ENCODER_EMBEDDING_H

#include "base/rng.h"
#include "encoder/config.h"
#include "encoder/dropout.h"
#include "encoder/norm.h"
#include "encoder/parameters.h"

struct embedding {
    struct parameter *word, *position, *token_type;
    struct norm norm; /* kind NULL when embed_norm is off */
    int64_t first_position, pad_token_id;
    int threads;
    struct tensor sum; /* what the norm sees, kept for backward */
};

void embedding_declare(struct embedding *e, const struct config *config, int threads,
                       struct parameters *p);
void embedding_layout(struct embedding *e, struct arena *arena, int64_t max_rows);
/* x (N, D) of N ids; `names` are the rows' places. Rows of x beyond `num_tokens` become
 * finite values that nothing reads. `rate` is 0 outside training. */
void embedding_forward(const struct embedding *e, struct tensor x, const int32_t *ids,
                       int64_t num_tokens, struct row_names names, float rate,
                       struct rng stream);
/* Adds to the tables' gradients; dx is overwritten. */
void embedding_backward(const struct embedding *e, struct tensor dx, const int32_t *ids,
                        int64_t num_tokens, struct row_names names, float rate,
                        struct rng stream);

#endif
