/* packing - cuts a corpus into sequences of at most `length` tokens.
 *
 * Sentence modes read the row once, from </s> to </s>. A </s> right after another one is
 * a blank line: it is no sentence, it marks the end of a document. Only the place where
 * each sequence begins is kept; reading one out repeats the same rules from there, so
 * packer and reader must agree: copy_window() is the mirror image of pack_window().
 *
 * Two passes instead of one list of sequences: the first counts (num_sequences decides
 * how long an epoch is), the second, packing_read, is asked for one sequence at a time in
 * a shuffled order. 8 bytes a sequence are 160 MB for 20 million sequences; the tokens
 * stay in the mapped shards.
 *
 * The state of the first pass is the open sequence's fill, whether a document ended
 * before the sentence at hand, and where that sentence began:
 *
 *   fits, same document    joins
 *   fits, next document    joins after one more </s>; doc-sentences: begins a sequence
 *   does not fit           begins a sequence; longer than one, it is broken over several
 */
#include "pretrain/packing.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 4096 /* tokens looked at in one go */

enum packing_mode packing_mode_of(const char *word) {
    return strcmp(word, "fixed-blocks") == 0    ? PACKING_FIXED_BLOCKS
           : strcmp(word, "doc-sentences") == 0 ? PACKING_DOC_SENTENCES
                                                : PACKING_FULL_SENTENCES;
}

/* ---- sentence modes: where sequences begin ---- */

struct packer {
    struct packing *p;
    uint64_t sentence; /* where the sentence being read begins */
    bool broken;       /* a document ended before it */
    int64_t filled;    /* tokens of the open sequence, <s> included; 1 = none yet */
};

static enum status add_start(struct packing *p, uint64_t start, struct error *err) {
    if (p->num_sequences + 1 >= p->capacity) { /* room for the end too */
        const uint64_t capacity = p->capacity ? 2 * p->capacity : 1024;
        uint64_t *grown = realloc(p->starts, capacity * sizeof *grown);
        if (!grown)
            return error_set(err, ERR_MEMORY, "out of memory for %" PRIu64 " sequences",
                             capacity);
        p->starts = grown;
        p->capacity = capacity;
    }
    p->starts[p->num_sequences++] = start;
    return OK;
}

/* A sentence of n tokens that fits no open sequence: one or more of its own. */
static enum status begin_sequences(struct packer *k, uint64_t first, uint64_t n,
                                   struct error *err) {
    struct packing *p = k->p;
    const uint64_t room = (uint64_t)p->length - 1;
    TRY(add_start(p, first, err));
    while (n > room) {
        p->tokens_used += room;
        first += room;
        n -= room;
        if (n == 1) { /* only </s> is left: dropped, and the sequence is full */
            k->filled = p->length;
            return OK;
        }
        TRY(add_start(p, first, err));
    }
    p->tokens_used += n;
    k->filled = 1 + (int64_t)n;
    return OK;
}

/* A sentence of n tokens (with its </s>) joins the open sequence, or begins the next. */
static enum status add_sentence(struct packer *k, uint64_t n, struct error *err) {
    struct packing *p = k->p;
    const bool crosses = k->broken && k->filled > 1;
    const uint64_t room = (uint64_t)(p->length - k->filled);
    if (k->filled == 1 || n + crosses > room ||
        (crosses && p->mode == PACKING_DOC_SENTENCES))
        return begin_sequences(k, k->sentence, n, err);
    p->tokens_used += n + crosses;
    k->filled += (int64_t)n + crosses;
    return OK;
}

/* The tokens first .. first + count - 1 of the row. */
static enum status pack_window(struct packer *k, const int32_t *ids, uint64_t first,
                               uint64_t count, struct error *err) {
    for (uint64_t i = 0; i < count; i++) {
        if (ids[i] != k->p->corpus->eos)
            continue;
        const uint64_t length = first + i + 1 - k->sentence;
        if (length > 1)
            TRY(add_sentence(k, length, err));
        k->broken = length == 1;
        k->sentence = first + i + 1;
    }
    return OK;
}

