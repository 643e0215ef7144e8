/* bpe_train - learns a byte-level BPE vocabulary from counted words.
 *
 * The method is that of Sennrich, Haddow and Birch, "Neural Machine Translation of Rare
 * Words with Subword Units" (2016), with the ties and limits of Hugging Face tokenizers.
 *
 * All words of two bytes or more lie end to end in `slots`, one a byte, an EDGE between
 * them. A token of n bytes at slot p is written at p and at p + n - 1, so both neighbours
 * are found without links:
 *
 *   slot    0     1    2    3    4    5     6    7    8
 *   byte          t    h    e    r    e          i    t
 *   token  EDGE  the  ...  the  re   re   EDGE   it   it  ...    (after four merges)
 *
 * A pair keeps the list of its places from birth, in rising order. A place is never added
 * later: a new pair holds the token just made, so all its places are made with it. A
 * place that another merge took shows it by its tokens. So nothing is updated when a
 * pair loses occurrences: its count is an upper bound until it reaches the head of the
 * queue, where it is counted again, and merged only if it kept its place. No table of
 * pairs is needed either: the pairs that a merge makes are collected in two arrays by the
 * id of the token before and after the new one.
 *
 * Each merge visits the places of its pair twice and their neighbours; a merged place is
 * gone for good, so all merges together touch each slot a few times.
 *
 * No two merges make the same string, so a pair has one list of places and is queued once
 * at a time. For: as long as no merge crosses the ends of an occurrence of a string, its
 * inside is merged as if it stood alone, so at any moment all such occurrences are cut
 * alike; the merge that completes one completes all. Only a special token may have the
 * string already, which is why join() asks for those.
 *
 * Why not the usual way, a table of all pairs that every merge updates (Hugging Face's
 * trainer, which also keeps a set of words for each pair)? Most updates concern pairs
 * that are never merged. Here they cost nothing: a pair's list says what is left of it
 * when, and only if, its turn comes. */
#include "tokenizer/bpe_train.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/bytes.h"
#include "tokenizer/pair_queue.h"

#define EDGE UINT32_MAX /* between words */
#define COVERED                                                            \
    (UINT32_MAX - 1u) /* the start of a token that was merged into another \
                       */
#define NO_PLACE UINT64_MAX
enum { BYTES = 256, PREFETCH_AHEAD = 12 };

struct slot {
    uint32_t token, word;
};

/* Occurrences, during one merge, of a token before (or after) the new one. */
struct neighbour {
    uint64_t count, first; /* first: where the next place goes; NO_PLACE: not kept */
    uint32_t places;
};

struct trainer {
    const struct bpe_train_options *options;
    struct bpe_trained *out;
    size_t token_capacity, merge_capacity;
    uint32_t byte_token[BYTES];
    uint32_t *lengths; /* owned; bytes of each token */
    struct slot *slots;
    size_t slot_count;
    uint64_t *counts; /* owned; of the words in `slots` */
    uint32_t *places; /* owned; of all pairs ever queued */
    size_t places_used, places_capacity;
    struct pair_queue queue;
    struct neighbour *before, *after; /* owned; by token id */
    uint32_t *seen_before, *seen_after;
    size_t before_count, after_count;
};

/* Room for `more` items after `count` in an array that grows by half. `array` is the
 * address of the pointer, copied bytewise: it has another type at every call. */
static enum status grow(void *array, size_t count, size_t more, size_t *capacity,
                        size_t item_bytes, struct error *err) {
    if (more <= *capacity - count)
        return OK;
    size_t wanted = *capacity + *capacity / 2 + more;
    void *old, *moved = NULL;
    memcpy(&old, array, sizeof old);
    if (wanted <= SIZE_MAX / 2 / item_bytes)
        moved = realloc(old, wanted * item_bytes);
    if (!moved)
        return error_set(err, ERR_MEMORY, "out of memory for %zu entries of BPE training",
                         wanted);
    memcpy(array, &moved, sizeof moved);
    *capacity = wanted;
    return OK;
}

