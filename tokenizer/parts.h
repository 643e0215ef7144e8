/* parts - what a tokenizer is made of; for the files of this folder only.
 *
 *   tokenizer         read-only once loaded: vocabulary, merges, added tokens, template
 *   tokenizer_cache   what one thread writes: word cache, scratch of merging, buffers
 *
 * How a text becomes ids: tokenizer_check_text -> pieces_cut -> tokenizer_prefix ->
 * words_encode; with offsets the same as far as words_visit (encoding.c). Loading fills
 * the vocabulary and the merges, calls tokenizer_ready() once, then registers added
 * tokens. */
#ifndef TOKENIZER_PARTS_H
#define TOKENIZER_PARTS_H

#include "base/file.h"
#include "tokenizer/added.h"
#include "tokenizer/bpe.h"
#include "tokenizer/encoding.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pieces.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocab.h"
#include "tokenizer/words.h"

enum { CACHE_LOG2_BUCKETS = 16 }; /* 9 MiB a thread */

/* <s> A </s> and <s> A </s></s> B </s>. */
struct template {
    bool present;
    int32_t cls, sep;
    bool trim_offsets;
    bool add_prefix_space; /* as far as trimming is concerned */
};

struct tokenizer {
    struct vocab vocab;
    struct bpe bpe;
    struct added added;
    struct normalizer normalizer;
    struct template template;
    struct words words; /* over bpe and vocab */
    bool add_prefix_space;
    enum invalid_utf8 invalid_utf8;
    struct special_ids specials;
    struct tokenizer_facts facts;
    /* How tokenizer.json said what means the same, to save it unchanged. */
    bool json_null_affixes, json_null_decoder;
    struct mapping image; /* where the arrays lie if they were not read from the files */
};

/* What a thread keeps between texts. Zeroed, it works without a cache of words. */
struct tokenizer_cache {
    struct words_state words;
    struct buffer prefixed;   /* a piece with its inserted space */
    struct encoding sides[2]; /* of encoding_encode: both texts before they are cut */
};

/* An empty tokenizer; NULL: out of memory. */
struct tokenizer *tokenizer_new(void);
/* Called once vocabulary and merges are in: finds out what is unusual about them. */
enum status tokenizer_ready(struct tokenizer *t, struct error *err) MUST_CHECK;
/* Registers <s> <pad> </s> <unk> <mask> where the vocabulary has them, notes their ids,
 * and sets RoBERTa's template if <s> and </s> are there. */
enum status tokenizer_use_roberta(struct tokenizer *t, struct error *err) MUST_CHECK;
/* Notes the ids of <s> <pad> </s> <unk> <mask>. */
void tokenizer_name_specials(struct tokenizer *t);
/* Adds a token under the id that a file gives it; a call of tokenizer_add_tokens has to
 * follow. ERR_INPUT when the vocabulary has it under another id. */
enum status tokenizer_add_token_with_id(struct tokenizer *t,
                                        const struct added_token *token, int32_t id,
                                        struct error *err) MUST_CHECK;

void tokenizer_cache_release(struct tokenizer_cache *cache);
/* The text to encode: as it is, or (mode replace) rewritten into `replaced`. ERR_INPUT
 * when it is no UTF-8 and has to be. */
enum status tokenizer_check_text(const struct tokenizer *t, struct buffer *replaced,
                                 const char **text, size_t *length,
                                 struct error *err) MUST_CHECK;
/* The piece's text with the space that add_prefix_space asks for; *inserted is 1 when one
 * was put in front. */
enum status tokenizer_prefix(const struct tokenizer *t, struct tokenizer_cache *cache,
                             const struct piece *p, const unsigned char **text,
                             size_t *length, size_t *inserted,
                             struct error *err) MUST_CHECK;

#endif
