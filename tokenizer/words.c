/* words - ids of text between added tokens: split, look up, merge what is new.
 *
 * English text is mostly words seen before, so the speed of encoding is that of
 * splitting, hashing and one look-up a word. Three things keep the processor from
 * waiting:
 *
 *   split     split_spans cuts a batch of words off, 64 bytes at a time
 *   gather    makes the key of each and has its bucket's cache line fetched
 *   emit      by then the line is there: four ids are copied, all or fewer count
 *
 * A batch of 192 words is long enough to hide a fetch from memory and short enough to
 * stay in the first cache (6 KiB). What a bucket does not hold goes through find (the
 * table of long words) and at last through merge (bpe.c), the only step that depends on
 * the merges; its answer is remembered.
 *
 * Visiting and encoding share all of that. They differ in where ids go: encoding writes
 * straight to its result, a visitor is told the bounds of each word too. */
#include "tokenizer/words.h"

enum { BATCH = 192 }; /* words whose cache lines are fetched while others are split */

/* The tokens that encode to themselves. Frequent ones have small ids and come last, to
 * the front of their buckets. */
static void fill(struct word_cache *cache, const struct vocab *v) {
    word_cache_clear(cache);
    for (int32_t id = v->size - 1; id >= 0; id--) {
        size_t length = v->pieces[id].length;
        if (v->entries[id].reachable && length <= WORD_KEY_BYTES)
            word_cache_add(cache,
                           (const unsigned char *)v->bytes.data + v->pieces[id].bytes,
                           length, &id, 1);
    }
}

enum status words_open(struct words_state *state, const struct words *w,
                       unsigned log2_buckets, struct error *err) {
    *state = (struct words_state){.path = split_best_path()};
    TRY(word_cache_open(&state->cache, log2_buckets, err));
    fill(&state->cache, w->vocab);
    return OK;
}

void words_close(struct words_state *state) {
    word_cache_close(&state->cache);
    bpe_scratch_free(&state->scratch);
}

static bool remember(struct words_state *state, struct word_key key,
                     const unsigned char *word, size_t length) {
    const struct bpe_scratch *s = &state->scratch;
    return key.high ? word_cache_add_key(&state->cache, key, s->ids, s->count)
                    : word_cache_add(&state->cache, word, length, s->ids, s->count);
}

/* Merges a word that is not in the cache, and puts it there. */
static enum status merge(const struct words *w, struct words_state *state,
                         struct word_key key, const unsigned char *word, size_t length,
                         struct error *err) {
    TRY(bpe_word(w->bpe, &state->scratch, word, length, err));
    if (state->cache.buckets && !remember(state, key, word, length)) {
        fill(&state->cache, w->vocab);
        remember(state, key, word, length);
    }
    return OK;
}

/* A batch of words: where each ends, what to look for and where. */
struct batch {
    size_t start, count;
    size_t ends[BATCH];
    struct word_key keys[BATCH]; /* of a long word its hash, and 0 in high */
    const void *buckets[BATCH];
};

/* Splits the next words off and has their cache lines fetched. */
static void gather(struct batch *b, const struct words_state *state,
                   const unsigned char *text, size_t length) {
    const struct word_cache copy = state->cache; /* that no store can change */
    const struct word_cache *cache = &copy;
    b->count = split_spans_by(state->path, false, text, b->start, length, b->ends, BATCH);
    size_t at = b->start;
    for (size_t i = 0; i < b->count; at = b->ends[i++]) {
        size_t bytes = b->ends[i] - at;
        struct word_key *key = &b->keys[i];
        if (bytes > WORD_KEY_BYTES) {
            *key = (struct word_key){word_long_hash(text + at, bytes), 0};
            b->buckets[i] = word_long_bucket(cache, key->low);
        } else {
            if (length - at >= sizeof *key)
                word_key_write_16(key, text + at, bytes);
            else
                *key = word_key_of(text + at, bytes);
            b->buckets[i] = word_cache_bucket(cache, *key);
        }
        __builtin_prefetch(b->buckets[i]);
    }
}

/* The ids of a word that lie beside its key; NULL when they do not. */
static inline const int32_t *hit(const struct batch *b, size_t i) {
    if (!b->keys[i].high)
        return NULL;
    const int32_t *ids = word_bucket_find(b->buckets[i], &b->keys[i]);
    return ids && ids[0] >= 0 ? ids : NULL;
}

/* Writes them: WORD_SLOT_IDS items whatever their number. */
static inline int32_t *emit_slot(const int32_t *ids, int32_t *out) {
    memcpy(out, ids, WORD_SLOT_IDS * sizeof *ids);
    return out + word_slot_count(ids);
}

/* The ids of a word that is in the cache but not beside its key. A short one that had to
 * leave its bucket comes back one time in four: the frequent ones do, and those that take
 * turns in a bucket do not drive each other out every time. Which ids come out does not
 * depend on it, only where they are looked for next time. */
