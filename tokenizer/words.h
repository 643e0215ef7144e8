/* words - ids of text between added tokens: split, look up, merge what is new. */
#ifndef TOKENIZER_WORDS_H
#define TOKENIZER_WORDS_H

#include "tokenizer/bpe.h"
#include "tokenizer/ids.h"
#include "tokenizer/word_cache.h"

/* What encodes; read-only. */
struct words {
    const struct bpe *bpe;
    const struct word_cache *seed; /* of words_seed */
};

/* What one thread writes. Zeroed, it works without a cache of its own. */
struct words_state {
    struct word_cache cache;
    struct bpe_scratch scratch;
};

/* Fills an opened cache with the tokens that encode to themselves and marks them
 * reachable. */
enum status words_seed(struct word_cache *seed, const struct bpe *bpe, struct vocab *v,
                       struct error *err) MUST_CHECK;
/* Gives the state a cache, filled from the seed. */
enum status words_open(struct words_state *state, const struct word_cache *seed,
                       struct error *err) MUST_CHECK;
void words_close(struct words_state *state);

/* Appends the ids of the text. */
enum status words_encode(const struct words *w, struct words_state *state,
                         const unsigned char *text, size_t length, struct ids *out,
                         struct error *err) MUST_CHECK;
/* The ids of one word; *ids is valid until the next call. */
enum status words_encode_one(const struct words *w, struct words_state *state,
                             const unsigned char *word, size_t length,
                             const int32_t **ids, size_t *count,
                             struct error *err) MUST_CHECK;

#endif
