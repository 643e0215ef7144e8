/* reach - which tokens their own bytes encode to.
 *
 * Encoding every token to see what comes out takes 12 ms for 50,000 tokens; the rule
 * below, which looks each merge's border up, 3 ms. It holds for merges in an order that
 * training can give, which is checked; for others the tokens are encoded. */
#include "tokenizer/reach.h"

#include <stdlib.h>

/* Proper merges make each token once, from bytes and tokens of lower rank. Then a token
 * (left, right) of rank R is reached if both sides are, and no merge across the border
 * between them comes before R. What stands at the border while the merges go on are the
 * sides themselves and, going back in time, the nearer child of whichever was made last.
 * So each pair that ever met there is looked up once. */

static enum status encode_one(struct vocab *v, const struct bpe *b, int32_t id,
                              struct bpe_scratch *scratch, struct error *err) {
    size_t length;
    const unsigned char *bytes = vocab_bytes(v, id, &length);
    TRY(bpe_word(b, scratch, bytes, length, err));
    v->entries[id].reachable = scratch->count == 1 && scratch->ids[0] == id;
    return OK;
}

enum status reach_mark_by_encoding(struct vocab *v, const struct bpe *b,
                                   struct error *err) {
    struct bpe_scratch scratch = {0};
    enum status status = OK;
    for (int32_t id = 0; id < v->size && status == OK; id++)
        if (vocab_has(v, id) && v->entries[id].mapped)
            status = encode_one(v, b, id, &scratch, err);
    bpe_scratch_free(&scratch);
    return status;
}

/* The rank of the merge that makes each token; -1 for none. */
static bool rank_tokens(const struct bpe *b, int32_t *ranks, int32_t size) {
    for (int32_t id = 0; id < size; id++)
        ranks[id] = -1;
    for (uint32_t rank = 0; rank < b->merge_count; rank++) {
        const struct bpe_merge *m = &b->merges[rank];
        if (m->left < 0 || ranks[m->result] >= 0)
            return false;
        ranks[m->result] = (int32_t)rank;
    }
    for (uint32_t rank = 0; rank < b->merge_count; rank++) {
        const struct bpe_merge *m = &b->merges[rank];
        if (ranks[m->left] >= (int32_t)rank || ranks[m->right] >= (int32_t)rank)
            return false;
    }
    for (int byte = 0; byte < 256; byte++)
        if (b->byte_id[byte] >= 0 && ranks[b->byte_id[byte]] >= 0)
            return false;
    return true;
}

/* Does no merge across the border of left and right come before `rank`? */
static bool meet_first(const struct bpe *b, const int32_t *ranks, int32_t left,
                       int32_t right, int32_t rank) {
    int32_t before = rank; /* merges of lower rank would have come first */
    for (;;) {
        if (bpe_find_pair(b, left, right) < (uint32_t)before)
            return false;
        if (ranks[left] < 0 && ranks[right] < 0)
            return true;
        /* Of two equal merges the left one is first, so the right one is undone first,
         * and a merge across the border equal to the right one would precede it. */
        if (ranks[left] > ranks[right]) {
            before = ranks[left];
            left = b->merges[before].right;
        } else {
            before = ranks[right] + 1;
            right = b->merges[before - 1].left;
        }
    }
}

static void mark_proper(struct vocab *v, const struct bpe *b, const int32_t *ranks) {
    for (int byte = 0; byte < 256; byte++)
        if (b->byte_id[byte] >= 0)
            v->entries[b->byte_id[byte]].reachable = true;
    for (uint32_t rank = 0; rank < b->merge_count; rank++) {
        const struct bpe_merge *m = &b->merges[rank];
        v->entries[m->result].reachable =
            v->entries[m->left].reachable && v->entries[m->right].reachable &&
            meet_first(b, ranks, m->left, m->right, (int32_t)rank);
    }
}

enum status reach_mark(struct vocab *v, const struct bpe *b, struct error *err) {
    int32_t *ranks = malloc(((size_t)v->size + 1) * sizeof *ranks);
    if (!ranks)
        return error_set(err, ERR_MEMORY, "out of memory for the merges");
    bool is_proper = rank_tokens(b, ranks, v->size);
    if (is_proper)
        mark_proper(v, b, ranks);
    free(ranks);
    return is_proper ? OK : reach_mark_by_encoding(v, b, err);
}
