/* truncation - how a text or a pair that is too long is cut.
 *
 * LONGEST_FIRST is, in words, to remove a token at a time from the longer side; where
 * that ends is computed: the shorter side keeps all it has, up to half. Windows of what
 * was cut off begin (keep - stride) tokens apart, from the start or, cutting on the left,
 * from the end. */
#include "tokenizer/truncation.h"

#include <assert.h>

/* A shorter side of at most half of `max` stays whole and the longer gets the rest; else
 * both get half and the longer, or the second of equal ones, an odd token. */
static void longest_first(size_t max, size_t *first, size_t *second) {
    size_t none = 0;
    size_t *shorter = first, *longer = second ? second : &none;
    if (*shorter > *longer) {
        shorter = longer;
        longer = first;
    }
    size_t rest = *shorter < max ? max - *shorter : 0;
    *longer = *shorter > max ? *shorter : rest > *shorter ? rest : *shorter;
    if (*shorter + *longer > max) {
        *shorter = max / 2;
        *longer = max / 2 + max % 2;
    }
}

enum status truncation_lengths(enum truncation_strategy strategy, size_t max,
                               size_t *first, size_t *second, struct error *err) {
    size_t total = *first + (second ? *second : 0);
    if (!max) {
        *first = 0;
        if (second)
            *second = 0;
        return OK;
    }
    if (total <= max)
        return OK;
    if (strategy == TRUNCATION_LONGEST_FIRST && !second)
        return *first = max, OK;
    if (strategy == TRUNCATION_LONGEST_FIRST)
        return longest_first(max, first, second), OK;
    size_t *side = strategy == TRUNCATION_ONLY_FIRST ? first : second;
    if (!side)
        return error_set(err, ERR_USAGE,
                         "truncation of the second text only, but there is one text");
    if (*side <= total - max)
        return error_set(err, ERR_USAGE,
                         "truncation would remove %zu tokens, but the text has only %zu",
                         total - max, *side);
    *side -= total - max;
    return OK;
}

bool truncation_window(size_t count, size_t keep, size_t stride, enum direction direction,
                       size_t index, size_t *start, size_t *end) {
    *start = 0;
    *end = count;
    if (keep >= count)
        return index == 0;
    if (!keep) {
        *end = index ? count : 0;
        return index < 2;
    }
    assert(stride < keep);
    size_t step = keep - stride;
    size_t windows = 1 + (count - keep + step - 1) / step;
    if (index >= windows)
        return false;
    if (direction == DIRECTION_RIGHT) {
        *start = index * step;
        *end = *start + keep < count ? *start + keep : count;
    } else {
        *end = count - index * step;
        *start = *end > keep ? *end - keep : 0;
    }
    return true;
}
