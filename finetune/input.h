/* input - texts as token sequences, stored unpadded, and batches of them.
 *
 * A single text is <s> A </s>, a pair <s> A </s></s> B </s>, cut to max_seq_length by the
 * longest-first rule. Texts are tokenised once; a batch is a copy of a few sequences in a
 * row with their boundaries, as the encoder takes it. */
#ifndef FINETUNE_INPUT_H
#define FINETUNE_INPUT_H

#include "encoder/encoder.h"
#include "finetune/task.h"
#include "tokenizer/tokenizer.h"

/* Zeroed = empty. */
struct input {
    int64_t count, capacity;
    struct ids ids;      /* all sequences in a row */
    int64_t *starts;     /* count + 1: sequence i is ids[starts[i]] .. ids[starts[i+1]] */
    float *labels;       /* count */
    uint64_t *by_length; /* count, after input_sort: length << 32 | sequence, ascending */
    int64_t longest;     /* tokens of the longest sequence */
};

struct text_pair {
    const char *a, *b; /* b NULL for a single text */
    size_t a_length, b_length;
};

/* Adds one sequence. ERR_INPUT from the tokenizer says what is wrong with its bytes;
 * after any error the input is as before. */
enum status input_add(struct input *in, const struct tokenizer *t,
                      struct tokenizer_cache *cache, struct text_pair text, float label,
                      int64_t max_seq_length, struct error *err) MUST_CHECK;
/* All examples in their order, on `threads` threads; the result does not depend on their
 * number. Errors name the file and line of the first bad example. */
enum status input_read(struct input *in, const struct tokenizer *t,
                       const struct examples *examples, int64_t max_seq_length,
                       int threads, struct error *err) MUST_CHECK;
/* Fills by_length: batches of sequences of one length waste nothing, and the last entries
 * tell how many tokens a batch can hold at most. */
void input_sort(struct input *in);
/* Such entries, ascending. */
void input_sort_keys(uint64_t *keys, int64_t count);
/* Most tokens that any `sequences` sequences have together; after input_sort. */
int64_t input_most_tokens(const struct input *in, int64_t sequences);
static inline int64_t input_length(const struct input *in, int64_t i) {
    return in->starts[i + 1] - in->starts[i];
}
void input_clear(struct input *in); /* empties, keeps the memory */
void input_free(struct input *in);

/* The sequence at `position` of an epoch's order: a permutation named by (seed, epoch).
 */
int64_t input_shuffled(const struct input *in, uint64_t seed, int64_t epoch,
                       int64_t position);

/* One batch in memory of its own; output_rows are the first tokens. */
struct input_batch {
    struct batch batch; /* points into the arrays below */
    struct limits limits;
    int32_t *input_ids, *starts, *output_rows;
    uint32_t *sequence_numbers;
    float *labels;
};
/* Takes the arrays for batches within `limits`; empties the batch. */
void input_batch_layout(struct input_batch *b, struct arena *arena, struct limits limits);
void input_batch_clear(struct input_batch *b);
/* Copies sequence i to the end; false when the batch has no room for it. */
bool input_batch_add(struct input_batch *b, const struct input *in, int64_t i,
                     uint32_t sequence_number);

#endif
