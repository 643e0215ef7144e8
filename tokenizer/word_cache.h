/* word_cache - words already encoded, so that a word seen again costs one cache line.
 *
 * Words of up to 15 bytes lie in a two-way table: the key is the text and its length in
 * 16 bytes, up to four ids lie beside it. More ids, longer words, and words that had to
 * make room lie in a store that the tables point into. Memory is fixed: a full store
 * empties the cache back to its seed. What is cached never changes a result. */
#ifndef TOKENIZER_WORD_CACHE_H
#define TOKENIZER_WORD_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE4_2__
#include <immintrin.h>
#endif

#include "base/error.h"

enum {
    WORD_KEY_BYTES = 15,
    WORD_SLOT_IDS = 4,
    WORD_BUCKET_WAYS = 2,
    WORD_LONGEST = 1024 /* bytes; longer words are not remembered */
};

/* The bytes of a word, then zeros; the length in the last byte. */
struct word_key {
    uint64_t low, high;
};

/* One cache line: WORD_BUCKET_WAYS words. Their ids end with -1 unless there are
 * WORD_SLOT_IDS of them; ids[..][0] < -1: ~ of it is the place of the ids in the store.
 */
struct word_bucket {
    struct word_key keys[WORD_BUCKET_WAYS]; /* high 0: empty */
    int32_t ids[WORD_BUCKET_WAYS][WORD_SLOT_IDS];
};

struct word_long {
    uint32_t tag;   /* of the hash */
    uint32_t place; /* in the store; 0: empty */
};
enum { WORD_LONG_WAYS = 8 }; /* one cache line */

struct word_cache {
    struct word_bucket *buckets; /* owned */
    size_t mask; /* of the bits of a hash that say which bucket, at its place in bytes */
    struct word_long *longs; /* owned */
    /* Entries of two 16-bit numbers, bytes of text and ids; the ids, 24 bits each; the
     * text, if it is a long word's. Owned. */
    unsigned char *store;
    size_t store_used, store_size;
};

/* 2^log2_buckets buckets, 3 <= log2_buckets <= 20, and 144 bytes a bucket in all. */
enum status word_cache_open(struct word_cache *c, unsigned log2_buckets,
                            struct error *err) MUST_CHECK;
void word_cache_close(struct word_cache *c);
/* Forgets all words, keeps the memory. */
void word_cache_clear(struct word_cache *c);

/* Writes the ids of a word of at least one byte, no more than it has bytes; false when
 * it is not here. */
bool word_cache_find(const struct word_cache *c, const unsigned char *word, size_t length,
                     int32_t *ids, size_t *count);
/* The same of a word that word_bucket_find found. */
void word_slot_read(const struct word_cache *c, const int32_t slot[WORD_SLOT_IDS],
                    int32_t *ids, size_t *count);
/* Remembers a word if it is not too long. False: the store is full, clear first. */
bool word_cache_add(struct word_cache *c, const unsigned char *word, size_t length,
                    const int32_t *ids, size_t count);

/* The same of a word of up to WORD_KEY_BYTES by its key. */
bool word_cache_add_key(struct word_cache *c, struct word_key key, const int32_t *ids,
                        size_t count);

/* For loops over long words: the hash, its bucket to prefetch, the ids. */
uint64_t word_long_hash(const unsigned char *word, size_t length);
const struct word_long *word_long_bucket(const struct word_cache *c, uint64_t hash);
bool word_long_find(const struct word_cache *c, uint64_t hash, const unsigned char *word,
                    size_t length, int32_t *ids, size_t *count);

/* For loops over short words: the key (length 1 to WORD_KEY_BYTES), its bucket to
 * prefetch, and the ids in that. */
static inline struct word_key word_key_of(const unsigned char *word, size_t length) {
    struct word_key key = {0, 0};
    memcpy(&key, word, length);
    key.high |= (uint64_t)length << 56;
    return key;
}

/* The same, reading 16 bytes whatever the length is; all must be readable. */
static inline void word_key_write_16(struct word_key *key, const unsigned char *word,
                                     size_t length) {
    static const unsigned char keep[32] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
                                           0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
                                           0xFF, 0xFF, 0xFF, 0xFF};
#ifdef __SSE4_2__
    __m128i text = _mm_loadu_si128((const __m128i *)(const void *)word);
    __m128i mask = _mm_loadu_si128((const __m128i *)(const void *)(keep + 16 - length));
    text = _mm_insert_epi8(_mm_and_si128(text, mask), (int)length, 15);
    _mm_storeu_si128((__m128i *)(void *)key, text);
#else
    struct word_key mask;
    memcpy(key, word, sizeof *key);
    memcpy(&mask, keep + 16 - length, sizeof mask);
    key->low &= mask.low;
    key->high = (key->high & mask.high) | (uint64_t)length << 56;
#endif
}

static inline struct word_key word_key_of_16(const unsigned char *word, size_t length) {
    struct word_key key;
    word_key_write_16(&key, word, length);
    return key;
}

/* 32 bits. Multiplies, or what the processor has for checksums, which is quicker. */
static inline uint64_t word_key_hash(struct word_key key) {
#ifdef __SSE4_2__
    return _mm_crc32_u64(_mm_crc32_u64(0, key.low), key.high);
#else
    uint64_t hash = (key.low ^ key.high * 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;
    return (hash ^ hash >> 32) * 0xA0761D6478BD642Fu >> 32;
#endif
}

static inline struct word_bucket *word_cache_bucket(const struct word_cache *c,
                                                    struct word_key key) {
    size_t place = word_key_hash(key) & c->mask; /* in bytes */
    return (struct word_bucket *)(void *)((char *)c->buckets + place);
}

/* May a word of this bucket have had to leave it? */
static inline bool word_bucket_is_full(const struct word_bucket *bucket) {
    return bucket->keys[WORD_BUCKET_WAYS - 1].high != 0;
}

/* How many ids lie beside the key. */
static inline size_t word_slot_count(const int32_t ids[WORD_SLOT_IDS]) {
#ifdef __SSE4_2__
    __m128i four = _mm_loadu_si128((const __m128i *)(const void *)ids);
    int negative = _mm_movemask_ps(_mm_castsi128_ps(four));
    return WORD_SLOT_IDS - (size_t)__builtin_popcount((unsigned)negative);
#else
    size_t count = 0;
    for (int i = 0; i < WORD_SLOT_IDS; i++)
        count += ids[i] >= 0;
    return count;
#endif
}

/* The ids beside the key; NULL when it is not here. Which way it is cannot be foreseen,
 * so it is computed rather than branched on. */
static inline const int32_t *word_bucket_find(const struct word_bucket *bucket,
                                              const struct word_key *key) {
#ifdef __AVX2__
    __m256i both = _mm256_loadu_si256((const __m256i *)(const void *)bucket->keys);
    __m128i one = _mm_loadu_si128((const __m128i *)(const void *)key);
    __m256i same = _mm256_cmpeq_epi64(both, _mm256_broadcastsi128_si256(one));
    unsigned halves = (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(same));
    unsigned ways = halves & halves >> 1 & 5; /* bit 0: the first, bit 2: the second */
    return ways ? bucket->ids[ways >> 2] : NULL;
#else
    for (int way = 0; way < WORD_BUCKET_WAYS; way++)
        if (bucket->keys[way].low == key->low && bucket->keys[way].high == key->high)
            return bucket->ids[way];
    return NULL;
#endif
}

#endif