/* An array of `count` items for good; one more, so that none is no special case. */
static enum status take(void *array, size_t count, size_t item_bytes, struct error *err) {
    size_t capacity = 0;
    return grow(array, 0, count + 1, &capacity, item_bytes, err);
}

const char *bpe_trained_token(const struct bpe_trained *trained, int32_t id,
                              size_t *length) {
    size_t start = id > 0 ? trained->ends[id - 1] : 0;
    *length = trained->ends[id] - start;
    return trained->text.data + start;
}

/* The id of a special token with this string, else -1. */
static int32_t find_special(const struct bpe_trained *out, const char *text,
                            size_t length) {
    for (int32_t id = 0; id < out->special_count; id++) {
        size_t n;
        const char *other = bpe_trained_token(out, id, &n);
        if (n == length && memcmp(other, text, n) == 0)
            return id;
    }
    return -1;
}

/* Ends the token whose string was just appended to the text. */
static enum status end_token(struct trainer *t, uint32_t bytes, struct error *err) {
    struct bpe_trained *out = t->out;
    size_t capacity = t->token_capacity, count = (size_t)out->size;
    if (out->size == INT32_MAX)
        return error_set(err, ERR_FAILED, "more than %d tokens", INT32_MAX);
    TRY(grow(&out->ends, count, 1, &capacity, sizeof out->ends[0], err));
    TRY(grow(&t->lengths, count, 1, &t->token_capacity, sizeof t->lengths[0], err));
    out->ends[count] = out->text.length;
    t->lengths[count] = bytes;
    out->size++;
    return OK;
}

static enum status add_specials(struct trainer *t, struct error *err) {
    struct bpe_trained *out = t->out;
    for (int i = 0; i < t->options->special_count; i++) {
        const char *text = t->options->specials[i];
        size_t length = strlen(text);
        if (find_special(out, text, length) >= 0)
            continue;
        TRY(buffer_add(&out->text, text, length, err));
        TRY(end_token(t, 0, err));
        out->special_count = out->size;
    }
    return OK;
}

/* Single bytes in the order of their characters; one whose character is a special token
 * shares its id. */
static enum status add_bytes(struct trainer *t, const bool occurs[BYTES],
                             struct error *err) {
    for (int rank = 0; rank < BYTES; rank++) {
        unsigned char byte = bytes_in_order(rank);
        if (!t->options->all_bytes && !occurs[byte])
            continue;
        char text[2];
        size_t length = bytes_to_text(text, &byte, 1);
        int32_t id = find_special(t->out, text, length);
        t->byte_token[byte] = id >= 0 ? (uint32_t)id : (uint32_t)t->out->size;
        if (id >= 0) {
            t->lengths[id] = 1;
            continue;
        }
        TRY(buffer_add(&t->out->text, text, length, err));
        TRY(end_token(t, 1, err));
    }
    return OK;
}

static enum status start_vocabulary(struct trainer *t, const struct counted_word *words,
                                    size_t word_count, struct error *err) {
    bool occurs[BYTES] = {false};
    for (size_t i = 0; i < word_count; i++)
        for (size_t j = 0; j < words[i].length; j++)
            occurs[words[i].bytes[j]] = true;
    TRY(add_specials(t, err));
    return add_bytes(t, occurs, err);
}

/* Sizes of what lies in `slots`. */
static enum status measure(struct trainer *t, const struct counted_word *words,
                           size_t word_count, size_t *kept, struct error *err) {
    t->slot_count = 1;
    *kept = 0;
    for (size_t i = 0; i < word_count; i++)
        if (words[i].length > 1) {
            if (words[i].length >= COVERED - t->slot_count)
                return error_set(err, ERR_FAILED,
                                 "the distinct words hold more than 4 GiB");
            t->slot_count += words[i].length + 1;
            ++*kept;
        }
    return OK;
}

