/* ids - a growing list of token ids.
 *
 * Zeroed at first. It grows by half of what it holds, so that adding one at a time costs
 * O(1) on average, and is emptied by count = 0, which keeps its memory for the next text.
 * ERR_MEMORY leaves what it held as it was. */
#ifndef TOKENIZER_IDS_H
#define TOKENIZER_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct ids {
    int32_t *items; /* owned */
    size_t count, capacity;
};

void ids_free(struct ids *ids);
/* Room for `more` items after the last. */
enum status ids_reserve(struct ids *ids, size_t more, struct error *err) MUST_CHECK;
/* Appends; `items` may be NULL when count is 0. */
enum status ids_add(struct ids *ids, const int32_t *items, size_t count,
                    struct error *err) MUST_CHECK;

#endif
