/* tokenizer - byte-level BPE as RoBERTa and GPT-2 use it: what the rest of the program
 * sees.
 *
 * The public face. Most functions ask one of the parts (parts.h); what is done here is
 * the order of things:
 *
 *   encode         UTF-8 checked, added tokens cut out, a space put in front where asked,
 *                  words encoded
 *   encode_pair    both texts into one list with the template's ids between, then cut in
 *                  place: B first, as cutting A moves B
 *
 * The fingerprint goes over all that changes an id; token shards name theirs
 * (pretrain/corpus), so that a changed tokenizer makes new shards. */
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/hash.h"
#include "tokenizer/parts.h"
#include "tokenizer/reach.h"
#include "tokenizer/truncation.h"
#include "tokenizer/unicode.h"

static const struct special_ids no_specials = {-1, -1, -1, -1, -1};

struct tokenizer *tokenizer_new(void) {
    struct tokenizer *t = calloc(1, sizeof *t);
    if (t) {
        t->specials = no_specials;
        bpe_init(&t->bpe, &t->vocab);
    }
    return t;
}

void tokenizer_free(struct tokenizer *t) {
    if (!t)
        return;
    vocab_free(&t->vocab);
    bpe_free(&t->bpe);
    added_free(&t->added);
    file_unmap(&t->image);
    free(t);
}

/* After this the vocabulary's own tokens are known; added tokens that it does not hold
 * come later and are no part of these facts. */
enum status tokenizer_ready(struct tokenizer *t, struct error *err) {
    t->words = (struct words){&t->bpe, &t->vocab};
    TRY(bpe_index_bytes(&t->bpe, &t->vocab, err));
    TRY(reach_mark(&t->vocab, &t->bpe, err));
    t->facts.tokens = t->vocab.count;
    t->facts.gaps = t->vocab.size - t->vocab.count;
    for (int byte = 0; byte < 256; byte++)
        t->facts.missing_bytes += t->bpe.byte_id[byte] < 0;
    for (uint32_t rank = 0; rank < t->bpe.merge_count; rank++)
        t->facts.merges += t->bpe.merges[rank].left >= 0;
    return added_build(&t->added, NULL, NULL, err);
}

/* The form in which an added token is searched in normalised text. */
static enum status normalize_content(void *self, const char *text, size_t length,
                                     char **out, size_t *out_length, struct error *err) {
    struct normalized normal = {0};
    TRY(normalizer_apply(self, (const unsigned char *)text, length, &normal, err));
    *out = normal.text.data ? normal.text.data : calloc(1, 1);
    *out_length = normal.text.length;
    normal.text = (struct buffer){0};
    normalized_free(&normal);
    return *out ? OK : error_set(err, ERR_MEMORY, "out of memory for an added token");
}

static enum status build_added(struct tokenizer *t, struct error *err) {
    bool plain = !t->normalizer.count;
    return added_build(&t->added, plain ? NULL : normalize_content, &t->normalizer, err);
}

/* The id that a new added token gets: behind the vocabulary and behind all others, as
 * Hugging Face counts. */
static int32_t next_id(const struct tokenizer *t) {
    int32_t next = t->vocab.count;
    for (size_t i = 0; i < t->added.count; i++)
        if (t->added.tokens[i].id >= next)
            next = t->added.tokens[i].id + 1;
    while (vocab_has(&t->vocab, next))
        next++;
    return next;
}

/* A token that the vocabulary has keeps its place there; one that it has not is noted as
 * `extra`, so that saving leaves it out of the model's vocabulary. */
enum status tokenizer_add_token_with_id(struct tokenizer *t,
                                        const struct added_token *token, int32_t id,
                                        struct error *err) {
    struct added_token copy = *token;
    copy.id = vocab_find(&t->vocab, token->content, token->length);
    if (copy.id < 0) {
        TRY(vocab_add(&t->vocab, token->content, token->length, id, err));
        t->vocab.entries[id].extra = true;
        copy.id = id;
    }
    if (copy.id != id)
        return error_set(err, ERR_INPUT, "'%s' has id %d, but id %d in the vocabulary",
                         token->content, id, copy.id);
    t->vocab.entries[id].added = true;
    vocab_set_special(&t->vocab, id, token->special);
    return added_add(&t->added, &copy, err);
}

