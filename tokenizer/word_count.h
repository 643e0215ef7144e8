/* word_count - the pre-tokens of text files and how often each occurs, counted by
 * several threads.
 *
 * A line with its '\n' is one text, as Hugging Face's trainer reads: whitespace never
 * crosses a line, an empty line is the word "\n", '\r' stays. The result does not depend
 * on the number of threads. */
#ifndef TOKENIZER_WORD_COUNT_H
#define TOKENIZER_WORD_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/progress.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/word_table.h"

struct word_count_options {
    bool add_prefix_space; /* before each line that does not begin with one */
    enum invalid_utf8 invalid_utf8;
    const struct normalizer
        *normalizer; /* applied before the words are cut; may be NULL */
    int threads;     /* >= 1 */
    enum progress_mode progress;
};

/* What was read. */
struct word_count_totals {
    uint64_t bytes, lines;
    uint64_t invalid_places;  /* where the text is no UTF-8 (never with ..._ERROR) */
    const char *invalid_path; /* the first of them */
    uint64_t invalid_offset;
};

/* Counts into `table`, which is open. Invalid UTF-8 is ERR_INPUT naming file and byte
 * (the first in reading order) unless the options say otherwise. */
enum status word_count_files(struct word_table *table, const char *const *paths,
                             int path_count, const struct word_count_options *options,
                             struct word_count_totals *totals,
                             struct error *err) MUST_CHECK;

#endif
