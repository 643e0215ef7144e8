/* pair_queue - candidate pairs of BPE training, most frequent first.
 *
 * Most pairs are rare and are never asked for. They cost one push to a list; only when
 * the level comes down to their count are they put in order. The heap, which holds what
 * is at or above the level, so stays small enough for the first cache.
 *
 *   level       65536 at first, comes down by one when the heap runs dry
 *   count >= level    binary heap, ordered by (count falling, left, right rising)
 *   count <  level    list of that count, unordered; entries of one array, chained
 *
 * A pair whose count was too high comes back with a lower one: into the heap if it is
 * still at the level, else into a list. Both orders give the same pops, as all pairs of
 * one count enter the heap before the first of them is popped. */
#include "tokenizer/pair_queue.h"

#include <stdlib.h>

enum { LEVELS = 1 << 16 }; /* counts below this have a list each */
#define NONE UINT32_MAX

enum status pair_queue_open(struct pair_queue *q, struct error *err) {
    *q = (struct pair_queue){.level = LEVELS};
    q->lists = malloc(LEVELS * sizeof q->lists[0]);
    if (!q->lists)
        return error_set(err, ERR_MEMORY, "out of memory for the queue of pairs");
    for (size_t i = 0; i < LEVELS; i++)
        q->lists[i] = NONE;
    return OK;
}

/* Room for one more in an array that doubles. */
static enum status grow(struct pair **items, size_t count, size_t *capacity,
                        struct error *err) {
    if (count < *capacity)
        return OK;
    size_t wanted = *capacity ? *capacity * 2 : 1024;
    struct pair *moved = wanted < NONE ? realloc(*items, wanted * sizeof **items) : NULL;
    if (!moved)
        return error_set(err, ERR_MEMORY, "out of memory for %zu pairs", wanted);
    *items = moved;
    *capacity = wanted;
    return OK;
}

static bool goes_before(const struct pair *a, const struct pair *b) {
    if (a->count != b->count)
        return a->count > b->count;
    return a->left != b->left ? a->left < b->left : a->right < b->right;
}

static enum status heap_push(struct pair_queue *q, struct pair pair, struct error *err) {
    TRY(grow(&q->heap, q->heap_count, &q->heap_capacity, err));
    size_t at = q->heap_count++;
    while (at > 0 && goes_before(&pair, &q->heap[(at - 1) / 2])) {
        q->heap[at] = q->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    q->heap[at] = pair;
    return OK;
}

static struct pair heap_pop(struct pair_queue *q) {
    struct pair top = q->heap[0], last = q->heap[--q->heap_count];
    size_t at = 0;
    for (size_t child = 1; child < q->heap_count; child = 2 * at + 1) {
        if (child + 1 < q->heap_count &&
            goes_before(&q->heap[child + 1], &q->heap[child]))
            child++;
        if (!goes_before(&q->heap[child], &last))
            break;
        q->heap[at] = q->heap[child];
        at = child;
    }
    q->heap[at] = last;
    return top;
}

static enum status list_push(struct pair_queue *q, struct pair pair, struct error *err) {
    uint32_t at = q->lists[0];
    if (at != NONE) {
        q->lists[0] = q->waiting[at].next;
    } else {
        TRY(grow(&q->waiting, q->waiting_count, &q->waiting_capacity, err));
        at = (uint32_t)q->waiting_count++;
    }
    pair.next = q->lists[pair.count];
    q->lists[pair.count] = at;
    q->waiting[at] = pair;
    return OK;
}

enum status pair_queue_push(struct pair_queue *q, struct pair pair, struct error *err) {
    return pair.count >= q->level ? heap_push(q, pair, err) : list_push(q, pair, err);
}

/* Lowers the level by one and takes its list into the heap. */
static enum status lower(struct pair_queue *q, struct error *err) {
    uint32_t at = q->lists[--q->level];
    q->lists[q->level] = NONE;
    while (at != NONE) {
        uint32_t next = q->waiting[at].next;
        TRY(heap_push(q, q->waiting[at], err));
        q->waiting[at].next = q->lists[0];
        q->lists[0] = at;
        at = next;
    }
    return OK;
}

enum status pair_queue_pop(struct pair_queue *q, struct pair *out, bool *found,
                           struct error *err) {
    while (q->heap_count == 0 && q->level > 1)
        TRY(lower(q, err));
    *found = q->heap_count > 0;
    if (*found)
        *out = heap_pop(q);
    return OK;
}

void pair_queue_close(struct pair_queue *q) {
    free(q->heap);
    free(q->waiting);
    free(q->lists);
    *q = (struct pair_queue){0};
}
