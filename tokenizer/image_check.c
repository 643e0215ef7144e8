/* image_check - does a tokenizer whose memory came from a file stay inside of it?
 *
 * Runs over all of an image at every start, so its loops have no branch an item: they
 * gather what is wrong and look at it once. Flags are looked at as bytes, as any other
 * value than 0 or 1 in a bool is undefined. The tables with open addressing need an empty
 * slot, or a search would not end. */
#include "tokenizer/image_check.h"

#include <string.h>

/* Is a byte that holds a bool one? It is looked at before it is read as one. */
static bool is_bool(const bool *flag) {
    unsigned char byte;
    memcpy(&byte, flag, 1);
    return byte <= 1;
}

bool image_check_added(const struct added_token *a) {
    return is_bool(&a->single_word) && is_bool(&a->lstrip) && is_bool(&a->rstrip) &&
           is_bool(&a->normalized) && is_bool(&a->special);
}

static bool tokens_are_sound(const struct vocab *v) {
    unsigned wrong = 0;
    int32_t count = 0;
    for (int32_t id = 0; id < v->size; id++) {
        const struct vocab_entry *e = &v->entries[id];
        const struct vocab_piece *p = &v->pieces[id];
        const unsigned length = v->shorts[id].length;
        unsigned char flags[5]; /* looked at before they are read as bools */
        memcpy(flags, &e->present, sizeof flags);
        wrong |= ((uint64_t)e->text + e->text_length > v->text.length) |
                 ((uint64_t)p->bytes + p->length > v->bytes.length) |
                 (p->length > v->longest) | (flags[0] != (p->flags != 0)) |
                 ((flags[1] | flags[2] | flags[3] | flags[4]) > 1) |
                 ((length != VOCAB_RARE) & (length != p->length));
        count += flags[0];
    }
    return !wrong && count == v->count;
}

static bool slots_are_sound(const struct vocab *v) {
    unsigned wrong = 0;
    size_t used = 0;
    for (size_t i = 0; i < v->slot_count; i++) {
        used += v->slots[i].id >= 0;
        wrong |= (v->slots[i].id < -1) | (v->slots[i].id >= v->size);
    }
    return !wrong && (v->slot_count & (v->slot_count - 1)) == 0 && used < v->slot_count;
}

static bool vocab_is_sound(const struct vocab *v) {
    return v->size >= 0 && v->size <= VOCAB_MAX_ID + 1 && tokens_are_sound(v) &&
           slots_are_sound(v);
}

static bool ranks_are_sound(const uint32_t *ranks, size_t count, uint32_t mask,
                            uint32_t merge_count) {
    uint32_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong |= (ranks[i] != BPE_NO_RANK) & ((ranks[i] & mask) >= merge_count);
    return !wrong;
}

static bool has_empty_slot(const struct bpe *b) {
    for (size_t i = 0; i < b->pair_slots; i++)
        if (b->pairs[i] == BPE_NO_RANK)
            return true;
    return b->pair_slots == 0;
}

static bool merges_are_sound(const struct bpe *b, const struct vocab *v) {
    const uint32_t size = (uint32_t)v->size;
    uint32_t wrong = 0;
    for (uint32_t rank = 0; rank < b->merge_count; rank++) {
        const struct bpe_merge *m = &b->merges[rank];
        wrong |= ((uint32_t)m->result >= size) | ((uint32_t)m->right >= size) |
                 ((uint32_t)m->left + 1 > size);
    }
    if (wrong || v->count == v->size)
        return !wrong;
    for (uint32_t rank = 0; rank < b->merge_count; rank++) {
        const struct bpe_merge *m = &b->merges[rank];
        if (!vocab_has(v, m->result) || !vocab_has(v, m->right) ||
            (m->left != -1 && !vocab_has(v, m->left)))
            return false;
    }
    return true;
}

static bool bpe_is_sound(const struct bpe *b, const struct vocab *v) {
    for (int byte = 0; byte < 256; byte++)
        if (b->byte_id[byte] != -1 && !vocab_has(v, b->byte_id[byte]))
            return false;
    return (b->unk == -1 || vocab_has(v, b->unk)) && merges_are_sound(b, v) &&
           (b->pair_slots & (b->pair_slots - 1)) == 0 && has_empty_slot(b) &&
           ranks_are_sound(b->pairs, b->pair_slots, BPE_RANK_MASK, b->merge_count) &&
           (!b->byte_pairs ||
            ranks_are_sound(b->byte_pairs, BPE_BYTE_PAIRS, UINT32_MAX, b->merge_count));
}

static bool id_is_sound(const struct tokenizer *t, int32_t id) {
    return id == -1 || vocab_has(&t->vocab, id);
}

static bool flags_are_sound(const struct tokenizer *t) {
    const struct template *p = &t->template;
    return is_bool(&t->add_prefix_space) && is_bool(&t->json_null_affixes) &&
           is_bool(&t->json_null_decoder) && is_bool(&t->bpe.fuse_unk) &&
           is_bool(&p->present) && is_bool(&p->trim_offsets) &&
           is_bool(&p->add_prefix_space) && t->invalid_utf8 == INVALID_UTF8_ERROR;
}

/* What does not lie in an array. */
static bool rest_is_sound(const struct tokenizer *t) {
    const struct special_ids *s = &t->specials;
    const struct normalizer *n = &t->normalizer;
    int missing = 0;
    for (int byte = 0; byte < 256; byte++)
        missing += t->bpe.byte_id[byte] < 0;
    if (!flags_are_sound(t) || n->count < 0 ||
        n->count > (int)(sizeof n->steps / sizeof *n->steps))
        return false;
    for (int i = 0; i < n->count; i++)
        if ((unsigned)n->steps[i] > NORMALIZER_LOWERCASE)
            return false;
    return missing == t->facts.missing_bytes && id_is_sound(t, s->bos) &&
           id_is_sound(t, s->pad) && id_is_sound(t, s->eos) && id_is_sound(t, s->unk) &&
           id_is_sound(t, s->mask) &&
           (!t->template.present ||
            (id_is_sound(t, t->template.cls) && id_is_sound(t, t->template.sep)));
}

bool image_check(const struct tokenizer *t) {
    return vocab_is_sound(&t->vocab) && bpe_is_sound(&t->bpe, &t->vocab) &&
           rest_is_sound(t);
}
