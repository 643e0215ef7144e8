/* split - the pre-tokenizer of GPT-2 and RoBERTa.
 *
 * Leftmost, first alternative wins, on text between added tokens:
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * Every position matches, so there are no gaps. Bytes that are no UTF-8 count as
 * characters of class "other", one each, and never join a neighbouring letter run. */
#ifndef TOKENIZER_SPLIT_H
#define TOKENIZER_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

/* End of the pre-token that starts at `start` < `length`; the text ends at `length`. */
size_t split_next(const unsigned char *text, size_t start, size_t length);
/* The same for up to `max` pre-tokens in a row from `start` on: their ends, and how many
 * there are. The text has to be whole up to `length`: a word at the end of a block may go
 * on in the next. */
size_t split_spans(const unsigned char *text, size_t start, size_t length, size_t *ends,
                   size_t max);

/* How split_spans works: the paths give the same ends. */
enum split_path { SPLIT_PORTABLE, SPLIT_AVX2, SPLIT_AVX512, SPLIT_PATHS };
/* The fastest that this processor has. */
enum split_path split_best_path(void);
/* split_spans on a path that this processor has. by_line: each line with its '\n' is a
 * text of its own, as training reads files. */
size_t split_spans_by(enum split_path path, bool by_line, const unsigned char *text,
                      size_t start, size_t length, size_t *ends, size_t max);

#endif