static bool find(struct words_state *state, const struct batch *b, size_t i,
                 const unsigned char *word, size_t length, int32_t *ids, size_t *count) {
    struct word_cache *cache = &state->cache;
    if (length > WORD_LONGEST)
        return false;
    if (!b->keys[i].high)
        return word_long_find(cache, b->keys[i].low, word, length, ids, count);
    const int32_t *slot = word_bucket_find(b->buckets[i], &b->keys[i]);
    if (slot)
        return word_slot_read(cache, slot, ids, count), true;
    if (!word_bucket_is_full(b->buckets[i]) ||
        !word_long_find(cache, word_long_hash(word, length), word, length, ids, count))
        return false;
    bool is_its_turn = b->ends[i] % 4 == 0; /* as good as random */
    if (is_its_turn && *count <= WORD_SLOT_IDS)
        word_cache_add(cache, word, length, ids, *count);
    return true;
}

/* The ids of any word of a batch; valid until the next call. */
static enum status look_up(const struct words *w, struct words_state *state,
                           const struct batch *b, size_t i, const unsigned char *word,
                           size_t length, const int32_t **ids, size_t *count,
                           struct error *err) {
    *ids = hit(b, i);
    if (*ids)
        return *count = word_slot_count(*ids), OK;
    *ids = state->found;
    if (find(state, b, i, word, length, state->found, count))
        return OK;
    TRY(merge(w, state, b->keys[i], word, length, err));
    *ids = state->scratch.ids;
    *count = state->scratch.count;
    return OK;
}

/* Writes the ids of any word. */
static enum status emit(const struct words *w, struct words_state *state,
                        const struct batch *b, size_t i, const unsigned char *word,
                        size_t length, int32_t **out, struct error *err) {
    size_t count;
    if (!find(state, b, i, word, length, *out, &count)) {
        TRY(merge(w, state, b->keys[i], word, length, err));
        count = state->scratch.count;
        for (size_t k = 0; k < count; k += WORD_SLOT_IDS) /* both have room behind */
            memcpy(*out + k, state->scratch.ids + k, WORD_SLOT_IDS * sizeof **out);
    }
    *out += count;
    return OK;
}

static enum status emit_batch(const struct words *w, struct words_state *state,
                              const struct batch *b, const unsigned char *text,
                              struct ids *out, struct error *err) {
    size_t at = b->start;
    /* No word has more ids than bytes. */
    TRY(ids_reserve(out, b->ends[b->count - 1] - b->start + WORD_SLOT_IDS, err));
    int32_t *next = out->items + out->count;
    for (size_t i = 0; i < b->count; at = b->ends[i++]) {
        const int32_t *slot = hit(b, i);
        if (slot)
            next = emit_slot(slot, next);
        else
            TRY(emit(w, state, b, i, text + at, b->ends[i] - at, &next, err));
    }
    out->count = (size_t)(next - out->items);
    return OK;
}

static enum status visit_uncached(const struct words *w, struct words_state *state,
                                  const unsigned char *text, size_t length,
                                  struct words_visitor visitor, struct error *err) {
    for (size_t at = 0, end; at < length; at = end) {
        end = split_next(text, at, length);
        TRY(merge(w, state, (struct word_key){0, 0}, text + at, end - at, err));
        TRY(visitor.visit(visitor.self, at, end, state->scratch.ids, state->scratch.count,
                          err));
    }
    return OK;
}

enum status words_visit(const struct words *w, struct words_state *state,
                        const unsigned char *text, size_t length,
                        struct words_visitor visitor, struct error *err) {
    if (!state->cache.buckets)
        return visit_uncached(w, state, text, length, visitor, err);
    struct batch b;
    for (b.start = 0; b.start < length; b.start = b.ends[b.count - 1]) {
        gather(&b, state, text, length);
        size_t at = b.start;
        for (size_t i = 0; i < b.count; at = b.ends[i++]) {
            const int32_t *ids;
            size_t count;
            TRY(look_up(w, state, &b, i, text + at, b.ends[i] - at, &ids, &count, err));
            TRY(visitor.visit(visitor.self, at, b.ends[i], ids, count, err));
        }
    }
    return OK;
}

/* A visitor that collects ids. */
static enum status collect(void *self, size_t start, size_t end, const int32_t *ids,
                           size_t count, struct error *err) {
    (void)start;
    (void)end;
    return ids_add(self, ids, count, err);
}

enum status words_encode(const struct words *w, struct words_state *state,
                         const unsigned char *text, size_t length, struct ids *out,
                         struct error *err) {
    if (!state->cache.buckets)
        return visit_uncached(w, state, text, length,
                              (struct words_visitor){collect, out}, err);
    struct batch b;
    for (b.start = 0; b.start < length; b.start = b.ends[b.count - 1]) {
        gather(&b, state, text, length);
        TRY(emit_batch(w, state, &b, text, out, err));
    }
    return OK;
}