/* Fills `slots` with bytes: first_pairs() makes them tokens. */
static enum status lay_out(struct trainer *t, const struct counted_word *words,
                           size_t word_count, struct error *err) {
    size_t kept;
    TRY(measure(t, words, word_count, &kept, err));
    TRY(take(&t->slots, t->slot_count, sizeof t->slots[0], err));
    TRY(take(&t->counts, kept, sizeof t->counts[0], err));
    struct slot *to = t->slots;
    *to++ = (struct slot){.token = EDGE};
    uint32_t word = 0;
    for (size_t i = 0; i < word_count; i++) {
        if (words[i].length < 2)
            continue;
        for (size_t j = 0; j < words[i].length; j++)
            *to++ = (struct slot){words[i].bytes[j], word};
        *to++ = (struct slot){.token = EDGE};
        t->counts[word++] = words[i].count;
    }
    return OK;
}

static uint64_t least_count(const struct trainer *t) {
    return t->options->min_frequency > 1 ? t->options->min_frequency : 1;
}

/* Queues what was counted often enough and reserves its places. */
static enum status queue_pair(struct trainer *t, struct neighbour *n, uint32_t left,
                              uint32_t right, struct error *err) {
    n->first = NO_PLACE;
    if (n->count < least_count(t))
        return OK;
    TRY(grow(&t->places, t->places_used, n->places, &t->places_capacity,
             sizeof t->places[0], err));
    n->first = t->places_used;
    t->places_used += n->places;
    struct pair pair = {n->count, n->first, n->places, left, right, 0};
    return pair_queue_push(&t->queue, pair, err);
}

/* Pairs of bytes; cells[left][right]. */
static void count_bytes(const struct trainer *t, struct neighbour (*cells)[BYTES]) {
    for (size_t p = 0; p + 1 < t->slot_count; p++) {
        uint32_t left = t->slots[p].token, right = t->slots[p + 1].token;
        if (left == EDGE || right == EDGE)
            continue;
        cells[left][right].count += t->counts[t->slots[p].word];
        cells[left][right].places++;
    }
}

/* Notes the places of the pairs of bytes and turns the bytes into tokens. */
static void place_bytes(struct trainer *t, struct neighbour (*cells)[BYTES]) {
    for (size_t p = 0; p + 1 < t->slot_count; p++) {
        uint32_t left = t->slots[p].token, right = t->slots[p + 1].token;
        if (left == EDGE)
            continue;
        t->slots[p].token = t->byte_token[left];
        if (right != EDGE && cells[left][right].first != NO_PLACE)
            t->places[cells[left][right].first++] = (uint32_t)p;
    }
}

static enum status first_pairs(struct trainer *t, struct error *err) {
    struct neighbour(*cells)[BYTES] = calloc(BYTES, sizeof cells[0]);
    if (!cells)
        return error_set(err, ERR_MEMORY, "out of memory for the pairs of bytes");
    count_bytes(t, cells);
    enum status status = OK;
    for (int left = 0; left < BYTES; left++)
        for (int right = 0; right < BYTES && status == OK; right++)
            status = queue_pair(t, &cells[left][right], t->byte_token[left],
                                t->byte_token[right], err);
    if (status == OK)
        place_bytes(t, cells);
    free(cells);
    return status;
}

/* Drops the places that other merges took; sets the true count. */
static void recount(struct trainer *t, struct pair *pair) {
    uint32_t *places = t->places + pair->first, kept = 0;
    size_t step = t->lengths[pair->left];
    pair->count = 0;
    for (uint32_t i = 0; i < pair->places; i++) {
        if (i + PREFETCH_AHEAD < pair->places)
            __builtin_prefetch(&t->slots[places[i + PREFETCH_AHEAD]]);
        const struct slot *at = &t->slots[places[i]];
        if (at->token != pair->left || at[step].token != pair->right)
            continue;
        pair->count += t->counts[at->word];
        places[kept++] = places[i];
    }
    pair->places = kept;
}

/* Writes the new token at all places of the pair, leftmost first, and keeps the places
 * where it stands now ("aaa" has two places of (a, a) and gets one token). */
