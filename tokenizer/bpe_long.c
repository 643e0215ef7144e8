/* bpe_long - merges a word of many symbols in O(n log n).
 *
 * A doubly linked list of the symbols and a heap of (rank, place): a line of 200,000
 * times "a" takes milliseconds, where a scan for the minimum takes half a minute. */
#include "tokenizer/bpe_long.h"

#include <stdlib.h>

/* A symbol of a long word and its neighbours. */
struct bpe_links {
    uint32_t previous, next; /* NONE at the ends; a merged-away symbol has length 0 */
    uint32_t rank;           /* of the merge with the right one */
};
#define NONE UINT32_MAX

static enum status reserve_long(struct bpe_scratch *s, struct error *err) {
    if (s->count <= s->long_capacity)
        return OK;
    free(s->links);
    free(s->heap);
    s->long_capacity = 0;
    s->links = malloc(s->count * sizeof *s->links);
    /* A merge takes one entry off the heap, adds two at most and removes a symbol. */
    s->heap = malloc(2 * s->count * sizeof *s->heap);
    if (!s->links || !s->heap)
        return error_set(err, ERR_MEMORY, "out of memory for a word of %zu bytes",
                         s->count);
    s->long_capacity = s->count;
    return OK;
}

/* A heap of (rank, position) in one number: the smallest is the next merge. Four children
 * a node: half as many levels as with two, and the four lie in one cache line or two. */
static void heap_push(uint64_t *heap, size_t *count, uint64_t value) {
    size_t at = (*count)++;
    while (at > 0 && heap[(at - 1) / 4] > value) {
        heap[at] = heap[(at - 1) / 4];
        at = (at - 1) / 4;
    }
    heap[at] = value;
}

static uint64_t heap_pop(uint64_t *heap, size_t *count) {
    uint64_t top = heap[0], last = heap[--*count];
    size_t at = 0;
    for (;;) {
        size_t child = 4 * at + 1, end = child + 4 < *count ? child + 4 : *count;
        size_t least = child;
        for (size_t i = child + 1; i < end; i++)
            if (heap[i] < heap[least])
                least = i;
        if (child >= *count || heap[least] >= last)
            break;
        heap[at] = heap[least];
        at = least;
    }
    heap[at] = last;
    return top;
}

/* Finds the merge of a symbol with its right neighbour and queues it. */
static void queue(const struct bpe *b, struct bpe_scratch *s, uint32_t at,
                  size_t *queued) {
    struct bpe_links *l = &s->links[at];
    l->rank = BPE_NO_RANK;
    if (l->next == NONE)
        return;
    l->rank = bpe_find_pair(b, s->ids[at], s->ids[l->next]);
    if (l->rank != BPE_NO_RANK)
        heap_push(s->heap, queued, (uint64_t)l->rank << 32 | at);
}

static void merge_at(const struct bpe *b, struct bpe_scratch *s, uint32_t at,
                     size_t *queued) {
    struct bpe_links *l = &s->links[at], *right = &s->links[l->next];
    s->ids[at] = b->merges[l->rank].result;
    s->lengths[at] += s->lengths[l->next];
    s->lengths[l->next] = 0;
    right->rank = BPE_NO_RANK;
    l->next = right->next;
    if (l->next != NONE)
        s->links[l->next].previous = at;
    queue(b, s, at, queued);
    if (l->previous != NONE)
        queue(b, s, l->previous, queued);
}

/* Merges any number of symbols with a linked list and a heap. Entries whose rank is no
 * longer that of their position are stale: to find them in the heap and remove them would
 * cost more than to pass over them. A position never has the same pair twice, as its
 * token only grows, so an equal rank means a live entry. */
enum status bpe_merge_long(const struct bpe *b, struct bpe_scratch *s,
                           struct error *err) {
    TRY(reserve_long(s, err));
    size_t queued = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t next = i + 1 < s->count ? i + 1 : NONE;
        s->links[i] = (struct bpe_links){.previous = i ? i - 1 : NONE, .next = next};
        queue(b, s, i, &queued);
    }
    while (queued > 0) {
        uint64_t top = heap_pop(s->heap, &queued);
        uint32_t at = (uint32_t)top;
        if (s->links[at].rank == top >> 32)
            merge_at(b, s, at, &queued);
    }
    size_t kept = 0;
    for (uint32_t i = 0; i != NONE; i = s->links[i].next) {
        s->ids[kept] = s->ids[i];
        s->lengths[kept++] = s->lengths[i];
    }
    s->count = kept;
    return OK;
}