/* The row in windows: sentences may cross them, `sentence` remembers where they began. */
static enum status pack_sentences(struct packing *p, struct error *err) {
    struct packer k = {.p = p, .filled = 1};
    int32_t ids[WINDOW];
    const uint64_t total = p->corpus->num_tokens;
    for (uint64_t first = 0; first < total; first += WINDOW) {
        const uint64_t count = total - first < WINDOW ? total - first : WINDOW;
        TRY(corpus_read(p->corpus, first, count, ids, err));
        TRY(pack_window(&k, ids, first, count, err));
    }
    if (p->num_sequences)
        p->starts[p->num_sequences] = total;
    return OK;
}

/* ---- opening ---- */

static enum status pack(struct packing *p, const char *name, struct error *err) {
    const uint64_t block = (uint64_t)p->length - 1, total = p->corpus->num_tokens;
    if (p->mode == PACKING_FIXED_BLOCKS) {
        p->num_sequences = total / block;
        p->tokens_used = p->num_sequences * block;
    } else {
        TRY(pack_sentences(p, err));
    }
    p->tokens_dropped = total - p->tokens_used;
    if (p->num_sequences)
        return OK;
    return error_set(err, ERR_INPUT,
                     "%s data: its %" PRIu64
                     " tokens do not fill one sequence of %" PRId64
                     "; give more text or a smaller --max-seq-length",
                     name, total, p->length);
}

enum status packing_open(struct packing *p, const struct corpus *corpus, const char *name,
                         enum packing_mode mode, int64_t length, struct error *err) {
    assert(length >= 3);
    *p = (struct packing){.corpus = corpus, .mode = mode, .length = length};
    const enum status status = pack(p, name, err);
    if (status != OK)
        packing_close(p);
    return status;
}

void packing_close(struct packing *p) {
    free(p->starts);
    *p = (struct packing){0};
}

/* ---- reading ---- */

/* A sequence being copied out. */
struct copy {
    int32_t *out;
    int64_t count;
    bool at_sentence, broken; /* a sentence begins here; a document ended before it */
};

/* A </s> where a sentence should begin is a blank line: it is written only if a sentence
 * follows within the sequence, as the packer counted it. */
static void copy_window(const struct packing *p, struct copy *c, const int32_t *ids,
                        uint64_t count) {
    const int32_t eos = p->corpus->eos;
    for (uint64_t i = 0; i < count && c->count < p->length; i++) {
        if (ids[i] == eos && c->at_sentence) {
            c->broken = c->count > 1;
            continue;
        }
        if (c->broken && c->count + 1 < p->length)
            c->out[c->count++] = eos;
        c->broken = false;
        c->out[c->count++] = ids[i];
        c->at_sentence = ids[i] == eos;
    }
}

static enum status read_sentences(const struct packing *p, uint64_t index, int32_t *out,
                                  int64_t *count, struct error *err) {
    struct copy c = {.out = out, .count = *count, .at_sentence = true};
    int32_t ids[WINDOW];
    const uint64_t end = p->starts[index + 1];
    for (uint64_t at = p->starts[index]; at < end && c.count < p->length;) {
        const uint64_t left = (uint64_t)(p->length - c.count) + 2; /* blanks are likely */
        uint64_t n = end - at < left ? end - at : left;
        n = n < WINDOW ? n : WINDOW;
        TRY(corpus_read(p->corpus, at, n, ids, err));
        copy_window(p, &c, ids, n);
        at += n;
    }
    *count = c.count;
    return OK;
}

enum status packing_read(const struct packing *p, uint64_t index, int32_t *out,
                         int64_t *count, struct error *err) {
    assert(index < p->num_sequences);
    out[0] = p->corpus->bos;
    *count = 1;
    if (p->mode != PACKING_FIXED_BLOCKS)
        return read_sentences(p, index, out, count, err);
    *count = p->length;
    const uint64_t block = (uint64_t)p->length - 1;
    return corpus_read(p->corpus, index * block, block, out + 1, err);
}
