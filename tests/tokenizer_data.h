/* tokenizer_data - golden data of the tokenizer for its tests: JSON rows, vocabularies,
 * ids to compare. Data that a test unpacks lies in its folder (tests/support.h).
 *
 * Rows are answers of Hugging Face tokenizers 0.23.2, with which OpenAI's encoder.py and
 * tiktoken agree (tests/data/README.md). Long lists of ids are compared by their SHA-256,
 * which is computed here from its definition: a test should not need a library for it. */
#ifndef TESTS_TOKENIZER_DATA_H
#define TESTS_TOKENIZER_DATA_H

#include <jansson.h>
#include <stdio.h>

#include "tests/support.h"
#include "tokenizer/tokenizer.h"

#define TOKENIZER_DATA "tests/data/tokenizer/"

/* Unpacks tests/data/tokenizer/<name>.gz once; its path. */
const char *tokenizer_data_file(const char *name);
/* Hands each row of <name>.jsonl.gz over; how many there were. */
int tokenizer_data_rows(const char *name, void (*row)(void *self, const json_t *row),
                        void *self);
/* GPT-2's tokenizer without added tokens; RoBERTa's from fairseq's dictionary. Freed by
 * the caller. */
struct tokenizer *tokenizer_data_gpt2(void);
struct tokenizer *tokenizer_data_roberta(void);

/* Fails, showing `text`, unless the ids are those of the array. */
void tokenizer_data_assert_ids(const json_t *expected, const int32_t *ids, size_t count,
                               size_t stride, const char *text);
/* SHA-256 of ids as little-endian u32, in lower-case hex. */
void tokenizer_data_sha256(const struct ids *ids, char hex[65]);

#endif
