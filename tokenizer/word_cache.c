/* word_cache - words already encoded, so that a word seen again costs one cache line. */
#include "tokenizer/word_cache.h"

#include <assert.h>
#include <stdlib.h>

#include "tokenizer/hash.h"

enum {
    CACHE_LINE = 64,
    LONG_WAYS = 4,        /* of 16 bytes: one cache line */
    BUCKETS_PER_LONG = 2, /* buckets of short words for each slot for a long one */
    STORE_PER_BUCKET = 8  /* int32 */
};

/* A long word: in the store, {length, count, ids, text}. */
struct word_long {
    uint64_t hash;
    uint32_t place; /* 0: empty */
    uint32_t unused;
};

static size_t bucket_count(const struct word_cache *c) {
    return (size_t)1 << (64 - c->shift);
}

enum status word_cache_open(struct word_cache *c, unsigned log2_buckets,
                            struct error *err) {
    assert(log2_buckets >= 3 && log2_buckets <= 20);
    *c = (struct word_cache){.shift = 64 - log2_buckets};
    size_t buckets = bucket_count(c);
    c->store_size = buckets * STORE_PER_BUCKET;
    c->buckets = aligned_alloc(CACHE_LINE, buckets * sizeof *c->buckets);
    c->longs = aligned_alloc(CACHE_LINE, buckets / BUCKETS_PER_LONG * sizeof *c->longs);
    c->store = malloc(c->store_size * sizeof *c->store);
    if (!c->buckets || !c->longs || !c->store) {
        word_cache_close(c);
        return error_set(err, ERR_MEMORY, "out of memory for a cache of words");
    }
    memset(c->buckets, 0, buckets * sizeof *c->buckets);
    memset(c->longs, 0, buckets / BUCKETS_PER_LONG * sizeof *c->longs);
    c->store_used = 1; /* place 0 and ids[0] == ~0 mean "none" */
    return OK;
}

void word_cache_close(struct word_cache *c) {
    free(c->buckets);
    free(c->longs);
    free(c->store);
    *c = (struct word_cache){0};
}

void word_cache_reset(struct word_cache *c, const struct word_cache *seed) {
    assert(seed->shift == c->shift && seed->store_used == 1);
    size_t buckets = bucket_count(c);
    memcpy(c->buckets, seed->buckets, buckets * sizeof *c->buckets);
    memset(c->longs, 0, buckets / BUCKETS_PER_LONG * sizeof *c->longs);
    c->store_used = 1;
}

/* The bucket of a long word: LONG_WAYS slots from here. */
static struct word_long *long_bucket(const struct word_cache *c, uint64_t hash) {
    size_t buckets = bucket_count(c) / BUCKETS_PER_LONG / LONG_WAYS;
    return &c->longs[(hash & (buckets - 1)) * LONG_WAYS];
}

static const int32_t *find_long(const struct word_cache *c, const unsigned char *word,
                                size_t length, size_t *count) {
    uint64_t hash = hash_bytes(word, length);
    const struct word_long *bucket = long_bucket(c, hash);
    for (int way = 0; way < LONG_WAYS; way++) {
        if (bucket[way].hash != hash || !bucket[way].place)
            continue;
        const int32_t *entry = c->store + bucket[way].place;
        size_t ids = (size_t)entry[1];
        if ((size_t)entry[0] == length && !memcmp(entry + 2 + ids, word, length))
            return *count = ids, entry + 2;
    }
    return NULL;
}

const int32_t *word_cache_find(const struct word_cache *c, const unsigned char *word,
                               size_t length, size_t *count) {
    if (length > WORD_KEY_BYTES)
        return length <= WORD_LONGEST ? find_long(c, word, length, count) : NULL;
    struct word_key key = word_key_of(word, length);
    const struct word_slot *slot = word_bucket_find(word_cache_bucket(c, key), key);
    if (!slot)
        return NULL;
    if (slot->ids[0] < -1) {
        const int32_t *entry = c->store + ~slot->ids[0];
        return *count = (size_t)entry[0], entry + 1;
    }
    for (*count = 0; *count < WORD_SLOT_IDS && slot->ids[*count] >= 0;)
        ++*count;
    return slot->ids;
}

/* Takes `size` int32 of the store; 0 when it is full. */
static uint32_t take(struct word_cache *c, size_t size) {
    if (size > c->store_size - c->store_used)
        return 0;
    uint32_t place = (uint32_t)c->store_used;
    c->store_used += size;
    return place;
}

static bool add_long(struct word_cache *c, const unsigned char *word, size_t length,
                     const int32_t *ids, size_t count) {
    size_t size = 2 + count + (length + 3) / 4;
    if (size >= c->store_size)
        return true;
    uint32_t place = take(c, size);
    if (!place)
        return false;
    int32_t *entry = c->store + place;
    entry[0] = (int32_t)length;
    entry[1] = (int32_t)count;
    memcpy(entry + 2, ids, count * sizeof *ids);
    memcpy(entry + 2 + count, word, length);
    uint64_t hash = hash_bytes(word, length);
    struct word_long *bucket = long_bucket(c, hash);
    size_t way = 0;
    while (way < LONG_WAYS - 1 && bucket[way].place)
        way++;
    if (bucket[way].place)
        way = place % LONG_WAYS;
    bucket[way] = (struct word_long){.hash = hash, .place = place};
    return true;
}

bool word_cache_add(struct word_cache *c, const unsigned char *word, size_t length,
                    const int32_t *ids, size_t count) {
    if (length > WORD_LONGEST)
        return true;
    if (length > WORD_KEY_BYTES)
        return add_long(c, word, length, ids, count);
    struct word_slot slot = {word_key_of(word, length), {-1, -1, -1, -1}};
    if (count <= WORD_SLOT_IDS) {
        memcpy(slot.ids, ids, count * sizeof *ids);
    } else {
        uint32_t place = take(c, 1 + count);
        if (!place)
            return false;
        c->store[place] = (int32_t)count;
        memcpy(c->store + place + 1, ids, count * sizeof *ids);
        slot.ids[0] = ~(int32_t)place;
    }
    /* The newer word stays in front: it is looked at first and replaced last. */
    struct word_bucket *bucket = word_cache_bucket(c, slot.key);
    if (bucket->ways[0].key.high)
        bucket->ways[1] = bucket->ways[0];
    bucket->ways[0] = slot;
    return true;
}