enum status tokenizer_add_tokens(struct tokenizer *t, const struct added_token *tokens,
                                 size_t count, struct error *err) {
    for (size_t i = 0; i < count; i++) {
        int32_t id = vocab_find(&t->vocab, tokens[i].content, tokens[i].length);
        if (tokens[i].length)
            TRY(tokenizer_add_token_with_id(t, &tokens[i], id < 0 ? next_id(t) : id,
                                            err));
    }
    return build_added(t, err);
}

void tokenizer_forget_added_tokens(struct tokenizer *t) {
    for (int32_t id = 0; id < t->vocab.size; id++)
        t->vocab.entries[id].added = false;
    added_free(&t->added);
}

/* RoBERTa's special tokens; `id` is where struct special_ids has it. */
static const struct {
    const char *content;
    size_t id;
    bool is_mask;
} roberta[] = {{"<s>", offsetof(struct special_ids, bos), false},
               {"<pad>", offsetof(struct special_ids, pad), false},
               {"</s>", offsetof(struct special_ids, eos), false},
               {"<unk>", offsetof(struct special_ids, unk), false},
               {"<mask>", offsetof(struct special_ids, mask), true}};
enum { ROBERTA_SPECIALS = sizeof roberta / sizeof *roberta };

void tokenizer_name_specials(struct tokenizer *t) {
    for (int i = 0; i < ROBERTA_SPECIALS; i++)
        *(int32_t *)((char *)&t->specials + roberta[i].id) =
            tokenizer_find(t, roberta[i].content);
}

enum status tokenizer_use_roberta(struct tokenizer *t, struct error *err) {
    tokenizer_name_specials(t);
    for (int i = 0; i < ROBERTA_SPECIALS; i++) {
        struct added_token token = {.content = (char *)(uintptr_t)roberta[i].content,
                                    .length = strlen(roberta[i].content),
                                    .lstrip = roberta[i].is_mask,
                                    .normalized = !roberta[i].is_mask,
                                    .special = true};
        if (tokenizer_find(t, token.content) >= 0)
            TRY(tokenizer_add_tokens(t, &token, 1, err));
    }
    if (t->specials.bos >= 0 && t->specials.eos >= 0)
        t->template = (struct template){.present = true,
                                        .cls = t->specials.bos,
                                        .sep = t->specials.eos,
                                        .trim_offsets = true,
                                        .add_prefix_space = t->add_prefix_space};
    return OK;
}

void tokenizer_set_add_prefix_space(struct tokenizer *t, bool add_prefix_space) {
    t->add_prefix_space = add_prefix_space;
    t->template.add_prefix_space = add_prefix_space;
}

void tokenizer_set_invalid_utf8(struct tokenizer *t, enum invalid_utf8 mode) {
    t->invalid_utf8 = mode;
}

enum status tokenizer_add_normalizer(struct tokenizer *t, const char *name,
                                     struct error *err) {
    TRY(normalizer_add(&t->normalizer, name, err));
    return build_added(t, err);
}

int32_t tokenizer_size(const struct tokenizer *t) { return t->vocab.size; }

struct special_ids tokenizer_specials(const struct tokenizer *t) {
    return t->specials;
}

const char *tokenizer_token(const struct tokenizer *t, int32_t id) {
    size_t length;
    return vocab_has(&t->vocab, id) ? vocab_text(&t->vocab, id, &length) : NULL;
}

int32_t tokenizer_find(const struct tokenizer *t, const char *token) {
    return vocab_find(&t->vocab, token, strlen(token));
}

const unsigned char *tokenizer_bytes(const struct tokenizer *t, int32_t id,
                                     size_t *length) {
    return vocab_has(&t->vocab, id) ? vocab_bytes(&t->vocab, id, length) : NULL;
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id) {
    return vocab_is_special(&t->vocab, id);
}

