/* embedding - token ids to hidden states: word + position + token type, norm, dropout.
 *
 * With stream_center the stream begins centred, without its last channel where the norm
 * implies it.
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
    struct team *team;
    bool centers, narrows;
    struct tensor sum;  /* what the norm sees, kept for backward */
    struct tensor wide; /* (N, D) gradients, where the stream is narrower */
};

/* Declares the three tables and, with embed_norm, the norm's parameters. */
void embedding_declare(struct embedding *e, const struct config *config,
                       struct team *team, struct parameters *p);
/* `dtype` is of what is kept. */
void embedding_layout(struct embedding *e, struct arena *arena, enum dtype dtype,
                      int64_t max_rows);
/* x (N, stream), of any type, of N ids; `names` are the rows' places. Rows of x beyond
 * `num_tokens` become 0. `rate` is 0 outside training. */
void embedding_forward(const struct embedding *e, struct tensor x, const int32_t *ids,
                       int64_t num_tokens, struct row_names names, float rate,
                       struct rng stream);
/* Adds to the tables' gradients; dx (N, stream), f32, is overwritten. */
void embedding_backward(const struct embedding *e, struct tensor dx, const int32_t *ids,
                        int64_t num_tokens, struct row_names names, float rate,
                        struct rng stream);

#endif
