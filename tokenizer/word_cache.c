/* word_cache - words already encoded, so that a word seen again costs one cache line.
 *
 * Where a word is looked for, and what that costs:
 *
 *   1  its bucket        64 bytes, one line: two keys of 16 bytes, four ids beside each
 *   2  table of longs    64 bytes, one line: eight (hash tag, place) pairs
 *   3  the store         the entry: lengths, ids in three bytes each, the text
 *
 * Words of up to 15 bytes with up to four ids, nearly all, end at 1; words of 16 bytes
 * and more begin at 2. A bucket takes the newest word first and pushes its last out to 2
 * (spill), where it costs three lines instead of a new merge. The tables never grow: 2^16
 * buckets are 9 MiB a thread, small enough for the third cache. When the store is full
 * everything is cleared and the vocabulary put in again (words.c), which is simpler than
 * removing single words and rare.
 *
 * Nothing here decides an id, so all of this can be changed without a golden test
 * noticing anything but time. */
#include "tokenizer/word_cache.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "tokenizer/hash.h"

enum {
    CACHE_LINE = 64,
    LONGS_PER_BUCKET = 2,
    STORE_PER_BUCKET = 64, /* bytes */
    ID_BYTES = 3
};

static size_t bucket_count(const struct word_cache *c) {
    return c->mask / sizeof *c->buckets + 1;
}

/* Looking up jumps all over the table: huge pages, asked for before the first touch, save
 * most of the address translation. */
static void *take_table(size_t bytes) {
    enum { HUGE_PAGE = 1 << 21 };
    size_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : CACHE_LINE;
    void *table = aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
    if (table && bytes >= HUGE_PAGE)
        memory_use_huge_pages(table, bytes);
    return table;
}

enum status word_cache_open(struct word_cache *c, unsigned log2_buckets,
                            struct error *err) {
    assert(log2_buckets >= 3 && log2_buckets <= 20);
    size_t most = ((size_t)1 << log2_buckets) - 1;
    *c = (struct word_cache){.mask = most * sizeof *c->buckets};
    size_t buckets = bucket_count(c);
    c->store_size = buckets * STORE_PER_BUCKET;
    c->buckets = take_table(buckets * sizeof *c->buckets);
    c->longs = take_table(buckets * LONGS_PER_BUCKET * sizeof *c->longs);
    c->store = take_table(c->store_size + 1);
    if (!c->buckets || !c->longs || !c->store) {
        word_cache_close(c);
        return error_set(err, ERR_MEMORY, "out of memory for a cache of words");
    }
    word_cache_clear(c);
    return OK;
}

void word_cache_close(struct word_cache *c) {
    free(c->buckets);
    free(c->longs);
    free(c->store);
    *c = (struct word_cache){0};
}

void word_cache_clear(struct word_cache *c) {
    memset(c->buckets, 0, bucket_count(c) * sizeof *c->buckets);
    memset(c->longs, 0, bucket_count(c) * LONGS_PER_BUCKET * sizeof *c->longs);
    c->store_used = 1; /* place 0 and ids[0] == ~0 mean "none" */
}

/* As word_key_hash; the product spreads 32 bits over what chooses the bucket (low) and
 * what tells words apart in it (high). */
uint64_t word_long_hash(const unsigned char *word, size_t length) {
#ifdef __SSE4_2__
    uint64_t hash = length, eight = 0;
    for (; length > 8; word += 8, length -= 8) {
        memcpy(&eight, word, 8);
        hash = _mm_crc32_u64(hash, eight);
    }
    eight = 0;
    memcpy(&eight, word, length);
    hash = _mm_crc32_u64(hash, eight) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
#else
    return hash_bytes(word, length);
#endif
}

const struct word_long *word_long_bucket(const struct word_cache *c, uint64_t hash) {
    size_t buckets = bucket_count(c) * LONGS_PER_BUCKET / WORD_LONG_WAYS;
    return &c->longs[(hash & (buckets - 1)) * WORD_LONG_WAYS];
}

/* The ids of the entry at `place`; its text, when it has one, follows them. */
static void read_entry(const struct word_cache *c, uint32_t place, int32_t *ids,
                       size_t *count) {
    uint16_t head[2];
    const unsigned char *at = c->store + place;
    memcpy(head, at, sizeof head);
    at += sizeof head;
    for (size_t i = 0; i < head[1]; i++, at += ID_BYTES) {
        uint32_t four;
        memcpy(&four, at, sizeof four); /* the store has a byte to spare */
        ids[i] = (int32_t)(four & 0xFFFFFF);
    }
    *count = head[1];
}

bool word_long_find(const struct word_cache *c, uint64_t hash, const unsigned char *word,
                    size_t length, int32_t *ids, size_t *count) {
    const struct word_long *bucket = word_long_bucket(c, hash);
    for (int way = 0; way < WORD_LONG_WAYS; way++) {
        uint16_t head[2];
        if (bucket[way].tag != hash >> 32 || !bucket[way].place)
            continue;
        memcpy(head, c->store + bucket[way].place, sizeof head);
        const unsigned char *text =
            c->store + bucket[way].place + sizeof head + ID_BYTES * head[1];
        if (head[0] == length && !memcmp(text, word, length))
            return read_entry(c, bucket[way].place, ids, count), true;
    }
    return false;
}