bool tokenizer_begins_word(const struct tokenizer *t, int32_t id) {
    size_t length;
    const unsigned char *bytes = tokenizer_bytes(t, id, &length);
    if (!bytes || tokenizer_is_special(t, id))
        return bytes != NULL;
    return length && (bytes[0] == ' ' || (bytes[0] >= '\t' && bytes[0] <= '\r'));
}

/* Counted when asked: added tokens may have come since loading, and they are reached by
 * being searched, not by merges. */
struct tokenizer_facts tokenizer_facts(const struct tokenizer *t) {
    struct tokenizer_facts facts = t->facts;
    facts.added = (int32_t)t->added.count;
    for (int32_t id = 0; id < t->vocab.size; id++) {
        const struct vocab_entry *e = &t->vocab.entries[id];
        facts.unreachable += e->present && e->mapped && !e->reachable && !e->added;
    }
    facts.unicode = unicode_version;
    return facts;
}

uint64_t tokenizer_fingerprint(const struct tokenizer *t) {
    uint64_t hash = hash_mix((uint64_t)t->add_prefix_space, (uint64_t)t->invalid_utf8);
    hash = hash_mix(hash, hash_bytes(&t->bpe.unk, sizeof t->bpe.unk));
    hash = hash_mix(hash, (uint64_t)t->bpe.fuse_unk);
    for (int i = 0; i < t->normalizer.count; i++)
        hash = hash_mix(hash, (uint64_t)t->normalizer.steps[i]);
    for (int32_t id = 0; id < t->vocab.size; id++) {
        size_t length = 0;
        const char *text =
            vocab_has(&t->vocab, id) ? vocab_text(&t->vocab, id, &length) : "";
        hash = hash_mix(hash, hash_bytes(text, length));
    }
    for (uint32_t i = 0; i < t->bpe.merge_count; i++)
        hash = hash_mix(hash, hash_bytes(&t->bpe.merges[i], sizeof *t->bpe.merges));
    for (size_t i = 0; i < t->added.count; i++) {
        const struct added_token *a = &t->added.tokens[i];
        uint64_t flags = (uint64_t)a->single_word | a->lstrip << 1 | a->rstrip << 2 |
                         a->normalized << 3 | a->special << 4;
        hash = hash_mix(hash, (uint64_t)(uint32_t)a->id << 8 | flags);
    }
    return hash_mix(hash, (uint64_t)t->template.present);
}

struct tokenizer_cache *tokenizer_cache_new(const struct tokenizer *t) {
    struct tokenizer_cache *cache = calloc(1, sizeof *cache);
    struct error err;
    if (cache && words_open(&cache->words, &t->words, CACHE_LOG2_BUCKETS, &err) != OK) {
        free(cache);
        return NULL;
    }
    return cache;
}

void tokenizer_cache_release(struct tokenizer_cache *cache) {
    words_close(&cache->words);
    buffer_free(&cache->prefixed);
    encoding_free(&cache->sides[0]);
    encoding_free(&cache->sides[1]);
}

void tokenizer_cache_free(struct tokenizer_cache *cache) {
    if (cache)
        tokenizer_cache_release(cache);
    free(cache);
}

enum status tokenizer_check_text(const struct tokenizer *t, struct buffer *replaced,
                                 const char **text, size_t *length, struct error *err) {
    if (t->invalid_utf8 == INVALID_UTF8_BYTES)
        return OK;
    const unsigned char *bytes = (const unsigned char *)*text;
    size_t valid = unicode_valid_prefix(bytes, *length);
    if (valid == *length)
        return OK;
    if (t->invalid_utf8 == INVALID_UTF8_ERROR)
        return error_set(err, ERR_INPUT, "byte %zu: expected UTF-8, found 0x%02X", valid,
                         bytes[valid]);
    TRY(unicode_add_lossy(replaced, bytes, *length, err));
    *text = replaced->data;
    *length = replaced->length;
    return OK;
}

