/* tokenizer_load - a tokenizer from its files or from a training.
 *
 *   tokenizer.json             says everything; the other files add roles and flags
 *   vocab.json + merges.txt    the model; RoBERTa's added tokens and template follow from
 *                              the names <s> </s> <pad> <unk> <mask> being in it
 *   dict.txt beside them       fairseq: vocab.json is GPT-2's, a line is an id
 *   a training                 as if its files had been written and read again
 *
 * Every way fills an empty tokenizer and frees it when a step fails, so that a caller
 * gets a whole one or none. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tokenizer/config_files.h"
#include "tokenizer/image.h"
#include "tokenizer/parts.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/vocab_file.h"

static enum status no_memory(struct error *err) {
    return error_set(err, ERR_MEMORY, "out of memory for a tokenizer");
}

/* Frees what was half made. */
static enum status settle(struct tokenizer **t, enum status status) {
    if (status != OK) {
        tokenizer_free(*t);
        *t = NULL;
    }
    return status;
}

static enum status fill_files(struct tokenizer *t, const char *vocab, const char *merges,
                              struct error *err) {
    TRY(vocab_file_read(&t->vocab, vocab, err));
    bpe_init(&t->bpe, &t->vocab);
    TRY(vocab_file_read_merges(&t->bpe, &t->vocab, merges, err));
    return tokenizer_ready(t, err);
}

enum status tokenizer_load_files(struct tokenizer **t, const char *vocab,
                                 const char *merges, struct error *err) {
    *t = tokenizer_new();
    if (!*t)
        return no_memory(err);
    enum status status = fill_files(*t, vocab, merges, err);
    if (status == OK)
        status = tokenizer_use_roberta(*t, err);
    return settle(t, status);
}

static enum status fill_fairseq(struct tokenizer *t, const char *dict, const char *vocab,
                                const char *merges, struct error *err) {
    struct vocab gpt2 = {0};
    enum status status = vocab_file_read(&gpt2, vocab, err);
    if (status == OK)
        status = vocab_file_read_dict(&t->vocab, &gpt2, dict, err);
    vocab_free(&gpt2);
    TRY(status);
    bpe_init(&t->bpe, &t->vocab);
    TRY(vocab_file_read_merges(&t->bpe, &t->vocab, merges, err));
    return tokenizer_ready(t, err);
}

enum status tokenizer_load_fairseq(struct tokenizer **t, const char *dict,
                                   const char *vocab, const char *merges,
                                   struct error *err) {
    *t = tokenizer_new();
    if (!*t)
        return no_memory(err);
    enum status status = fill_fairseq(*t, dict, vocab, merges, err);
    if (status == OK)
        status = tokenizer_use_roberta(*t, err);
    return settle(t, status);
}

/* Special tokens are added with plain flags first; RoBERTa's five then get RoBERTa's. */
static enum status fill_trained(struct tokenizer *t, const struct bpe_trained *trained,
                                struct error *err) {
    size_t length;
    TRY(vocab_reserve(&t->vocab, (size_t)trained->size, err));
    for (int32_t id = 0; id < trained->size; id++) {
        const char *text = bpe_trained_token(trained, id, &length);
        TRY(vocab_add(&t->vocab, text, length, id, err));
    }
    bpe_init(&t->bpe, &t->vocab);
    for (int32_t i = 0; i < trained->merge_count; i++) {
        const struct trained_merge *m = &trained->merges[i];
        TRY(bpe_add_merge_of(&t->bpe, &t->vocab, m->left, m->right, err));
    }
    TRY(tokenizer_ready(t, err));
    for (int32_t id = 0; id < trained->special_count; id++) {
        const char *text = vocab_text(&t->vocab, id, &length);
        struct added_token token = {
            .content = (char *)(uintptr_t)text, .length = length, .special = true};
        TRY(tokenizer_add_tokens(t, &token, 1, err));
    }
    return tokenizer_use_roberta(t, err);
}

enum status tokenizer_from_trained(struct tokenizer **t,
                                   const struct bpe_trained *trained, struct error *err) {
    *t = tokenizer_new();
    return *t ? settle(t, fill_trained(*t, trained, err)) : no_memory(err);
}

/* The files a directory may hold, each with its other name. */
struct layout {
    char tokenizer_json[PATH_BYTES], dict[PATH_BYTES];
    char vocab[PATH_BYTES], merges[PATH_BYTES];
};

