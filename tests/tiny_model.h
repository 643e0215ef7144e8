/* tiny_model - a byte-level tokenizer without merges and a random model for tests.
 *
 * Every byte is a token, so that any text can be encoded and ids can be told at sight. */
#ifndef TESTS_TINY_MODEL_H
#define TESTS_TINY_MODEL_H

#include <stdint.h>

/* Ids: <s> <pad> </s> <unk> <mask> = 0..4, then the 256 bytes in the alphabet's order. */
enum { TINY_BOS = 0, TINY_EOS = 2, TINY_BYTES = 5, TINY_VOCAB = 261 };

/* Id of a printable ASCII character. */
static inline int32_t tiny_id(char c) { return TINY_BYTES + c - '!'; }

/* vocab.json, merges.txt and tokenizer_config.json in <folder>/<name>; its path. */
const char *tiny_tokenizer(const char *name);

struct tiny_model {
    int64_t vocab_size, max_position_embeddings; /* 0 = TINY_VOCAB, 66 */
    const char *labels[8];                       /* none = no classification head */
    uint64_t seed;
};
/* A model directory with 2 layers of 32 channels, 2 heads, Post-LN; its path. */
const char *tiny_model(const char *name, struct tiny_model model);

#endif