void word_slot_read(const struct word_cache *c, const int32_t slot[WORD_SLOT_IDS],
                    int32_t *ids, size_t *count) {
    if (slot[0] < -1) {
        read_entry(c, (uint32_t)~slot[0], ids, count);
        return;
    }
    *count = word_slot_count(slot);
    memcpy(ids, slot, *count * sizeof *ids);
}

bool word_cache_find(const struct word_cache *c, const unsigned char *word, size_t length,
                     int32_t *ids, size_t *count) {
    if (length > WORD_LONGEST)
        return false;
    if (length <= WORD_KEY_BYTES) {
        struct word_key key = word_key_of(word, length);
        const int32_t *slot = word_bucket_find(word_cache_bucket(c, key), &key);
        if (slot)
            return word_slot_read(c, slot, ids, count), true;
    }
    return word_long_find(c, word_long_hash(word, length), word, length, ids, count);
}

/* Stores ids and text; the place, 0 when the store is full. */
static uint32_t write_entry(struct word_cache *c, const int32_t *ids, size_t count,
                            const unsigned char *text, size_t length) {
    uint16_t head[2] = {(uint16_t)length, (uint16_t)count};
    size_t size = sizeof head + ID_BYTES * count + length;
    if (size > c->store_size - c->store_used)
        return 0;
    unsigned char *at = c->store + c->store_used;
    memcpy(at, head, sizeof head);
    at += sizeof head;
    for (size_t i = 0; i < count; i++, at += ID_BYTES) {
        at[0] = (unsigned char)ids[i];
        at[1] = (unsigned char)(ids[i] >> 8);
        at[2] = (unsigned char)(ids[i] >> 16);
    }
    if (length)
        memcpy(at, text, length);
    c->store_used += size;
    return (uint32_t)(c->store_used - size);
}

/* Takes a free way of its bucket or, when all are taken, drives one out; which is as good
 * as random and the same in every run. */
static bool add_long(struct word_cache *c, const unsigned char *word, size_t length,
                     const int32_t *ids, size_t count) {
    uint32_t place = write_entry(c, ids, count, word, length);
    if (!place)
        return false;
    uint64_t hash = word_long_hash(word, length);
    struct word_long *bucket = c->longs + (word_long_bucket(c, hash) - c->longs);
    size_t way = 0;
    while (way < WORD_LONG_WAYS - 1 && bucket[way].place)
        way++;
    if (bucket[way].place)
        way = place % WORD_LONG_WAYS;
    bucket[way] = (struct word_long){(uint32_t)(hash >> 32), place};
    return true;
}

/* Moves the last word of a bucket to the other table, unless it is there already. An
 * eighth of the store is kept for words that have no other place. */
static void spill(struct word_cache *c, const struct word_bucket *b) {
    int32_t ids[WORD_KEY_BYTES];
    struct word_key key = b->keys[WORD_BUCKET_WAYS - 1];
    const unsigned char *word = (const unsigned char *)&key;
    size_t length = key.high >> 56, count;
    if (!length || c->store_used > c->store_size / 8 * 7 ||
        word_long_find(c, word_long_hash(word, length), word, length, ids, &count))
        return;
    word_slot_read(c, b->ids[WORD_BUCKET_WAYS - 1], ids, &count);
    add_long(c, word, length, ids, count);
}

/* The newest word comes first in its bucket. */
static void put_first(struct word_cache *c, struct word_key key,
                      const int32_t ids[WORD_SLOT_IDS]) {
    struct word_bucket *b = word_cache_bucket(c, key);
    if (b->keys[0].high) {
        spill(c, b);
        b->keys[1] = b->keys[0];
        memcpy(b->ids[1], b->ids[0], sizeof b->ids[0]);
    }
    b->keys[0] = key;
    memcpy(b->ids[0], ids, sizeof b->ids[0]);
}

bool word_cache_add_key(struct word_cache *c, struct word_key key, const int32_t *ids,
                        size_t count) {
    int32_t slot[WORD_SLOT_IDS] = {-1, -1, -1, -1};
    if (count > WORD_SLOT_IDS) {
        uint32_t place = write_entry(c, ids, count, NULL, 0);
        if (!place)
            return false;
        slot[0] = ~(int32_t)place;
    } else {
        for (size_t i = 0; i < count; i++)
            slot[i] = ids[i];
    }
    put_first(c, key, slot);
    return true;
}

bool word_cache_add(struct word_cache *c, const unsigned char *word, size_t length,
                    const int32_t *ids, size_t count) {
    if (length > WORD_LONGEST)
        return true;
    if (length > WORD_KEY_BYTES)
        return add_long(c, word, length, ids, count);
    return word_cache_add_key(c, word_key_of(word, length), ids, count);
}
