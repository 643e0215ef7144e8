/* word_table - how often each pre-token occurs: a hash table with 64-bit counts.
 *
 * Memory is bounded by the distinct words. Words of up to WORD_KEY_BYTES lie in the
 * table itself, longer ones in a text beside it. */
#ifndef TOKENIZER_WORD_TABLE_H
#define TOKENIZER_WORD_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "tokenizer/bpe_train.h"
#include "tokenizer/word_cache.h"

/* How far word_table_add() may read past a word's end: the text must be that long. */
#define WORD_TABLE_PADDING 16

enum { WORD_TABLE_QUEUE = 64 };

struct word_table {
    struct word_entry *entries; /* owned; a power of two, at most half of them used */
    int bits;
    size_t distinct;
    uint64_t total;                          /* words with repeats */
    struct buffer text;                      /* the long words, each after its length */
    struct word_key queue[WORD_TABLE_QUEUE]; /* short words not yet looked up */
    int queued;
};

/* An empty table of 4096 entries. */
enum status word_table_open(struct word_table *table, struct error *err) MUST_CHECK;
/* Counts `word` once. Reads up to WORD_TABLE_PADDING bytes past its end. */
enum status word_table_add(struct word_table *table, const unsigned char *word,
                           size_t length, struct error *err) MUST_CHECK;
/* Ends a run of word_table_add(): only then are `distinct` and the entries complete. */
enum status word_table_settle(struct word_table *table, struct error *err) MUST_CHECK;
/* Adds all counts of `from`, which is settled. */
enum status word_table_merge(struct word_table *table, const struct word_table *from,
                             struct error *err) MUST_CHECK;
/* The `distinct` words of a settled table, in no particular order; they live as long as
 * the table. The caller frees *words. */
enum status word_table_words(const struct word_table *table, struct counted_word **words,
                             struct error *err) MUST_CHECK;
void word_table_close(struct word_table *table);

#endif
