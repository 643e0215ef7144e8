/* words - ids of text between added tokens: split, look up, merge what is new.
 *
 * Words are split and looked up in batches, so that their cache lines are on the way
 * while others are worked on. Of English text 94 % are found at once. */
#ifndef TOKENIZER_WORDS_H
#define TOKENIZER_WORDS_H

#include "tokenizer/bpe.h"
#include "tokenizer/ids.h"
#include "tokenizer/split.h"
#include "tokenizer/word_cache.h"

/* What encodes; read-only. */
struct words {
    const struct bpe *bpe;
    const struct vocab *vocab;
};

/* What one thread writes. Zeroed, it works without a cache. */
struct words_state {
    struct word_cache cache;
    enum split_path path; /* of words_open: the fastest; all give the same */
    struct bpe_scratch scratch;
    int32_t found[WORD_LONGEST]; /* ids of a word that is not in a slot */
};

/* Gives the state a cache that starts with the tokens that encode to themselves. */
enum status words_open(struct words_state *state, const struct words *w,
                       unsigned log2_buckets, struct error *err) MUST_CHECK;
void words_close(struct words_state *state);

/* Appends the ids of the text. */
enum status words_encode(const struct words *w, struct words_state *state,
                         const unsigned char *text, size_t length, struct ids *out,
                         struct error *err) MUST_CHECK;
/* Hands the words over one by one: text[start .. end) and its ids, valid until the call
 * returns. */
struct words_visitor {
    enum status (*visit)(void *self, size_t start, size_t end, const int32_t *ids,
                         size_t count, struct error *err);
    void *self;
};
enum status words_visit(const struct words *w, struct words_state *state,
                        const unsigned char *text, size_t length,
                        struct words_visitor visitor, struct error *err) MUST_CHECK;

#endif
