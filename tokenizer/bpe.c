/* bpe - the merges of byte-pair encoding and how they are applied to one word.
 *
 * Pairs of ids are looked up in a table with open addressing, at most half full, of
 * ranks: the pair itself is compared in the list of merges, of which the frequent ones
 * come first. Waiting for memory is what merging a word costs, so all is kept small:
 * pairs of bytes, with which every word begins, have a table of their own. The id of a
 * result is looked up by its string, never assumed to be 256 + rank: vocabularies exist
 * where it is not.
 *
 * One word is merged in one of two ways, with the same result:
 *
 *   up to 256 symbols  the ranks of all neighbours in an array; find the smallest, merge,
 *                      look up the two ranks that changed. n^2 steps, but few, eight at a
 *                      time and in the first cache: most words are short
 *   more symbols       bpe_long.c
 *
 * Equal ranks are merged leftmost first in both: heap and scan order by (rank, place) in
 * one integer. Before that a long word is cut between bytes that meet in no token: there
 * are many such places in any text but a repetition. */
#include "tokenizer/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/bpe_long.h"
#include "tokenizer/bytes.h"

enum {
    SHORT_WORD = 256, /* symbols; up to here a scan for the minimum beats a heap */
    PLACE_BITS = 8,
    RANK_BITS = 24, /* of a slot of the pairs; the tag has the others */
    MOST_RANK = BPE_RANK_MASK,
    TAG = 0xFF,
    LANES = 8 /* of 32 bits, that the scan looks at in one instruction */
};
static const uint32_t TAG_BITS = (uint32_t)TAG << RANK_BITS;
_Static_assert(VOCAB_MAX_ID <= MOST_RANK, "a rank fits");
_Static_assert(SHORT_WORD == 1 << PLACE_BITS, "a place fits");

void bpe_init(struct bpe *b, const struct vocab *v) {
    *b = (struct bpe){.unk = -1};
    for (int byte = 0; byte < 256; byte++) {
        unsigned char one = (unsigned char)byte;
        char text[2];
        b->byte_id[byte] = vocab_find(v, text, bytes_to_text(text, &one, 1));
    }
}

void bpe_free(struct bpe *b) {
    if (!b->is_mapped) {
        free(b->merges);
        free(b->pairs);
        free(b->byte_pairs);
    }
    buffer_free(&b->joined);
    b->byte_pairs = NULL;
    b->merges = NULL;
    b->pairs = NULL;
    b->merge_count = b->merge_capacity = 0;
    b->pair_slots = 0;
}

/* The slot of a pair, or the empty one where it belongs; *tag is what stands above the
 * rank in it. The multiplication brings both ids into the upper half of the product
 * only. */
static uint32_t *pair_slot(const struct bpe *b, int32_t left, int32_t right,
                           uint32_t *tag) {
    size_t mask = b->pair_slots - 1;
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint64_t hash = key * 0x9E3779B97F4A7C15u >> 32;
    *tag = (uint32_t)hash & TAG;
    for (size_t at = hash >> 8 & mask;; at = (at + 1) & mask) {
        uint32_t slot = b->pairs[at];
        if (slot == BPE_NO_RANK)
            return &b->pairs[at];
        if ((slot & TAG_BITS) != *tag << RANK_BITS)
            continue;
        const struct bpe_merge *m = &b->merges[slot & MOST_RANK];
        if (m->left == left && m->right == right)
            return &b->pairs[at];
    }
}

uint32_t bpe_find_pair(const struct bpe *b, int32_t left, int32_t right) {
    if (!b->pair_slots)
        return BPE_NO_RANK;
    uint32_t tag, slot = *pair_slot(b, left, right, &tag);
    return slot == BPE_NO_RANK ? BPE_NO_RANK : slot & MOST_RANK;
}

/* Of the merge of this rank, which is not among the pairs yet or moves to this rank. */
static void add_pair(struct bpe *b, uint32_t rank) {
    uint32_t tag, *slot = pair_slot(b, b->merges[rank].left, b->merges[rank].right, &tag);
    if (*slot != BPE_NO_RANK)
        b->merges[*slot & MOST_RANK].left = -1;
    *slot = tag << RANK_BITS | rank;
}

static size_t byte_pair(unsigned char first, unsigned char second) {
    return (size_t)first << 8 | second;
}

