/* corpus - text files of any number and size as one long row of token ids on disk.
 *
 * This file decides whether shards on disk can be used again, and reads them; making them
 * is corpus_build.c. The manifest `<name>.json` is written last, so a set of shards that
 * a kill left half made has no manifest, or an older one whose checksum is not that of
 * the shards.
 *
 *   {"format": 1, "tokenizer": "<fingerprint>", "invalid_utf8": 0, "shard_tokens": 0,
 *    "files": [{"path", "size", "changed"}, ...],              what they were made of
 *    "shards": 2, "checksum": "...", "tokens": n, "documents": n}   what they are
 *
 * Text files are told by path, size and time of change: to read terabytes again to know
 * that nothing changed would cost what the shards are to save. The shards themselves are
 * told by their CRC, which each header holds and which resuming compares. */
#include "pretrain/corpus.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json_file.h"
#include "pretrain/corpus_build.h"

#define MANIFEST_FORMAT 1

enum status corpus_shard_path(char path[PATH_BYTES], const char *directory,
                              const char *name, int shard, struct error *err) {
    char file[128];
    snprintf(file, sizeof file, "%.100s-%05d.tokens", name, shard);
    return file_join(path, directory, file, err);
}

/* ---- the manifest: what the shards were made of ---- */

static enum status manifest_path(char path[PATH_BYTES], const struct corpus_source *s,
                                 struct error *err) {
    char file[128];
    snprintf(file, sizeof file, "%.100s.json", s->name);
    return file_join(path, s->directory, file, err);
}

static json_t *describe_file(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0)
        return json_pack("{ss}", "path", path);
    const int64_t changed =
        (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    return json_pack("{ss sI sI}", "path", path, "size", (json_int_t)info.st_size,
                     "changed", (json_int_t)changed);
}

/* Everything that the ids depend on. NULL when out of memory. */
static json_t *describe_source(const struct corpus_source *s, const struct tokenizer *t) {
    char fingerprint[24];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, tokenizer_fingerprint(t));
    json_t *files = json_array();
    for (int i = 0; i < s->num_files; i++)
        if (json_array_append_new(files, describe_file(s->files[i])) != 0) {
            json_decref(files);
            return NULL;
        }
    return json_pack("{si ss si sI so}", "format", MANIFEST_FORMAT, "tokenizer",
                     fingerprint, "invalid_utf8", (int)s->invalid_utf8, "shard_tokens",
                     (json_int_t)s->shard_tokens, "files", files);
}