static enum status find(char path[PATH_BYTES], const char *directory, const char *name,
                        const char *other_name, struct error *err) {
    TRY(file_join(path, directory, name, err));
    if (file_exists(path))
        return OK;
    char other[PATH_BYTES];
    TRY(file_join(other, directory, other_name, err));
    if (file_exists(other))
        memcpy(path, other, PATH_BYTES);
    return OK;
}

static enum status find_files(struct layout *l, const char *directory,
                              struct error *err) {
    if (!file_is_directory(directory))
        return error_set(err, ERR_INPUT,
                         "%s: expected a directory with a tokenizer's files, found %s",
                         directory, file_exists(directory) ? "a file" : "nothing");
    TRY(file_join(l->tokenizer_json, directory, "tokenizer.json", err));
    TRY(file_join(l->dict, directory, "dict.txt", err));
    TRY(find(l->vocab, directory, "vocab.json", "encoder.json", err));
    TRY(find(l->merges, directory, "merges.txt", "vocab.bpe", err));
    if (file_exists(l->tokenizer_json) ||
        (file_exists(l->vocab) && file_exists(l->merges)))
        return OK;
    return error_set(
        err, ERR_INPUT,
        "%s: expected tokenizer.json, or vocab.json and merges.txt, found %s", directory,
        file_exists(l->vocab)    ? "vocab.json alone"
        : file_exists(l->merges) ? "merges.txt alone"
                                 : "none of them");
}

/* All that fill_directory() may read, whether it is there or not. */
enum { SOURCES = 4 + CONFIG_FILES };
static enum status list_sources(char paths[SOURCES][PATH_BYTES], const struct layout *l,
                                const char *directory, struct error *err) {
    memcpy(paths[0], l->tokenizer_json, PATH_BYTES);
    memcpy(paths[1], l->dict, PATH_BYTES);
    memcpy(paths[2], l->vocab, PATH_BYTES);
    memcpy(paths[3], l->merges, PATH_BYTES);
    for (int i = 0; i < CONFIG_FILES; i++)
        TRY(file_join(paths[4 + i], directory, config_files_name(i), err));
    return OK;
}

/* tokenizer.json first, as in transformers: it says all that the other two say. */
static enum status fill_directory(struct tokenizer *t, const struct layout *l,
                                  const char *directory, struct error *err) {
    if (file_exists(l->tokenizer_json)) {
        TRY(tokenizer_json_read(t, l->tokenizer_json, err));
    } else {
        if (file_exists(l->dict))
            TRY(fill_fairseq(t, l->dict, l->vocab, l->merges, err));
        else
            TRY(fill_files(t, l->vocab, l->merges, err));
        TRY(tokenizer_use_roberta(t, err));
    }
    return config_files_read(t, directory, err);
}

/* From the image that an earlier load of the same files has left, or from the files. */
static enum status load(struct tokenizer *t, const struct layout *l,
                        const char *directory, struct error *err) {
    char(*paths)[PATH_BYTES] = malloc(SOURCES * sizeof *paths);
    const char *list[SOURCES];
    struct image image;
    if (!paths)
        return no_memory(err);
    enum status status = list_sources(paths, l, directory, err);
    for (int i = 0; i < SOURCES; i++)
        list[i] = paths[i];
    const bool may_have = status == OK && image_find(&image, list, SOURCES);
    if (status == OK && !(may_have && image_read(&image, t))) {
        status = fill_directory(t, l, directory, err);
        if (status == OK && may_have)
            image_write(&image, t, list, SOURCES);
    }
    free(paths);
    return status;
}

/* What loads all the same, but may surprise: public vocabularies have both. */
static void report(const struct tokenizer *t, const char *directory,
                   const struct notices *notices) {
    const struct tokenizer_facts *f = &t->facts;
    if (f->gaps)
        notice(notices, "%s: %d of %d ids are no token (harmless)", directory, f->gaps,
               t->vocab.size);
    if (f->missing_bytes)
        notice(notices,
               "%s: %d of the 256 bytes are no token; text with them is encoded %s "
               "(check this)",
               directory, f->missing_bytes,
               t->bpe.unk >= 0 ? "as the unknown token" : "without them");
}

enum status tokenizer_load(struct tokenizer **t, const char *directory,
                           const struct notices *notices, struct error *err) {
    *t = NULL;
    struct layout *layout = malloc(sizeof *layout);
    if (!layout)
        return no_memory(err);
    enum status status = find_files(layout, directory, err);
    if (status == OK && !(*t = tokenizer_new()))
        status = no_memory(err);
    if (status == OK)
        status = settle(t, load(*t, layout, directory, err));
    free(layout);
    if (status == OK)
        report(*t, directory, notices);
    return status;
}