/* Of a merge: the bytes that meet at its border, and its rank if it is of two bytes. */
static void index_merge(struct bpe *b, const struct vocab *v, uint32_t rank) {
    const struct bpe_merge *m = &b->merges[rank];
    size_t left_length, right_length;
    const unsigned char *left = vocab_bytes(v, m->left, &left_length);
    const unsigned char *right = vocab_bytes(v, m->right, &right_length);
    if (!left_length || !right_length)
        return;
    size_t pair = byte_pair(left[left_length - 1], right[0]);
    b->meets[pair / 8] |= (unsigned char)(1 << pair % 8);
    if (b->byte_id[left[0]] == m->left && b->byte_id[right[0]] == m->right)
        b->byte_pairs[pair] = rank;
}

enum status bpe_index_bytes(struct bpe *b, const struct vocab *v, struct error *err) {
    for (int byte = 0; byte < 256; byte++)
        if (b->byte_id[byte] < 0)
            return OK;
    b->byte_pairs = malloc(BPE_BYTE_PAIRS * sizeof *b->byte_pairs);
    if (!b->byte_pairs)
        return error_set(err, ERR_MEMORY, "out of memory for the merges");
    memset(b->byte_pairs, 0xFF, BPE_BYTE_PAIRS * sizeof *b->byte_pairs);
    for (uint32_t rank = 0; rank < b->merge_count; rank++)
        if (b->merges[rank].left >= 0)
            index_merge(b, v, rank);
    return OK;
}

