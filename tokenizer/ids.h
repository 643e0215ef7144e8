/* ids - a growing list of token ids. */
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
enum status ids_add(struct ids *ids, const int32_t *items, size_t count,
                    struct error *err) MUST_CHECK;

#endif
