/* words - ids of text between added tokens: split, look up, merge what is new. */
#include "tokenizer/words.h"

#include "tokenizer/split.h"

enum { BATCH = 256 }; /* words whose cache lines are fetched while others are split */

enum status words_seed(struct word_cache *seed, const struct bpe *bpe, struct vocab *v,
                       struct error *err) {
    struct bpe_scratch scratch = {0};
    enum status status = OK;
    for (int32_t id = v->size - 1; id >= 0 && status == OK; id--) {
        struct vocab_entry *entry = &v->entries[id];
        if (!entry->present || !entry->mapped)
            continue;
        size_t length;
        const unsigned char *bytes = vocab_bytes(v, id, &length);
        status = bpe_word(bpe, &scratch, bytes, length, err);
        entry->reachable = status == OK && scratch.count == 1 && scratch.ids[0] == id;
        if (entry->reachable && length <= WORD_KEY_BYTES)
            word_cache_add(seed, bytes, length, &id, 1);
    }
    bpe_scratch_free(&scratch);
    return status;
}

enum status words_open(struct words_state *state, const struct word_cache *seed,
                       struct error *err) {
    *state = (struct words_state){0};
    TRY(word_cache_open(&state->cache, 64 - seed->shift, err));
    word_cache_reset(&state->cache, seed);
    return OK;
}

void words_close(struct words_state *state) {
    word_cache_close(&state->cache);
    bpe_scratch_free(&state->scratch);
}

enum status words_encode_one(const struct words *w, struct words_state *state,
                             const unsigned char *word, size_t length,
                             const int32_t **ids, size_t *count, struct error *err) {
    struct word_cache *own = state->cache.buckets ? &state->cache : NULL;
    *ids = word_cache_find(own ? own : w->seed, word, length, count);
    if (*ids)
        return OK;
    struct bpe_scratch *s = &state->scratch;
    TRY(bpe_word(w->bpe, s, word, length, err));
    if (own && !word_cache_add(own, word, length, s->ids, s->count)) {
        word_cache_reset(own, w->seed);
        word_cache_add(own, word, length, s->ids, s->count);
    }
    *ids = s->ids;
    *count = s->count;
    return OK;
}

/* A batch of words: where each ends, and for the short ones what to look for and where.
 */
struct batch {
    size_t start, count;
    size_t ends[BATCH];
    struct word_key keys[BATCH]; /* high 0: a long word */
    const struct word_bucket *buckets[BATCH];
};

/* Splits the next words off and has their cache lines fetched. */
static void gather(struct batch *b, const struct word_cache *cache,
                   const unsigned char *text, size_t length) {
    b->count = split_spans(text, b->start, length, b->ends, BATCH);
    size_t at = b->start;
    for (size_t i = 0; i < b->count; at = b->ends[i++]) {
        size_t bytes = b->ends[i] - at;
        struct word_key key = {0, 0};
        if (bytes <= WORD_KEY_BYTES) {
            key = length - at >= sizeof key ? word_key_of_16(text + at, bytes)
                                            : word_key_of(text + at, bytes);
            b->buckets[i] = word_cache_bucket(cache, key);
            __builtin_prefetch(b->buckets[i]);
        }
        b->keys[i] = key;
    }
}

/* Appends the ids of a word that is in its slot with its ids beside it; false when it is
 * not. Writes WORD_SLOT_IDS items whatever their number. */
static inline bool emit(const struct batch *b, size_t i, int32_t **out) {
    if (!b->keys[i].high)
        return false;
    const struct word_slot *slot = word_bucket_find(b->buckets[i], b->keys[i]);
    if (!slot || slot->ids[0] < 0)
        return false;
    memcpy(*out, slot->ids, sizeof slot->ids);
    *out += 1 + (slot->ids[1] >= 0) + (slot->ids[2] >= 0) + (slot->ids[3] >= 0);
    return true;
}

static enum status emit_batch(const struct words *w, struct words_state *state,
                              const struct batch *b, const unsigned char *text,
                              struct ids *out, struct error *err) {
    size_t at = b->start;
    TRY(ids_reserve(out, BATCH * WORD_SLOT_IDS, err));
    int32_t *next = out->items + out->count;
    for (size_t i = 0; i < b->count; at = b->ends[i++]) {
        if (emit(b, i, &next))
            continue;
        const int32_t *ids;
        size_t count;
        TRY(words_encode_one(w, state, text + at, b->ends[i] - at, &ids, &count, err));
        out->count = (size_t)(next - out->items);
        TRY(ids_add(out, ids, count, err));
        TRY(ids_reserve(out, BATCH * WORD_SLOT_IDS, err));
        next = out->items + out->count;
    }
    out->count = (size_t)(next - out->items);
    return OK;
}

enum status words_encode(const struct words *w, struct words_state *state,
                         const unsigned char *text, size_t length, struct ids *out,
                         struct error *err) {
    const struct word_cache *cache = state->cache.buckets ? &state->cache : w->seed;
    struct batch b;
    for (b.start = 0; b.start < length; b.start = b.ends[b.count - 1]) {
        gather(&b, cache, text, length);
        TRY(emit_batch(w, state, &b, text, out, err));
    }
    return OK;
}