static enum status grow_pairs(struct bpe *b, struct error *err) {
    size_t slots = b->pair_slots ? 2 * b->pair_slots : 1024;
    uint32_t *pairs = malloc(slots * sizeof *pairs);
    if (!pairs)
        return error_set(err, ERR_MEMORY, "out of memory for the merges");
    memset(pairs, 0xFF, slots * sizeof *pairs);
    free(b->pairs);
    b->pairs = pairs;
    b->pair_slots = slots;
    for (uint32_t rank = 0; rank < b->merge_count; rank++)
        if (b->merges[rank].left >= 0)
            add_pair(b, rank);
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
 * saves joining the strings, a hash and a probe a merge. */
static bool is_next_result(const struct bpe *b, const struct vocab *v,
                           struct bpe_merge *m) {
    m->result = b->merge_count ? b->merges[b->merge_count - 1].result + 1 : 0;
    if (!vocab_has(v, m->result))
        return false;
    size_t length, left_length, right_length;
    const char *text = vocab_text(v, m->result, &length);
    const char *left = vocab_text(v, m->left, &left_length);
    const char *right = vocab_text(v, m->right, &right_length);
    return length == left_length + right_length && !memcmp(text, left, left_length) &&
           !memcmp(text + left_length, right, right_length);
}

static enum status find_result(struct bpe *b, const struct vocab *v, struct bpe_merge *m,
                               struct error *err) {
    if (is_next_result(b, v, m))
        return OK;
    size_t left_length, right_length;
    const char *left = vocab_text(v, m->left, &left_length);
    const char *right = vocab_text(v, m->right, &right_length);
    buffer_clear(&b->joined);
    TRY(buffer_add(&b->joined, left, left_length, err));
    TRY(buffer_add(&b->joined, right, right_length, err));
    return find_token(v, b->joined.data, b->joined.length, &m->result, err);
}

enum status bpe_add_merge_of(struct bpe *b, const struct vocab *v, int32_t left,
                             int32_t right, struct error *err) {
    struct bpe_merge m = {.left = left, .right = right};
    TRY(find_result(b, v, &m, err));
    TRY(grow_merges(b, err));
    b->merges[b->merge_count] = m;
    add_pair(b, b->merge_count++);
    return OK;
}

enum status bpe_add_merge(struct bpe *b, const struct vocab *v, const char *left,
                          size_t left_length, const char *right, size_t right_length,
                          struct error *err) {
    int32_t left_id, right_id;
    TRY(find_token(v, left, left_length, &left_id, err));
    TRY(find_token(v, right, right_length, &right_id, err));
    return bpe_add_merge_of(b, v, left_id, right_id, err);
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

/* A word of up to SHORT_WORD symbols. A symbol that was merged away keeps its place, so
 * that nothing moves. */
struct short_word {
    /* Of the merge with the next symbol: rank << PLACE_BITS | place, so that the least is
     * the next merge, or BPE_NO_RANK; such ones behind the last too. */
    uint32_t queue[SHORT_WORD + LANES];
    uint16_t previous[SHORT_WORD + 1], next[SHORT_WORD];
};

static uint32_t queue_entry(uint32_t rank, size_t at) {
    return rank == BPE_NO_RANK ? BPE_NO_RANK : rank << PLACE_BITS | (uint32_t)at;
}

static void queue_short(const struct bpe *b, struct short_word *w,
                        const struct bpe_scratch *s, size_t at) {
    uint32_t rank = w->next[at] < s->count
                        ? bpe_find_pair(b, s->ids[at], s->ids[w->next[at]])
                        : BPE_NO_RANK;
    w->queue[at] = queue_entry(rank, at);
}

/* The same for every symbol at first, which is a byte and can be looked up directly. */
static void queue_bytes(const struct bpe *b, struct short_word *w,
                        const struct bpe_scratch *s, const unsigned char *word) {
    for (size_t i = 0; i < s->count; i++) {
        w->previous[i] = (uint16_t)(i - 1);
        w->next[i] = (uint16_t)(i + 1);
    }
    if (!b->byte_pairs) {
        for (size_t i = 0; i < s->count; i++)
            queue_short(b, w, s, i);
        return;
    }
    for (size_t i = 0; i + 1 < s->count; i++)
        w->queue[i] = queue_entry(b->byte_pairs[byte_pair(word[i], word[i + 1])], i);
    w->queue[s->count - 1] = BPE_NO_RANK;
}

static uint32_t least(const uint32_t *queue, size_t count) {
    uint32_t lanes[LANES], least_of_all = BPE_NO_RANK;
    memcpy(lanes, queue, sizeof lanes);
    for (size_t i = LANES; i < count; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] = queue[i + lane] < lanes[lane] ? queue[i + lane] : lanes[lane];
    for (int lane = 0; lane < LANES; lane++)
        least_of_all = lanes[lane] < least_of_all ? lanes[lane] : least_of_all;
    return least_of_all;
}

/* Merges the symbol at a place with the one behind it. */
static void merge_short_at(const struct bpe *b, struct short_word *w,
                           struct bpe_scratch *s, size_t at) {
    size_t gone = w->next[at];
    s->ids[at] = b->merges[w->queue[at] >> PLACE_BITS].result;
    s->lengths[at] += s->lengths[gone];
    w->queue[gone] = BPE_NO_RANK;
    w->next[at] = w->next[gone];
    w->previous[w->next[gone]] = (uint16_t)at;
    queue_short(b, w, s, at);
    if (at > 0)
        queue_short(b, w, s, w->previous[at]);
}

/* Merges up to SHORT_WORD symbols by looking for the minimum each time. */
static void merge_short(const struct bpe *b, struct bpe_scratch *s,
                        const unsigned char *word) {
    struct short_word w;
    if (s->count < 2)
        return;
    queue_bytes(b, &w, s, word);
    for (size_t i = 0; i < LANES; i++)
        w.queue[s->count + i] = BPE_NO_RANK;
    for (uint32_t first; (first = least(w.queue, s->count)) != BPE_NO_RANK;)
        merge_short_at(b, &w, s, first & (SHORT_WORD - 1));
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i = w.next[i]) {
        s->ids[kept] = s->ids[i];
        s->lengths[kept++] = s->lengths[i];
    }
    s->count = kept;
}

/* Merges what was spelled of a word. */
static enum status merge(const struct bpe *b, struct bpe_scratch *s,
                         const unsigned char *word, struct error *err) {
    if (s->count > SHORT_WORD)
        return bpe_merge_long(b, s, err);
    merge_short(b, s, word);
    return OK;
}

/* Where the first part of a word ends: between bytes that meet in no result of a merge,
 * which no merge can join, or at the end. */
static size_t part_end(const struct bpe *b, const unsigned char *word, size_t length) {
    for (size_t end = 1; end < length; end++) {
        size_t pair = byte_pair(word[end - 1], word[end]);
        if (!(b->meets[pair / 8] >> pair % 8 & 1))
            return end;
    }
    return length;
}

/* A long word part by part; the ids of each go behind those of the parts before. */
static enum status merge_parts(const struct bpe *b, struct bpe_scratch *s,
                               const unsigned char *word, size_t length,
                               struct error *err) {
    int32_t *ids = s->ids;
    uint32_t *lengths = s->lengths;
    size_t count = 0;
    enum status status = OK;
    for (size_t at = 0, bytes; at < length && status == OK; at += bytes) {
        bytes = part_end(b, word + at, length - at);
        s->ids = ids + count;
        s->lengths = lengths + count;
        spell(b, s, word + at, bytes);
        status = merge(b, s, word + at, err);
        count += s->count;
    }
    s->ids = ids;
    s->lengths = lengths;
    s->count = count;
    return status;
}

enum status bpe_word(const struct bpe *b, struct bpe_scratch *s,
                     const unsigned char *word, size_t length, struct error *err) {
    TRY(reserve(s, length, err));
    if (b->byte_pairs && length > SHORT_WORD)
        return merge_parts(b, s, word, length, err);
    spell(b, s, word, length);
    return merge(b, s, word, err);
}
