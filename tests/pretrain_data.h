/* pretrain_data - corpora and tokenizer for the tests of pretrain/.
 *
 * The tokenizer is a trained one of 2,000 tokens; the texts are made from a seed, so that
 * no test depends on a file but it. */
#ifndef TESTS_PRETRAIN_DATA_H
#define TESTS_PRETRAIN_DATA_H

#include "pretrain/packing.h"
#include "tests/support.h"

#define PRETRAIN_DATA_TOKENIZER "tests/data/pretrain/tokenizer"

struct tokenizer *pretrain_data_tokenizer(void);
/* Shards called `name` of one text, below support_folder(). */
void pretrain_data_corpus(struct corpus *c, const char *name, const char *text,
                          const struct tokenizer *t);
/* Ids as their tokens in one string ("<s>~~</s>"); valid until the next call. */
const char *pretrain_data_tokens(const struct tokenizer *t, const int32_t *ids,
                                 int64_t count);
/* `lines` lines of made-up English words, a blank line after every tenth; the caller
 * frees it. */
char *pretrain_data_text(int lines, uint32_t seed);

#endif