enum status tokenizer_prefix(const struct tokenizer *t, struct tokenizer_cache *cache,
                             const struct piece *p, const unsigned char **text,
                             size_t *length, size_t *inserted, struct error *err) {
    *text = p->text;
    *length = p->length;
    *inserted = t->add_prefix_space && p->text[0] != ' ';
    if (!*inserted)
        return OK;
    buffer_clear(&cache->prefixed);
    TRY(buffer_add(&cache->prefixed, " ", 1, err));
    TRY(buffer_add(&cache->prefixed, p->text, p->length, err));
    *text = (const unsigned char *)cache->prefixed.data;
    *length = cache->prefixed.length;
    return OK;
}

/* Where the ids of pieces go. */
struct ids_sink {
    const struct tokenizer *t;
    struct tokenizer_cache *cache;
    struct ids *out;
};

static enum status take_ids(void *self, const struct piece *p, struct error *err) {
    struct ids_sink *s = self;
    if (p->token)
        return ids_add(s->out, &p->token->id, 1, err);
    const unsigned char *text;
    size_t length, inserted;
    TRY(tokenizer_prefix(s->t, s->cache, p, &text, &length, &inserted, err));
    return words_encode(&s->t->words, &s->cache->words, text, length, s->out, err);
}

static enum status encode_uncached(const struct tokenizer *t, const char *text,
                                   size_t length, struct ids *out, struct error *err) {
    struct tokenizer_cache none = {0};
    enum status status = tokenizer_encode(t, &none, text, length, out, err);
    tokenizer_cache_release(&none);
    return status;
}

enum status tokenizer_encode(const struct tokenizer *t, struct tokenizer_cache *cache,
                             const char *text, size_t length, struct ids *out,
                             struct error *err) {
    if (!cache)
        return encode_uncached(t, text, length, out, err);
    struct buffer replaced = {0};
    enum status status = tokenizer_check_text(t, &replaced, &text, &length, err);
    struct ids_sink sink = {t, cache, out};
    if (status == OK) /* a guess, so that a long list does not grow step by step */
        status = ids_reserve(out, length / 3, err);
    if (status == OK)
        status = pieces_cut(&t->added, &t->normalizer, (const unsigned char *)text,
                            length, (struct piece_sink){take_ids, &sink}, err);
    buffer_free(&replaced);
    return status;
}

/* Removes the items from `keep` on of the `count` from `start` on. */
static void cut(struct ids *ids, size_t start, size_t count, size_t keep) {
    size_t end = start + count;
    memmove(ids->items + start + keep, ids->items + end,
            (ids->count - end) * sizeof *ids->items);
    ids->count -= count - keep;
}

enum status tokenizer_encode_pair(const struct tokenizer *t,
                                  struct tokenizer_cache *cache, const char *a,
                                  size_t a_length, const char *b, size_t b_length,
                                  size_t max_length, struct ids *out, struct error *err) {
    const struct template *frame = &t->template;
    int32_t between[2] = {frame->sep, frame->sep};
    size_t one = frame->present, two = 2 * one;
    TRY(ids_add(out, &frame->cls, one, err));
    size_t a_start = out->count;
    TRY(tokenizer_encode(t, cache, a, a_length, out, err));
    size_t a_count = out->count - a_start;
    TRY(ids_add(out, between, b ? two : one, err));
    size_t b_start = out->count;
    if (b) {
        TRY(tokenizer_encode(t, cache, b, b_length, out, err));
    }
    size_t b_count = out->count - b_start;
    TRY(ids_add(out, between, b ? one : 0, err));
    if (!max_length)
        return OK;
    size_t frame_tokens = b ? 2 * two : two;
    size_t max = max_length > frame_tokens ? max_length - frame_tokens : 0;
    size_t a_keep = a_count, b_keep = b_count;
    TRY(truncation_lengths(TRUNCATION_LONGEST_FIRST, max, &a_keep, b ? &b_keep : NULL,
                           err));
    cut(out, b_start, b_count, b_keep);
    cut(out, a_start, a_count, a_keep);
    return OK;
}
