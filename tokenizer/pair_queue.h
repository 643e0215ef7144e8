/* pair_queue - candidate pairs of BPE training, most frequent first, ties by smallest
 * (left, right).
 *
 * The counts that are popped never rise again: a new pair lies inside occurrences of the
 * pair that made it. So only pairs at or above the present level stand in a heap; the
 * many rare ones wait in one list a count and enter it when the level comes down to
 * them. */
#ifndef TOKENIZER_PAIR_QUEUE_H
#define TOKENIZER_PAIR_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct pair {
    uint64_t count;       /* occurrences when last counted: an upper bound */
    uint64_t first;       /* index of its first place in the trainer's list */
    uint32_t places;      /* how many */
    uint32_t left, right; /* token ids */
    uint32_t next;        /* the queue's own */
};

struct pair_queue {
    struct pair *heap; /* owned; counts >= level */
    size_t heap_count, heap_capacity;
    struct pair *waiting; /* owned; lists by count, chained by `next` */
    size_t waiting_count, waiting_capacity;
    uint32_t *lists; /* owned; first of each list, by count; [0] holds unused entries */
    size_t level;
};

/* An empty queue; 256 KiB for its lists. */
enum status pair_queue_open(struct pair_queue *q, struct error *err) MUST_CHECK;
/* pair.count is at least 1. */
enum status pair_queue_push(struct pair_queue *q, struct pair pair,
                            struct error *err) MUST_CHECK;
/* *found is false when the queue is empty. */
enum status pair_queue_pop(struct pair_queue *q, struct pair *out, bool *found,
                           struct error *err) MUST_CHECK;
void pair_queue_close(struct pair_queue *q);

#endif