static void replace(struct trainer *t, struct pair *pair, uint32_t token) {
    uint32_t *places = t->places + pair->first, kept = 0;
    size_t left = t->lengths[pair->left], both = left + t->lengths[pair->right];
    for (uint32_t i = 0; i < pair->places; i++) {
        struct slot *at = &t->slots[places[i]];
        if (at->token != pair->left || at[left].token != pair->right)
            continue;
        at[left].token = COVERED;
        at[0].token = at[both - 1].token = token;
        places[kept++] = places[i];
    }
    pair->places = kept;
}

/* Counts one occurrence beside the new token; `seen` lists what has a count, so that the
 * cells can be cleared without walking over the whole vocabulary. */
static void note(struct neighbour *all, uint32_t *seen, size_t *seen_count,
                 uint32_t token, uint64_t count) {
    struct neighbour *n = &all[token];
    if (n->places == 0)
        seen[(*seen_count)++] = token;
    n->count += count;
    n->places++;
}

/* What stands beside the new token. (token, token) is noted at its left half only. */
static void collect(struct trainer *t, const struct pair *pair, uint32_t token) {
    size_t length = t->lengths[token];
    t->before_count = t->after_count = 0;
    for (uint32_t i = 0; i < pair->places; i++) {
        const struct slot *at = &t->slots[t->places[pair->first + i]];
        uint64_t count = t->counts[at->word];
        uint32_t before = at[-1].token, after = at[length].token;
        if (before != EDGE)
            note(t->before, t->seen_before, &t->before_count, before, count);
        if (after != EDGE && after != token)
            note(t->after, t->seen_after, &t->after_count, after, count);
    }
}

/* Asked only of pairs with a merged token: two bytes may always join. */
static bool is_allowed(const struct trainer *t, uint32_t a, uint32_t b) {
    uint64_t most = t->options->max_token_length;
    return most == 0 || t->lengths[a] + t->lengths[b] < most;
}

static enum status queue_collected(struct trainer *t, uint32_t token, struct error *err) {
    for (size_t i = 0; i < t->before_count; i++) {
        uint32_t other = t->seen_before[i];
        if (!is_allowed(t, other, token))
            t->before[other].count = 0;
        TRY(queue_pair(t, &t->before[other], other, token, err));
    }
    for (size_t i = 0; i < t->after_count; i++) {
        uint32_t other = t->seen_after[i];
        if (!is_allowed(t, token, other))
            t->after[other].count = 0;
        TRY(queue_pair(t, &t->after[other], token, other, err));
    }
    return OK;
}

/* The second pass of collect(): now that each pair has its stretch of the list, writes
 * the places, which rise because those of the merged pair do. */
static void place_collected(struct trainer *t, const struct pair *pair, uint32_t token) {
    size_t length = t->lengths[token];
    for (uint32_t i = 0; i < pair->places; i++) {
        uint32_t place = t->places[pair->first + i];
        uint32_t before = t->slots[place - 1].token;
        uint32_t after = t->slots[place + length].token;
        if (before != EDGE && t->before[before].first != NO_PLACE)
            t->places[t->before[before].first++] = place - (uint32_t)t->lengths[before];
        if (after != EDGE && after != token && t->after[after].first != NO_PLACE)
            t->places[t->after[after].first++] = place;
    }
}

static void forget_collected(struct trainer *t) {
    for (size_t i = 0; i < t->before_count; i++)
        t->before[t->seen_before[i]] = (struct neighbour){0};
    for (size_t i = 0; i < t->after_count; i++)
        t->after[t->seen_after[i]] = (struct neighbour){0};
}

/* The id of left + right: a special token's where the strings are equal, else a new
 * one. */
