/* vocab - token strings and their ids.
 *
 * Arrays by id and two buffers. What is written once lies apart from what loops read: an
 * entry (16 bytes, for loading and saving), a piece (8 bytes, for encoding offsets), a
 * short (16 bytes, all that decoding needs of most tokens), a slot of the hash table (8
 * bytes, half or less of them used). Strings lie end to end in `text`, each with a NUL,
 * bytes end to end in `bytes`.
 *
 * A slot repeats 32 bits of the hash: nearly all texts that do not match are told apart
 * without leaving the table, where a string would cost another cache line. Ids may have
 * gaps, even large ones: the arrays are as long as the largest id, zero pages that are
 * never touched cost nothing, and the largest id is bounded (VOCAB_MAX_ID), as a
 * vocab.json can name any number. */
#include "tokenizer/vocab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/bytes.h"
#include "tokenizer/hash.h"
#include "tokenizer/unicode.h"

static enum status no_memory(struct error *err) {
    return error_set(err, ERR_MEMORY, "out of memory for the vocabulary");
}

static uint32_t tag_of(uint64_t hash) { return (uint32_t)(hash >> 32); }

/* The slot that holds the text of this hash, or the empty one where it belongs. */
static struct vocab_slot *find_slot(const struct vocab *v, uint64_t hash,
                                    const char *text, size_t length) {
    size_t mask = v->slot_count - 1, at = hash & mask;
    for (; v->slots[at].id >= 0; at = (at + 1) & mask) {
        const struct vocab_entry *e = &v->entries[v->slots[at].id];
        if (v->slots[at].tag == tag_of(hash) && e->text_length == length &&
            !memcmp(v->text.data + e->text, text, length))
            break;
    }
    return &v->slots[at];
}

static enum status rehash(struct vocab *v, size_t slot_count, struct error *err) {
    struct vocab_slot *slots = malloc(slot_count * sizeof *slots);
    if (!slots)
        return no_memory(err);
    memset(slots, 0xFF, slot_count * sizeof *slots);
    free(v->slots);
    v->slots = slots;
    v->slot_count = slot_count;
    for (int32_t id = 0; id < v->size; id++) {
        const struct vocab_entry *e = &v->entries[id];
        if (!e->present)
            continue;
        const char *text = v->text.data + e->text;
        uint64_t hash = hash_bytes(text, e->text_length);
        *find_slot(v, hash, text, e->text_length) = (struct vocab_slot){id, tag_of(hash)};
    }
    return OK;
}

/* A longer copy of an array, or NULL. What follows the copy is zero and, where ids leave
 * a large gap, never touched. */
static void *grown(const void *items, size_t count, size_t capacity, size_t item_bytes) {
    void *more = calloc(capacity, item_bytes);
    if (more && count)
        memcpy(more, items, count * item_bytes);
    return more;
}

static enum status grow_entries(struct vocab *v, int32_t capacity, struct error *err) {
    if (capacity <= v->capacity)
        return OK;
    size_t count = (size_t)v->size;
    struct vocab_entry *entries =
        grown(v->entries, count, (size_t)capacity, sizeof *entries);
    struct vocab_piece *pieces =
        grown(v->pieces, count, (size_t)capacity, sizeof *pieces);
    struct vocab_short *shorts =
        grown(v->shorts, count, (size_t)capacity, sizeof *shorts);
    if (!entries || !pieces || !shorts) {
        free(entries);
        free(pieces);
        free(shorts);
        return no_memory(err);
    }
    free(v->entries);
    free(v->pieces);
    free(v->shorts);
    v->entries = entries;
    v->pieces = pieces;
    v->shorts = shorts;
    v->capacity = capacity;
    return OK;
}

static enum status own_buffer(struct buffer *b, size_t slack, struct error *err) {
    struct buffer copy = {0};
    TRY(buffer_reserve(&copy, b->length + slack, err));
    memcpy(copy.data, b->data, b->length + slack);
    copy.length = b->length;
    *b = copy;
    return OK;
}

/* Arrays of an image are copied before they grow. */
static enum status own(struct vocab *v, struct error *err) {
    if (!v->is_mapped)
        return OK;
    struct vocab copy = {.count = v->count, .size = v->size, .longest = v->longest};
    copy.entries =
        grown(v->entries, (size_t)v->size, (size_t)v->size, sizeof *v->entries);
    copy.pieces = grown(v->pieces, (size_t)v->size, (size_t)v->size, sizeof *v->pieces);
    copy.shorts = grown(v->shorts, (size_t)v->size, (size_t)v->size, sizeof *v->shorts);
    copy.slots = grown(v->slots, v->slot_count, v->slot_count, sizeof *v->slots);
    copy.capacity = v->size;
    copy.slot_count = v->slot_count;
    copy.text = v->text;
    copy.bytes = v->bytes;
    enum status status = own_buffer(&copy.text, 0, err);
    if (status != OK)
        copy.text = (struct buffer){0};
    if (status == OK)
        status = own_buffer(&copy.bytes, VOCAB_SLACK, err);
    if (status != OK)
        copy.bytes = (struct buffer){0};
    if (!copy.entries || !copy.pieces || !copy.shorts || !copy.slots)
        status = no_memory(err);
    if (status != OK)
        vocab_free(&copy);
    else
        *v = copy;
    return status;
}

enum status vocab_reserve(struct vocab *v, size_t entries, struct error *err) {
    TRY(own(v, err));
    size_t wanted = (size_t)v->count + entries;
    if (wanted > VOCAB_MAX_ID)
        return error_set(err, ERR_INPUT, "more than %d tokens", VOCAB_MAX_ID);
    TRY(grow_entries(v, (int32_t)wanted, err));
    size_t slot_count = v->slot_count ? v->slot_count : 64;
    while (slot_count < 2 * wanted)
        slot_count *= 2;
    return slot_count == v->slot_count ? OK : rehash(v, slot_count, err);
}

