/* truncation - how a text or a pair that is too long is cut.
 *
 * The rules of Hugging Face tokenizers up to 0.22 in full, which later releases follow
 * except where they stop tokenising early. */
#ifndef TOKENIZER_TRUNCATION_H
#define TOKENIZER_TRUNCATION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum truncation_strategy {
    TRUNCATION_LONGEST_FIRST,
    TRUNCATION_ONLY_FIRST,
    TRUNCATION_ONLY_SECOND
};
enum direction { DIRECTION_RIGHT, DIRECTION_LEFT };

struct truncation {
    size_t max_length; /* tokens of the whole encoding with its special tokens */
    enum truncation_strategy strategy;
    enum direction direction;
    size_t stride; /* tokens that an overflow shares with what was kept before it */
};

/* Tokens to keep of both sides, at most `max` together. `second` is NULL for a single
 * text. LONGEST_FIRST cuts the longer side, an odd token goes to it, on equal lengths to
 * the second. ERR_USAGE when a side is too short to be cut by as much, or missing. */
enum status truncation_lengths(enum truncation_strategy strategy, size_t max,
                               size_t *first, size_t *second,
                               struct error *err) MUST_CHECK;

/* The pieces of `keep` tokens that `count` tokens are cut into, each sharing `stride`
 * tokens with the one before: *start and *end of piece `index`, the first being what is
 * kept; false when there is no such piece. keep > stride, or keep 0: the first piece is
 * empty and the second the whole. */
bool truncation_window(size_t count, size_t keep, size_t stride, enum direction direction,
                       size_t index, size_t *start, size_t *end);

#endif