static enum status join(struct trainer *t, const struct pair *pair, uint32_t *token,
                        struct error *err) {
    struct bpe_trained *out = t->out;
    size_t start = out->text.length;
    uint32_t bytes = t->lengths[pair->left] + t->lengths[pair->right];
    const uint32_t halves[2] = {pair->left, pair->right};
    for (int i = 0; i < 2; i++) {
        size_t length;
        TRY(buffer_reserve(&out->text, 2 * (size_t)t->lengths[halves[i]], err));
        const char *text = bpe_trained_token(out, (int32_t)halves[i], &length);
        TRY(buffer_add(&out->text, text, length, err));
    }
    int32_t id = find_special(out, out->text.data + start, out->text.length - start);
    if (id < 0) {
        *token = (uint32_t)out->size;
        return end_token(t, bytes, err);
    }
    out->text.length = start;
    t->lengths[id] = bytes;
    *token = (uint32_t)id;
    return OK;
}

/* One merge: name the token, write it everywhere, queue the pairs it made. */
static enum status merge(struct trainer *t, struct pair *pair, struct error *err) {
    struct bpe_trained *out = t->out;
    uint32_t token;
    TRY(join(t, pair, &token, err));
    TRY(grow(&out->merges, (size_t)out->merge_count, 1, &t->merge_capacity,
             sizeof out->merges[0], err));
    out->merges[out->merge_count++] =
        (struct trained_merge){(int32_t)pair->left, (int32_t)pair->right};
    replace(t, pair, token);
    collect(t, pair, token);
    enum status status = queue_collected(t, token, err);
    if (status == OK)
        place_collected(t, pair, token);
    forget_collected(t);
    return status;
}

/* The head of the queue is the best pair only if its count is still true: a smaller one
 * goes back into the queue at its right place, where ties are decided anew. */
static enum status merge_all(struct trainer *t, struct error *err) {
    while (t->out->size < t->options->vocab_size) {
        struct pair pair;
        bool found;
        TRY(pair_queue_pop(&t->queue, &pair, &found, err));
        if (!found)
            return OK;
        uint64_t expected = pair.count;
        recount(t, &pair);
        if (pair.count == expected)
            TRY(merge(t, &pair, err));
        else if (pair.count >= least_count(t))
            TRY(pair_queue_push(&t->queue, pair, err));
        if (t->out->merge_count % 256 == 0)
            progress_update(t->options->progress, (uint64_t)t->out->merge_count, NULL);
    }
    return OK;
}

/* Every id there can be has its cell: the start and one a slot, or what was asked. */
static enum status take_neighbours(struct trainer *t, struct error *err) {
    size_t most = (size_t)t->out->size + t->slot_count;
    if (most > (size_t)t->options->vocab_size)
        most = (size_t)t->options->vocab_size;
    t->before = calloc(most, sizeof t->before[0]);
    t->after = calloc(most, sizeof t->after[0]);
    if (!t->before || !t->after)
        return error_set(err, ERR_MEMORY, "out of memory for %zu tokens", most);
    TRY(take(&t->seen_before, most, sizeof t->seen_before[0], err));
    return take(&t->seen_after, most, sizeof t->seen_after[0], err);
}

static enum status train(struct trainer *t, const struct counted_word *words,
                         size_t word_count, struct error *err) {
    TRY(start_vocabulary(t, words, word_count, err));
    if (t->out->size >= t->options->vocab_size)
        return OK;
    TRY(lay_out(t, words, word_count, err));
    TRY(pair_queue_open(&t->queue, err));
    TRY(take_neighbours(t, err));
    TRY(first_pairs(t, err));
    return merge_all(t, err);
}

enum status bpe_train(struct bpe_trained *out, const struct counted_word *words,
                      size_t word_count, const struct bpe_train_options *options,
                      struct error *err) {
    *out = (struct bpe_trained){0};
    struct trainer t = {.options = options, .out = out};
    enum status status = train(&t, words, word_count, err);
    free(t.lengths);
    free(t.slots);
    free(t.counts);
    free(t.places);
    free(t.before);
    free(t.after);
    free(t.seen_before);
    free(t.seen_after);
    pair_queue_close(&t.queue);
    if (status != OK)
        bpe_trained_free(out);
    return status;
}

void bpe_trained_free(struct bpe_trained *trained) {
    buffer_free(&trained->text);
    free(trained->ends);
    free(trained->merges);
    *trained = (struct bpe_trained){0};
}