/* What of `wanted` is not in `found`, in words; NULL = the same. */
static const char *difference(const json_t *found, const json_t *wanted) {
    static const struct {
        const char *key, *words;
    } rows[] = {{"format", "they are of another version"},
                {"tokenizer", "the tokenizer is another"},
                {"invalid_utf8", "--invalid-utf8 is another"},
                {"shard_tokens", "the size of a shard is another"},
                {"files", "the files are others or have changed"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!json_equal(json_object_get(found, rows[i].key),
                        json_object_get(wanted, rows[i].key)))
            return rows[i].words;
    return NULL;
}

/* ---- reuse ---- */

/* What came through a pipe cannot be compared with what will come. */
static bool reads_stdin(const struct corpus_source *s) {
    for (int i = 0; i < s->num_files; i++)
        if (strcmp(s->files[i], "-") == 0)
            return true;
    return false;
}

/* The shards of an earlier run, if they are what would be made now; else `why` says what
 * is the matter. */
static enum status open_manifest(struct corpus *c, const struct corpus_source *s,
                                 const struct tokenizer *t, const json_t *wanted,
                                 const char *path, struct error *why) {
    json_t *found;
    TRY(json_file_read(&found, path, why));
    const char *other = difference(found, wanted);
    int64_t shards = 0;
    char checksum[24] = "";
    const char *recorded = NULL;
    enum status status =
        other ? error_set(why, ERR_INPUT, "%s", other)
              : json_file_integer(found, path, "shards", 1, 99999, 1, &shards, why);
    if (status == OK)
        status = corpus_open(c, s->directory, s->name, (int)shards, t, why);
    if (status == OK) {
        snprintf(checksum, sizeof checksum, "%016" PRIx64, corpus_checksum(c));
        status = json_file_string(found, path, "checksum", "", &recorded, why);
        if (status == OK && strcmp(checksum, recorded) != 0)
            status = error_set(why, ERR_INPUT, "the shards are not those of %s", path);
        if (status != OK)
            corpus_close(c);
    }
    json_decref(found);
    return status;
}

/* ---- making ---- */

/* Adds what the shards are to what they were made of, and writes both. */
static enum status write_manifest(const struct corpus *c, json_t *description,
                                  const char *path, struct error *err) {
    char checksum[24];
    snprintf(checksum, sizeof checksum, "%016" PRIx64, corpus_checksum(c));
    json_t *counts = json_pack("{si ss sI sI}", "shards", c->num_shards, "checksum",
                               checksum, "tokens", (json_int_t)c->num_tokens, "documents",
                               (json_int_t)c->num_documents);
    const bool complete = counts && json_object_update(description, counts) == 0;
    json_decref(counts);
    if (!complete)
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    return json_file_write(description, path, err);
}

/* Shards of an earlier, larger corpus of the same name. */
static void remove_surplus(const struct corpus_source *s, int first) {
    struct error ignored;
    char path[PATH_BYTES];
    for (int i = first; corpus_shard_path(path, s->directory, s->name, i, &ignored) == OK;
         i++)
        if (unlink(path) != 0)
            return;
}

static enum status make(struct corpus *c, const struct corpus_source *s,
                        const struct tokenizer *t, json_t *description, const char *path,
                        struct error *err) {
    struct corpus_built built;
    TRY(file_remove_stale(s->directory, err)); /* of a run killed while writing */
    TRY(corpus_build(s, t, &built, err));
    if (built.num_documents == 0)
        return error_set(err, ERR_INPUT, "%s%s: no text to make %s data of", s->files[0],
                         s->num_files > 1 ? " and others" : "", s->name);
    remove_surplus(s, built.num_shards);
    TRY(corpus_open(c, s->directory, s->name, built.num_shards, t, err));
    const enum status status = write_manifest(c, description, path, err);
    if (status != OK)
        corpus_close(c);
    return status;
}

/* Length of the shortest leading part of `path` that is no folder yet. */
static size_t first_missing(const char *path) {
    char part[PATH_BYTES];
    size_t length = strlen(path);
    for (size_t i = 1; i < length && i < sizeof part; i++) {
        if (path[i] != '/')
            continue;
        snprintf(part, sizeof part, "%.*s", (int)i, path);
        if (!file_is_directory(part))
            return i;
    }
    return file_is_directory(path) ? length + 1 : length;
}

/* make() in a folder that leaves with the failure if it came for it and is empty. */
static enum status make_in_directory(struct corpus *c, const struct corpus_source *s,
                                     const struct tokenizer *t, json_t *description,
                                     const char *path, struct error *err) {
    char made[PATH_BYTES];
    const size_t first = first_missing(s->directory);
    TRY(file_make_directory(s->directory, err));
    const enum status status = make(c, s, t, description, path, err);
    snprintf(made, sizeof made, "%s", s->directory);
    for (size_t i = strlen(made); status != OK && i >= first; i--)
        if (made[i] == '\0' || made[i] == '/') {
            made[i] = '\0';
            if (rmdir(made) != 0)
                break;
        }
    return status;
}

enum status corpus_prepare(struct corpus *c, const struct corpus_source *s,
                           const struct tokenizer *t, const struct notices *notices,
                           struct error *err) {
    char path[PATH_BYTES];
    *c = (struct corpus){0};
    TRY(manifest_path(path, s, err));
    json_t *description = describe_source(s, t);
    if (!description)
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    struct error why = {.status = ERR_FAILED};
    if (file_exists(path) && !reads_stdin(s) &&
        open_manifest(c, s, t, description, path, &why) != OK)
        notice(notices, "%s: token shards are made anew: %s", s->directory, why.text);
    enum status status = OK;
    if (!c->shards)
        status = make_in_directory(c, s, t, description, path, err);
    else
        notice(notices, "%s: token shards of %s data reused", s->directory, s->name);
    json_decref(description);
    return status;
}

/* ---- reading ---- */

static enum status open_shards(struct corpus *c, const char *directory, const char *name,
                               const struct tokenizer *t, struct error *err) {
    for (int i = 0; i < c->num_shards; i++) {
        struct shard *s = &c->shards[i];
        char path[PATH_BYTES];
        TRY(corpus_shard_path(path, directory, name, i, err));
        TRY(shard_open(s, path, err));
        if (s->fingerprint != tokenizer_fingerprint(t) ||
            s->vocab_size != (uint32_t)c->vocab_size)
            return error_set(err, ERR_INPUT, "%s: made with another tokenizer", path);
        c->num_tokens += s->num_tokens;
        c->num_documents += s->num_documents;
    }
    return OK;
}

enum status corpus_open(struct corpus *c, const char *directory, const char *name,
                        int num_shards, const struct tokenizer *t, struct error *err) {
    const struct special_ids specials = tokenizer_specials(t);
    *c = (struct corpus){.num_shards = num_shards,
                         .vocab_size = tokenizer_size(t),
                         .bos = specials.bos,
                         .eos = specials.eos};
    c->shards = calloc((size_t)num_shards, sizeof *c->shards);
    if (!c->shards)
        return error_set(err, ERR_MEMORY, "out of memory for %d shards", num_shards);
    const enum status status = open_shards(c, directory, name, t, err);
    if (status != OK)
        corpus_close(c);
    return status;
}

/* Shards are few and large, so the one that holds `first` is found by walking. */
enum status corpus_read(const struct corpus *c, uint64_t first, uint64_t count,
                        int32_t *out, struct error *err) {
    assert(first <= c->num_tokens && count <= c->num_tokens - first);
    for (int i = 0; i < c->num_shards && count; i++) {
        const struct shard *s = &c->shards[i];
        if (first >= s->num_tokens) {
            first -= s->num_tokens;
            continue;
        }
        const uint64_t here =
            s->num_tokens - first < count ? s->num_tokens - first : count;
        TRY(shard_read(s, first, here, out, err));
        out += here;
        count -= here;
        first = 0;
    }
    return OK;
}

/* Shards carry the CRC of their contents, so this costs nothing. */
uint64_t corpus_checksum(const struct corpus *c) {
    uint32_t crc = 0;
    for (int i = 0; i < c->num_shards; i++)
        crc = file_crc32c(crc, &c->shards[i].crc, sizeof c->shards[i].crc);
    return c->num_tokens << 32 ^ c->num_documents << 16 ^ crc;
}

void corpus_close(struct corpus *c) {
    for (int i = 0; i < c->num_shards && c->shards; i++)
        shard_close(&c->shards[i]);
    free(c->shards);
    *c = (struct corpus){0};
}
