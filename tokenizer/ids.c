/* ids - a growing list of token ids. */
#include "tokenizer/ids.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { HUGE = 1 << 20 }; /* items more at a time, that are worth huge pages */

void ids_free(struct ids *ids) {
    free(ids->items);
    *ids = (struct ids){0};
}

enum status ids_reserve(struct ids *ids, size_t more, struct error *err) {
    if (more <= ids->capacity - ids->count)
        return OK;
    size_t capacity = ids->count + ids->count / 2 + more + 16;
    int32_t *items = capacity < SIZE_MAX / sizeof *items
                         ? realloc(ids->items, capacity * sizeof *items)
                         : NULL;
    if (!items)
        return error_set(err, ERR_MEMORY, "out of memory for %zu token ids", capacity);
    if (capacity > ids->capacity + HUGE)
        memory_use_huge_pages(items + ids->count,
                              (capacity - ids->count) * sizeof *items);
    ids->items = items;
    ids->capacity = capacity;
    return OK;
}

enum status ids_add(struct ids *ids, const int32_t *items, size_t count,
                    struct error *err) {
    if (!count)
        return OK;
    TRY(ids_reserve(ids, count, err));
    memcpy(ids->items + ids->count, items, count * sizeof *items);
    ids->count += count;
    return OK;
}