static unsigned flags_of(const unsigned char *bytes, size_t length) {
    bool spaced = length && (bytes[0] == ' ' || bytes[length - 1] == ' ');
    bool text = unicode_valid_prefix(bytes, length) == length;
    return VOCAB_PRESENT | (text ? VOCAB_TEXT : 0u) | (spaced ? VOCAB_SPACED : 0u);
}

/* From the piece of a token: its short form. */
static void shorten(struct vocab *v, int32_t id) {
    const struct vocab_piece *p = &v->pieces[id];
    struct vocab_short *s = &v->shorts[id];
    bool is_rare = p->length > sizeof s->bytes || p->flags & VOCAB_SPECIAL;
    memcpy(s->bytes, v->bytes.data + p->bytes, sizeof s->bytes);
    s->length = (unsigned char)(is_rare ? VOCAB_RARE : p->length);
    s->broken = !(p->flags & VOCAB_TEXT);
}

/* Adds both forms of the token to the buffers and describes them. */
static enum status store(struct vocab *v, int32_t id, const char *text, size_t length,
                         struct error *err) {
    struct vocab_entry *e = &v->entries[id];
    if (v->text.length + length + 1 > UINT32_MAX)
        return error_set(err, ERR_INPUT, "token strings of more than 4 GiB");
    e->text = (uint32_t)v->text.length;
    e->text_length = (uint32_t)length;
    TRY(buffer_reserve(&v->text, length + 1, err));
    memcpy(v->text.data + v->text.length, text, length);
    v->text.length += length + 1;
    memset(v->text.data + v->text.length - 1, 0, 2); /* the token's NUL, the buffer's */
    TRY(buffer_reserve(&v->bytes, length + VOCAB_SLACK, err));
    unsigned char *bytes = (unsigned char *)v->bytes.data + v->bytes.length;
    size_t mapped = bytes_from_text(bytes, text, length);
    e->mapped = mapped != SIZE_MAX && length > 0;
    if (mapped == SIZE_MAX) {
        mapped = length;
        memcpy(bytes, text, length);
    }
    memset(bytes + mapped, 0, VOCAB_SLACK);
    v->pieces[id] = (struct vocab_piece){.bytes = (uint32_t)v->bytes.length,
                                         .length = (uint32_t)mapped,
                                         .flags = flags_of(bytes, mapped)};
    shorten(v, id);
    v->bytes.length += mapped;
    v->longest = mapped > v->longest ? mapped : v->longest;
    return OK;
}

enum status vocab_add(struct vocab *v, const char *text, size_t length, int64_t id,
                      struct error *err) {
    if (id < 0 || id > VOCAB_MAX_ID)
        return error_set(err, ERR_INPUT, "token '%.*s': id %lld is not in 0 to %d",
                         (int)(length < 80 ? length : 80), text, (long long)id,
                         VOCAB_MAX_ID);
    TRY(own(v, err));
    if (2 * (size_t)(v->count + 1) > v->slot_count)
        TRY(vocab_reserve(v, (size_t)v->count + 32, err));
    if (id >= v->capacity)
        TRY(grow_entries(v, (int32_t)(id + id / 2 + 1), err));
    if (length > VOCAB_LONGEST)
        return error_set(err, ERR_INPUT, "token '%.80s...' is longer than %d bytes", text,
                         VOCAB_LONGEST);
    struct vocab_entry *e = &v->entries[id];
    if (e->present)
        return error_set(err, ERR_INPUT, "id %lld is given to '%s' and to '%.*s'",
                         (long long)id, v->text.data + e->text,
                         (int)(length < 80 ? length : 80), text);
    uint64_t hash = hash_bytes(text, length);
    struct vocab_slot *slot = find_slot(v, hash, text, length);
    if (slot->id >= 0)
        return error_set(err, ERR_INPUT, "token '%.*s' has two ids, %d and %lld",
                         (int)(length < 80 ? length : 80), text, slot->id, (long long)id);
    TRY(store(v, (int32_t)id, text, length, err));
    e->present = true;
    *slot = (struct vocab_slot){(int32_t)id, tag_of(hash)};
    v->count++;
    if (id >= v->size)
        v->size = (int32_t)id + 1;
    return OK;
}

void vocab_free(struct vocab *v) {
    if (!v->is_mapped) {
        free(v->entries);
        free(v->pieces);
        free(v->shorts);
        free(v->slots);
        buffer_free(&v->text);
        buffer_free(&v->bytes);
    }
    *v = (struct vocab){0};
}

int32_t vocab_find(const struct vocab *v, const char *text, size_t length) {
    if (!v->slot_count)
        return -1;
    return find_slot(v, hash_bytes(text, length), text, length)->id;
}

bool vocab_is_special(const struct vocab *v, int32_t id) {
    return vocab_has(v, id) && v->pieces[id].flags & VOCAB_SPECIAL;
}

void vocab_set_special(struct vocab *v, int32_t id, bool special) {
    unsigned flags = v->pieces[id].flags & ~(unsigned)VOCAB_SPECIAL;
    v->pieces[id].flags = flags | (special ? VOCAB_SPECIAL : 0u);
    shorten(v, id);
}

const char *vocab_text(const struct vocab *v, int32_t id, size_t *length) {
    assert(vocab_has(v, id));
    *length = v->entries[id].text_length;
    return v->text.data + v->entries[id].text;
}

const unsigned char *vocab_bytes(const struct vocab *v, int32_t id, size_t *length) {
    assert(vocab_has(v, id));
    *length = v->pieces[id].length;
    return (const unsigned char *)v->bytes.data + v->pieces[id].bytes;
}
