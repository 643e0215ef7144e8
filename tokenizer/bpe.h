/* bpe - the merges of byte-pair encoding and how they are applied to one word.
 *
 * A word's bytes become single-byte tokens; then, while some neighbouring pair is in the
 * merge table, one pair is merged: that of lowest rank, the leftmost on ties. This is
 * what Hugging Face tokenizers does for any list of merges, also for orders that no
 * training could give. O(n log n) in the length of the word. */
#ifndef TOKENIZER_BPE_H
#define TOKENIZER_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tokenizer/vocab.h"

#define BPE_NO_RANK UINT32_MAX
#define BPE_BYTE_PAIRS (256 * 256)
#define BPE_RANK_MASK ((1u << 24) - 1) /* of a slot of `pairs` */
#define BPE_MAX_WORD ((size_t)1 << 30) /* bytes */

struct bpe_merge {
    int32_t left, right, result; /* left is -1 when a later line repeats the pair */
};

struct bpe {
    int32_t byte_id[256];     /* -1: the vocabulary has no such byte */
    int32_t unk;              /* stands for a missing byte; -1: missing bytes vanish */
    bool fuse_unk;            /* neighbouring missing bytes make one unk */
    struct bpe_merge *merges; /* by rank, owned */
    uint32_t merge_count, merge_capacity;
    /* Open addressing, owned: a slot is a rank below eight bits of the hash, so that
     * nearly all pairs that have no merge are told by their slot alone; BPE_NO_RANK is
     * an empty one. Four bytes each, the most of the table stays in the cache. */
    uint32_t *pairs;
    size_t pair_slots;
    /* The rank of a merge of two bytes, at first << 8 | second, BPE_NO_RANK for none;
     * NULL: not known. Owned. */
    uint32_t *byte_pairs;
    /* Bits of the pairs of bytes that are neighbours in the result of some merge. */
    unsigned char meets[BPE_BYTE_PAIRS / 8];
    bool is_mapped;       /* the arrays belong to a tokenizer's image (image.h) */
    struct buffer joined; /* used while merges are added */
};

/* Working memory and result of bpe_word; zeroed at first, grows, one a thread. */
struct bpe_scratch {
    int32_t *ids;      /* result */
    uint32_t *lengths; /* bytes of the word that each id stands for */
    size_t count;
    size_t capacity;
    struct bpe_links *links;
    uint64_t *heap;
    size_t long_capacity;
};

/* Looks up the single-byte tokens. Called before merges are added. */
void bpe_init(struct bpe *b, const struct vocab *v);
void bpe_free(struct bpe *b);
/* The next merge; all three strings must be tokens. ERR_INPUT names the one that is not.
 * A pair that was added before moves to this rank. */
enum status bpe_add_merge(struct bpe *b, const struct vocab *v, const char *left,
                          size_t left_length, const char *right, size_t right_length,
                          struct error *err) MUST_CHECK;
/* The same of two ids that are tokens. */
enum status bpe_add_merge_of(struct bpe *b, const struct vocab *v, int32_t left,
                             int32_t right, struct error *err) MUST_CHECK;
/* Once all merges are added: lets words begin with a look at a table of byte pairs, which
 * stays in the cache. Without all 256 bytes in the vocabulary it does nothing. */
enum status bpe_index_bytes(struct bpe *b, const struct vocab *v,
                            struct error *err) MUST_CHECK;
/* The rank of the merge of two ids, BPE_NO_RANK when there is none. */
uint32_t bpe_find_pair(const struct bpe *b, int32_t left, int32_t right);

/* Encodes one word into scratch->ids. ERR_INPUT above BPE_MAX_WORD, ERR_MEMORY. */
enum status bpe_word(const struct bpe *b, struct bpe_scratch *scratch,
                     const unsigned char *word, size_t length,
                     struct error *err) MUST_CHECK;
void bpe_scratch_free(struct bpe_scratch *scratch);

#endif
