/* word_table - how often each pre-token occurs: a hash table with 64-bit counts.
 *
 * A short word is its own key, two machine words, so that looking it up compares two
 * integers. Keys are queued and looked up a batch at a time, so that the table's cache
 * misses overlap. Open addressing, linear probing, at most half full, four times as large
 * when it grows: 200 bytes a distinct word at worst.
 *
 *   short word   low = bytes 0-7       high = bytes 8-14, length in the top byte
 *   long word    low = hash of all     high = LONG | where {length, bytes} lies in `text`
 *   empty entry  high = 0
 *
 * Not the table of word_cache.h, whose keys it shares: that one forgets, this one must
 * not. Not a general hash map either: every word of the text costs a probe, and keys that
 * are compared as two integers need no look at strings. */
#include "tokenizer/word_table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/hash.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the bytes of a key are those of its word");

enum { LENGTH_SHIFT = 56, FIRST_BITS = 12 };
/* Top byte of a long word's key, whose low half is its hash and the rest its offset. */
#define LONG ((uint64_t)0xFF << LENGTH_SHIFT)

struct word_entry {
    struct word_key key; /* high is 0 in an empty entry */
    uint64_t count;
};

static enum status take_entries(struct word_table *table, int bits, struct error *err) {
    table->entries = calloc((size_t)1 << bits, sizeof table->entries[0]);
    if (!table->entries)
        return error_set(err, ERR_MEMORY, "out of memory for %zu words",
                         (size_t)1 << bits);
    table->bits = bits;
    return OK;
}

enum status word_table_open(struct word_table *table, struct error *err) {
    *table = (struct word_table){0};
    return take_entries(table, FIRST_BITS, err);
}

void word_table_close(struct word_table *table) {
    free(table->entries);
    buffer_free(&table->text);
    *table = (struct word_table){0};
}

static bool is_long(struct word_key key) { return key.high >= LONG; }

/* The entry where a search begins. A long word's key has its hash already. */
static size_t home(struct word_key key, int bits) {
    uint64_t hash = key.low;
    if (!is_long(key)) {
        uint64_t high = key.high * 0x9E3779B97F4A7C15u;
        hash ^= high << 32 | high >> 32;
    }
    return (size_t)((hash * 0xD6E8FEB86659FD93u) >> (64 - bits));
}

static uint64_t load(const unsigned char *bytes) {
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* Bytes of a long word and its length. */
static const unsigned char *long_word(const struct word_table *table, struct word_key key,
                                      size_t *length) {
    const unsigned char *at = (const unsigned char *)table->text.data + (key.high ^ LONG);
    *length = (size_t)load(at);
    return at + sizeof(uint64_t);
}

static struct word_entry *find_short(const struct word_table *table,
                                     struct word_key key) {
    size_t mask = ((size_t)1 << table->bits) - 1;
    for (size_t at = home(key, table->bits);; at = (at + 1) & mask) {
        struct word_entry *e = &table->entries[at];
        if ((e->key.low == key.low && e->key.high == key.high) || e->key.high == 0)
            return e;
    }
}

static struct word_entry *find_long(const struct word_table *table, uint64_t hash,
                                    const unsigned char *word, size_t length) {
    size_t mask = ((size_t)1 << table->bits) - 1;
    size_t at = home((struct word_key){hash, LONG}, table->bits);
    for (;; at = (at + 1) & mask) {
        struct word_entry *e = &table->entries[at];
        if (e->key.high == 0)
            return e;
        if (e->key.low != hash || !is_long(e->key))
            continue;
        size_t n;
        const unsigned char *other = long_word(table, e->key, &n);
        if (n == length && memcmp(other, word, n) == 0)
            return e;
    }
}

static enum status enlarge(struct word_table *table, struct error *err) {
    struct word_entry *old = table->entries;
    size_t size = (size_t)1 << table->bits;
    enum status status = take_entries(table, table->bits + 2, err);
    if (status != OK) {
        table->entries = old;
        return status;
    }
    size_t mask = ((size_t)1 << table->bits) - 1;
    for (size_t i = 0; i < size; i++) {
        if (old[i].key.high == 0)
            continue;
        size_t at = home(old[i].key, table->bits);
        while (table->entries[at].key.high)
            at = (at + 1) & mask;
        table->entries[at] = old[i];
    }
    free(old);
    return OK;
}

static enum status reserve(struct word_table *table, size_t more, struct error *err) {
    while (table->distinct + more > (size_t)1 << (table->bits - 1))
        TRY(enlarge(table, err));
    return OK;
}

static void count_short(struct word_table *table, struct word_key key, uint64_t count) {
    struct word_entry *e = find_short(table, key);
    table->distinct += e->key.high == 0;
    e->key = key;
    e->count += count;
}

enum status word_table_settle(struct word_table *table, struct error *err) {
    TRY(reserve(table, (size_t)table->queued, err));
    for (int i = 0; i < table->queued; i++)
        __builtin_prefetch(&table->entries[home(table->queue[i], table->bits)]);
    for (int i = 0; i < table->queued; i++)
        count_short(table, table->queue[i], 1);
    table->queued = 0;
    return OK;
}

/* A long word is looked up at once: there are few, and their bytes lie in the text that
 * the caller will overwrite. */
static enum status count_long(struct word_table *table, const unsigned char *word,
                              size_t length, uint64_t count, struct error *err) {
    TRY(reserve(table, 1, err));
    uint64_t hash = hash_bytes(word, length), stored = length;
    struct word_entry *e = find_long(table, hash, word, length);
    if (e->key.high == 0) {
        e->key = (struct word_key){hash, LONG | table->text.length};
        table->distinct++;
        TRY(buffer_add(&table->text, &stored, sizeof stored, err));
        TRY(buffer_add(&table->text, word, length, err));
    }
    e->count += count;
    return OK;
}

enum status word_table_add(struct word_table *table, const unsigned char *word,
                           size_t length, struct error *err) {
    table->total++;
    if (length > WORD_KEY_BYTES)
        return count_long(table, word, length, 1, err);
    table->queue[table->queued++] = word_key_of_16(word, length);
    return table->queued == WORD_TABLE_QUEUE ? word_table_settle(table, err) : OK;
}

enum status word_table_merge(struct word_table *table, const struct word_table *from,
                             struct error *err) {
    /* Entries come in the order of their hashes, which would crowd a smaller table. */
    TRY(reserve(table, from->distinct, err));
    for (size_t i = 0; i < (size_t)1 << from->bits; i++) {
        const struct word_entry *e = &from->entries[i];
        if (e->key.high == 0)
            continue;
        if (is_long(e->key)) {
            size_t length;
            const unsigned char *word = long_word(from, e->key, &length);
            TRY(count_long(table, word, length, e->count, err));
            continue;
        }
        count_short(table, e->key, e->count);
    }
    table->total += from->total;
    return OK;
}

enum status word_table_words(const struct word_table *table, struct counted_word **words,
                             struct error *err) {
    *words = malloc((table->distinct + 1) * sizeof **words);
    if (!*words)
        return error_set(err, ERR_MEMORY, "out of memory for %zu words", table->distinct);
    struct counted_word *to = *words;
    for (size_t i = 0; i < (size_t)1 << table->bits; i++) {
        const struct word_entry *e = &table->entries[i];
        if (e->key.high == 0)
            continue;
        *to = (struct counted_word){(const unsigned char *)&e->key,
                                    (size_t)(e->key.high >> LENGTH_SHIFT), e->count};
        if (is_long(e->key))
            to->bytes = long_word(table, e->key, &to->length);
        to++;
    }
    return OK;
}
