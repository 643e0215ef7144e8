/* bpe_long - merges a word of many symbols in O(n log n). */
#ifndef TOKENIZER_BPE_LONG_H
#define TOKENIZER_BPE_LONG_H

#include "tokenizer/bpe.h"

/* Merges the symbols in scratch->ids, as bpe_word does. ERR_MEMORY. */
enum status bpe_merge_long(const struct bpe *b, struct bpe_scratch *scratch,
                           struct error *err) MUST_CHECK;

#endif
