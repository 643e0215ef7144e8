/* bpe - the merges of byte-pair encoding and how they are applied to one word.
 *
 * Pairs of ids are looked up in a table with open addressing, at most half full, 16 bytes
 * a slot: the key, the rank and the id of the result, so that a merge costs one cache
 * line. The id of a result is looked up by its string, never assumed to be 256 + rank:
 * vocabularies exist where it is not.
 *
 * One word is merged in one of two ways, with the same result:
 *
 *   up to 32 symbols   the ranks of all neighbours in an array; find the smallest, merge,
 *                      close the gap, look up the two ranks that changed. n^2 steps, but
 *                      few and in the first cache: most words are short
 *   more symbols       a doubly linked list over the same arrays and a heap of
 *                      (rank, place). O(n log n): a line of 200,000 times "a" takes
 *                      milliseconds, where a scan for the minimum takes half a minute
 *
 * Equal ranks are merged leftmost first in both: the scan keeps the first minimum, the
 * heap orders by (rank, place) in one integer. */
#include "tokenizer/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/bytes.h"

enum { SHORT_WORD = 32 }; /* symbols; up to here a scan for the minimum beats a heap */

void bpe_init(struct bpe *b, const struct vocab *v) {
    *b = (struct bpe){.unk = -1};
    for (int byte = 0; byte < 256; byte++) {
        unsigned char one = (unsigned char)byte;
        char text[2];
        b->byte_id[byte] = vocab_find(v, text, bytes_to_text(text, &one, 1));
    }
}

void bpe_free(struct bpe *b) {
    free(b->merges);
    free(b->pairs);
    buffer_free(&b->joined);
    b->merges = NULL;
    b->pairs = NULL;
    b->merge_count = b->merge_capacity = 0;
    b->pair_slots = 0;
}

/* The slot of a pair, or the empty one where it belongs. */
static struct bpe_pair *pair_slot(const struct bpe *b, int32_t left, int32_t right) {
    size_t mask = b->pair_slots - 1;
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t at = (key * 0x9E3779B97F4A7C15u >> 32) & mask;
    for (;; at = (at + 1) & mask) {
        struct bpe_pair *p = &b->pairs[at];
        if ((p->left == left && p->right == right) || p->rank == BPE_NO_RANK)
            return p;
    }
}

const struct bpe_pair *bpe_find_pair(const struct bpe *b, int32_t left, int32_t right) {
    if (!b->pair_slots)
        return NULL;
    const struct bpe_pair *p = pair_slot(b, left, right);
    return p->rank == BPE_NO_RANK ? NULL : p;
}

static enum status grow_pairs(struct bpe *b, struct error *err) {
    struct bpe_pair *old = b->pairs;
    size_t old_slots = b->pair_slots, slots = old_slots ? 2 * old_slots : 1024;
    struct bpe_pair *pairs = malloc(slots * sizeof *pairs);
    if (!pairs)
        return error_set(err, ERR_MEMORY, "out of memory for the merges");
    memset(pairs, 0xFF, slots * sizeof *pairs);
    b->pairs = pairs;
    b->pair_slots = slots;
    for (size_t i = 0; i < old_slots; i++)
        if (old[i].rank != BPE_NO_RANK)
            *pair_slot(b, old[i].left, old[i].right) = old[i];
    free(old);
    return OK;
}

static enum status grow_merges(struct bpe *b, struct error *err) {
    if (b->merge_count == VOCAB_MAX_ID)
        return error_set(err, ERR_INPUT, "more than %d merges", VOCAB_MAX_ID);
    if (2 * (size_t)b->merge_count >= b->pair_slots)
        TRY(grow_pairs(b, err));
    if (b->merge_count < b->merge_capacity)
        return OK;
    uint32_t capacity = b->merge_capacity ? 2 * b->merge_capacity : 1024;
    struct bpe_merge *merges = realloc(b->merges, capacity * sizeof *merges);
    if (!merges)
        return error_set(err, ERR_MEMORY, "out of memory for the merges");
    b->merges = merges;
    b->merge_capacity = capacity;
    return OK;
}

static enum status find_token(const struct vocab *v, const char *text, size_t length,
                              int32_t *id, struct error *err) {
    *id = vocab_find(v, text, length);
    if (*id >= 0)
        return OK;
    return error_set(err, ERR_INPUT, "expected tokens of the vocabulary, found '%.*s'",
                     (int)(length < 200 ? length : 200), text);
}

/* Usually merges make the tokens in the order of their ids: trying the next id first
 * saves loading a hash and a probe a merge. */
static bool is_next_result(const struct bpe *b, const struct vocab *v, int32_t *id) {
    *id = b->merge_count ? b->merges[b->merge_count - 1].result + 1 : 0;
    if (!vocab_has(v, *id))
        return false;
    size_t length;
    const char *text = vocab_text(v, *id, &length);
    return length == b->joined.length && !memcmp(text, b->joined.data, length);
}

static enum status find_result(struct bpe *b, const struct vocab *v, struct bpe_merge *m,
                               struct error *err) {
    size_t left_length, right_length;
    const char *left = vocab_text(v, m->left, &left_length);
    const char *right = vocab_text(v, m->right, &right_length);
    buffer_clear(&b->joined);
    TRY(buffer_add(&b->joined, left, left_length, err));
    TRY(buffer_add(&b->joined, right, right_length, err));
    if (is_next_result(b, v, &m->result))
        return OK;
    return find_token(v, b->joined.data, b->joined.length, &m->result, err);
}

