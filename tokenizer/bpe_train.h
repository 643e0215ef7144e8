/* bpe_train - learns a byte-level BPE vocabulary from counted words.
 *
 * The rule, exactly that of Hugging Face's trainer: while the vocabulary is smaller than
 * wanted, merge the adjacent pair of tokens with the largest count (occurrences times the
 * word's count; overlaps count, so "aaa" holds (a, a) twice), ties by smallest
 * (left id, right id); stop below the minimum frequency. A pair is merged left to right,
 * non-overlapping, in every word. Counts have 64 bits. The order of the words does not
 * matter.
 *
 * Memory is about 20 bytes for each byte of the distinct words. */
#ifndef TOKENIZER_BPE_TRAIN_H
#define TOKENIZER_BPE_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/progress.h"

struct counted_word {
    const unsigned char *bytes;
    size_t length; /* >= 1 */
    uint64_t count;
};

struct bpe_train_options {
    int32_t vocab_size;     /* with special tokens and single bytes */
    uint64_t min_frequency; /* 0 is as 1 */
    uint64_t
        max_token_length; /* a new token has fewer bytes than this, or two; 0 = any */
    bool all_bytes;       /* all 256 bytes are tokens, else those that occur */
    const char *const *specials; /* UTF-8; they take the first ids, repeats are dropped */
    int special_count;
    struct progress *progress; /* of merges; may be NULL */
};

struct trained_merge {
    int32_t left, right; /* token ids */
};

/* What was learned. Smaller than asked when pairs ran out, larger when the specials and
 * bytes alone are more. */
struct bpe_trained {
    struct buffer text;    /* the tokens' strings in the byte alphabet, end to end */
    size_t *ends;          /* owned; where the string of each id ends in `text` */
    int32_t size;          /* tokens */
    int32_t special_count; /* distinct specials: ids 0 to special_count - 1 */
    struct trained_merge *merges; /* owned; in order */
    int32_t merge_count;
};

/* Words are read during the call only; equal words may stand more than once. `out` owns
 * what it gets and is empty after an error: ERR_MEMORY, or ERR_FAILED above 4 GiB of
 * distinct words. */
enum status bpe_train(struct bpe_trained *out, const struct counted_word *words,
                      size_t word_count, const struct bpe_train_options *options,
                      struct error *err) MUST_CHECK;
/* The string of token `id`, not NUL-terminated. */
const char *bpe_trained_token(const struct bpe_trained *trained, int32_t id,
                              size_t *length);
void bpe_trained_free(struct bpe_trained *trained);

#endif