enum status bpe_add_merge(struct bpe *b, const struct vocab *v, const char *left,
                          size_t left_length, const char *right, size_t right_length,
                          struct error *err) {
    struct bpe_merge m;
    TRY(find_token(v, left, left_length, &m.left, err));
    TRY(find_token(v, right, right_length, &m.right, err));
    TRY(find_result(b, v, &m, err));
    TRY(grow_merges(b, err));
    struct bpe_pair *p = pair_slot(b, m.left, m.right);
    if (p->rank != BPE_NO_RANK)
        b->merges[p->rank].left = -1;
    *p = (struct bpe_pair){m.left, m.right, b->merge_count, m.result};
    b->merges[b->merge_count++] = m;
    return OK;
}

static enum status reserve(struct bpe_scratch *s, size_t length, struct error *err) {
    if (length > BPE_MAX_WORD)
        return error_set(err, ERR_INPUT, "a word of %zu bytes; at most %zu are possible",
                         length, BPE_MAX_WORD);
    if (length <= s->capacity)
        return OK;
    size_t capacity = length + length / 2 + SHORT_WORD;
    int32_t *ids = realloc(s->ids, capacity * sizeof *ids);
    if (ids)
        s->ids = ids;
    uint32_t *lengths = realloc(s->lengths, capacity * sizeof *lengths);
    if (lengths)
        s->lengths = lengths;
    if (!ids || !lengths)
        return error_set(err, ERR_MEMORY, "out of memory for a word of %zu bytes",
                         length);
    s->capacity = capacity;
    return OK;
}

void bpe_scratch_free(struct bpe_scratch *s) {
    free(s->ids);
    free(s->lengths);
    free(s->links);
    free(s->heap);
    *s = (struct bpe_scratch){0};
}

/* The word as single-byte tokens. */
static void spell(const struct bpe *b, struct bpe_scratch *s, const unsigned char *word,
                  size_t length) {
    s->count = 0;
    bool fusing = false;
    for (size_t i = 0; i < length; i++) {
        int32_t id = b->byte_id[word[i]];
        bool missing = id < 0;
        if (missing && fusing && b->fuse_unk) {
            s->lengths[s->count - 1]++;
            continue;
        }
        fusing = missing && b->unk >= 0;
        if (missing && b->unk < 0)
            continue;
        s->ids[s->count] = missing ? b->unk : id;
        s->lengths[s->count++] = 1;
    }
}

static uint32_t rank_at(const struct bpe *b, const struct bpe_scratch *s, size_t i,
                        int32_t *result) {
    if (i + 1 >= s->count)
        return BPE_NO_RANK;
    const struct bpe_pair *p = bpe_find_pair(b, s->ids[i], s->ids[i + 1]);
    *result = p ? p->result : -1;
    return p ? p->rank : BPE_NO_RANK;
}

/* Merges up to SHORT_WORD symbols by looking for the minimum each time. */
static void merge_short(const struct bpe *b, struct bpe_scratch *s) {
    uint32_t ranks[SHORT_WORD];
    int32_t results[SHORT_WORD];
    for (size_t i = 0; i < s->count; i++)
        ranks[i] = rank_at(b, s, i, &results[i]);
    while (s->count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < s->count; i++)
            if (ranks[i] < ranks[best])
                best = i;
        if (ranks[best] == BPE_NO_RANK)
            return;
        s->ids[best] = results[best];
        s->lengths[best] += s->lengths[best + 1];
        s->count--;
        for (size_t i = best + 1; i < s->count; i++) {
            s->ids[i] = s->ids[i + 1];
            s->lengths[i] = s->lengths[i + 1];
            ranks[i] = ranks[i + 1];
            results[i] = results[i + 1];
        }
        ranks[best] = rank_at(b, s, best, &results[best]);
        if (best > 0)
            ranks[best - 1] = rank_at(b, s, best - 1, &results[best - 1]);
    }
}

/* A symbol of a long word: its neighbours, and the merge with the right one. */
struct bpe_links {
    uint32_t previous, next; /* NONE at the ends; a merged-away symbol has length 0 */
    uint32_t rank;
    int32_t result;
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
    const struct bpe_pair *p = bpe_find_pair(b, s->ids[at], s->ids[l->next]);
    if (!p)
        return;
    l->rank = p->rank;
    l->result = p->result;
    heap_push(s->heap, queued, (uint64_t)p->rank << 32 | at);
}

/* Joins a symbol and its right neighbour, which becomes unreachable, and looks for the
 * merges of what is new with its neighbours. Entries of the old pairs stay in the heap.
 */
static void merge_at(const struct bpe *b, struct bpe_scratch *s, uint32_t at,
                     size_t *queued) {
    struct bpe_links *l = &s->links[at], *right = &s->links[l->next];
    s->ids[at] = l->result;
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
static enum status merge_long(const struct bpe *b, struct bpe_scratch *s,
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

enum status bpe_word(const struct bpe *b, struct bpe_scratch *s,
                     const unsigned char *word, size_t length, struct error *err) {
    TRY(reserve(s, length, err));
    spell(b, s, word, length);
    if (s->count <= SHORT_WORD) {
        merge_short(b, s);
        return OK;
    }
    return merge_long(b, s, err);
}
