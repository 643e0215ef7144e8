/* corpus_build - text files to token shards: the work behind corpus_prepare.
 *
 * A round is up to CHUNKS_A_THREAD chunks a thread of lines. While the threads encode one
 * (each with its own cache of words), the first of them writes the ids of the round
 * before and reads the round after, in order, then helps. So the bytes on disk do not
 * depend on the threads, the first error is that of the first bad line, and memory is
 * that of two rounds: some MB, unless a single line is longer.
 *
 * Where documents begin is decided while reading, because it depends on the line before;
 * where that is among the ids is known after encoding.
 *
 *   lines -> chunks -> rounds      read in order, 256 KiB of text a chunk, 4 a thread
 *   chunks -> ids                  each on its own, by any thread
 *   ids -> shards                  in order; a shard ends between two chunks
 *
 * A shard that would pass its limit is ended before the chunk, not inside it: a chunk's
 * documents then lie in one shard, and limits are for the size of files only. */
#include "pretrain/corpus_build.h"

#include <assert.h>
#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/interrupt.h"

/* Of text; a longer line is a chunk of its own. */
#define CHUNK_BYTES ((size_t)256 << 10)
#define CHUNKS_A_THREAD 4

struct line {
    size_t offset, length;
    int64_t number; /* in its file, from 1; 0 = not in the file */
    bool starts_document;
};

/* Some lines of one file and what became of them. */
struct chunk {
    const char *path;
    struct buffer text;
    struct line *lines; /* owned */
    size_t num_lines, lines_capacity;
    struct ids ids;
    size_t *documents; /* owned: where in `ids` documents begin; as long as `lines` */
    size_t num_documents;
    struct error err;
};

struct round {
    struct chunk *chunks; /* owned */
    int count;            /* filled; 0 after the last file */
};

struct builder {
    const struct corpus_source *source;
    const struct tokenizer *tokenizer;
    int32_t eos;
    struct tokenizer_cache **caches; /* one a thread */
    struct round rounds[2];
    int num_chunks; /* room of a round */
    struct progress *progress;
    int next_file;
    struct reader *reader; /* NULL between files */
    uint64_t bytes_before; /* of the files already read */
    bool after_text;       /* the last line so far was not blank */
    struct shard_writer writer;
    bool writing;
    struct corpus_built built;
};

/* ---- lines into chunks ---- */

/* Nothing but ASCII white space, as in the published forms of WikiText. */
static bool is_blank(const char *line, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (line[i] != ' ' && !(line[i] >= '\t' && line[i] <= '\r'))
            return false;
    return true;
}

static enum status reserve_line(struct chunk *c, struct error *err) {
    if (c->num_lines < c->lines_capacity)
        return OK;
    const size_t capacity = c->lines_capacity ? 2 * c->lines_capacity : 1024;
    struct line *lines = realloc(c->lines, capacity * sizeof *lines);
    if (lines)
        c->lines = lines;
    size_t *documents = realloc(c->documents, capacity * sizeof *documents);
    if (documents)
        c->documents = documents;
    if (!lines || !documents)
        return error_set(err, ERR_MEMORY, "out of memory for %zu lines", capacity);
    c->lines_capacity = capacity;
    return OK;
}

static enum status add_line(struct builder *b, struct chunk *c, const char *text,
                            size_t length, int64_t number, struct error *err) {
    const bool blank = is_blank(text, length);
    TRY(reserve_line(c, err));
    c->lines[c->num_lines++] = (struct line){.offset = c->text.length,
                                             .length = blank ? 0 : length,
                                             .number = number,
                                             .starts_document = !blank && !b->after_text};
    b->after_text = !blank;
    return blank ? OK : buffer_add(&c->text, text, length, err);
}

/* Lines of the open file until the chunk is full; an empty chunk means its end. */
static enum status fill_chunk(struct builder *b, struct chunk *c, struct error *err) {
    c->path = b->source->files[b->next_file - 1];
    c->num_lines = 0;
    buffer_clear(&c->text);
    while (c->text.length < CHUNK_BYTES && c->num_lines < CHUNK_BYTES) {
        char *line;
        size_t length;
        TRY(reader_line(b->reader, &line, &length, err));
        if (!line)
            break;
        const int64_t number = reader_line_number(b->reader);
        if (number == 1 && b->after_text) /* the file before ended without a blank line */
            TRY(add_line(b, c, "", 0, 0, err));
        if (length && line[length - 1] == '\r' && reader_line_was_ended(b->reader))
            length--;
        TRY(add_line(b, c, line, length, number, err));
    }
    return OK;
}

static void close_file(struct builder *b) {
    b->bytes_before += b->reader ? reader_bytes(b->reader) : 0;
    reader_close(b->reader);
    b->reader = NULL;
}

/* The next chunks of the files. */
static enum status fill_round(struct builder *b, struct round *r, struct error *err) {
    r->count = 0;
    while (r->count < b->num_chunks) {
        if (!b->reader && b->next_file == b->source->num_files)
            return OK;
        if (!b->reader)
            TRY(reader_open(&b->reader, b->source->files[b->next_file++], err));
        TRY(fill_chunk(b, &r->chunks[r->count], err));
        if (r->chunks[r->count].num_lines == 0)
            close_file(b);
        else
            r->count++;
    }
    return OK;
}

/* ---- chunks into ids ---- */

static enum status encode_chunk(const struct builder *b, struct chunk *c,
                                struct tokenizer_cache *cache) {
    c->ids.count = c->num_documents = 0;
    for (size_t i = 0; i < c->num_lines; i++) {
        const struct line *l = &c->lines[i];
        if (l->starts_document)
            c->documents[c->num_documents++] = c->ids.count;
        if (l->length && tokenizer_encode(b->tokenizer, cache, c->text.data + l->offset,
                                          l->length, &c->ids, &c->err) != OK)
            return error_context(&c->err, "%s:%" PRId64, c->path, l->number);
        TRY(ids_reserve(&c->ids, 1, &c->err));
        c->ids.items[c->ids.count++] = b->eos;
    }
    return OK;
}

/* ---- ids onto disk ---- */

static enum status close_shard(struct builder *b, struct error *err) {
    if (!b->writing)
        return OK;
    b->writing = false;
    b->built.num_tokens += b->writer.num_tokens;
    b->built.num_documents += b->writer.num_documents;
    b->built.num_shards++;
    const enum status status = shard_writer_commit(&b->writer, err);
    shard_writer_close(&b->writer);
    return status;
}

static enum status open_shard(struct builder *b, struct error *err) {
    char path[PATH_BYTES];
    TRY(corpus_shard_path(path, b->source->directory, b->source->name,
                          b->built.num_shards, err));
    b->writing = true;
    return shard_writer_open(&b->writer, path, tokenizer_fingerprint(b->tokenizer),
                             tokenizer_size(b->tokenizer), err);
}

/* The ids of a chunk in stretches from document to document, as the writer notes the
 * place where one begins. */
static enum status write_chunk(struct builder *b, const struct chunk *c,
                               struct error *err) {
    const uint64_t limit =
        b->source->shard_tokens ? b->source->shard_tokens : CORPUS_SHARD_TOKENS;
    if (b->writing && b->writer.num_tokens + c->ids.count > limit)
        TRY(close_shard(b, err));
    if (!b->writing)
        TRY(open_shard(b, err));
    size_t done = 0;
    for (size_t d = 0; d < c->num_documents; d++) {
        TRY(shard_writer_add(&b->writer, c->ids.items + done, c->documents[d] - done,
                             err));
        TRY(shard_writer_document(&b->writer, err));
        done = c->documents[d];
    }
    b->built.num_lines += c->num_lines;
    return shard_writer_add(&b->writer, c->ids.items + done, c->ids.count - done, err);
}

static enum status write_round(struct builder *b, const struct round *r,
                               struct error *err) {
    for (int i = 0; i < r->count; i++)
        TRY(write_chunk(b, &r->chunks[i], err));
    char detail[48];
    const uint64_t tokens = b->built.num_tokens + b->writer.num_tokens;
    snprintf(detail, sizeof detail, "%.2fM tokens", (double)tokens / 1e6);
    progress_update(b->progress,
                    b->bytes_before + (b->reader ? reader_bytes(b->reader) : 0), detail);
    const enum status stop = interrupt_stop();
    return stop == OK ? OK : error_set(err, stop, "stopped by a signal in the text");
}

/* ---- the whole ---- */

/* Encodes `now` with all threads; meanwhile writes `other` and fills it anew. */
static void work_on(struct builder *b, struct round *now, struct round *other,
                    struct error *write_error, struct error *read_error) {
#pragma omp parallel num_threads(b->source->threads)
#pragma omp single
    {
        for (int i = 0; i < now->count; i++) {
            struct chunk *c = &now->chunks[i];
#pragma omp task
            c->err.status = encode_chunk(b, c, b->caches[omp_get_thread_num()]);
        }
        write_error->status = write_round(b, other, write_error);
        read_error->status =
            write_error->status == OK ? fill_round(b, other, read_error) : OK;
    }
}

/* One round; its errors in the order of the text, whichever thread met them. */
static enum status step(struct builder *b, struct round *now, struct round *other,
                        struct error *err) {
    struct error write_error, read_error;
    work_on(b, now, other, &write_error, &read_error);
    const struct error *first = write_error.status != OK ? &write_error : NULL;
    for (int i = 0; !first && i < now->count; i++)
        first = now->chunks[i].err.status != OK ? &now->chunks[i].err : NULL;
    if (!first && read_error.status != OK)
        first = &read_error;
    if (!first)
        return OK;
    *err = *first;
    return err->status;
}

static enum status build(struct builder *b, struct error *err) {
    struct round *now = &b->rounds[0], *other = &b->rounds[1];
    TRY(fill_round(b, now, err));
    while (now->count > 0) {
        TRY(step(b, now, other, err));
        struct round *encoded = now;
        now = other;
        other = encoded;
    }
    TRY(write_round(b, other, err));
    return close_shard(b, err);
}

static enum status open_builder(struct builder *b, struct error *err) {
    const struct corpus_source *s = b->source;
    uint64_t total = 0;
    for (int i = 0; i < s->num_files; i++) {
        struct stat info;
        total += stat(s->files[i], &info) == 0 ? (uint64_t)info.st_size : 0;
    }
    b->num_chunks = CHUNKS_A_THREAD * s->threads;
    b->caches = calloc((size_t)s->threads, sizeof *b->caches);
    bool complete = b->caches;
    for (int i = 0; i < 2; i++) {
        b->rounds[i].chunks = calloc((size_t)b->num_chunks, sizeof *b->rounds[i].chunks);
        complete = complete && b->rounds[i].chunks;
    }
    for (int i = 0; complete && i < s->threads; i++)
        complete = (b->caches[i] = tokenizer_cache_new(b->tokenizer)) != NULL;
    if (!complete)
        return error_set(err, ERR_MEMORY, "out of memory for tokenising %s", s->name);
    char label[64];
    snprintf(label, sizeof label, "tokenising %s", s->name);
    b->progress = progress_open(s->progress, label, "bytes", total);
    return OK;
}

static void close_round(const struct builder *b, struct round *r) {
    for (int i = 0; r->chunks && i < b->num_chunks; i++) {
        buffer_free(&r->chunks[i].text);
        ids_free(&r->chunks[i].ids);
        free(r->chunks[i].lines);
        free(r->chunks[i].documents);
    }
    free(r->chunks);
}

static void close_builder(struct builder *b) {
    close_file(b);
    progress_close(b->progress);
    if (b->writing)
        shard_writer_close(&b->writer);
    for (int i = 0; b->caches && i < b->source->threads; i++)
        tokenizer_cache_free(b->caches[i]);
    close_round(b, &b->rounds[0]);
    close_round(b, &b->rounds[1]);
    free(b->caches);
}

enum status corpus_build(const struct corpus_source *source,
                         const struct tokenizer *tokenizer, struct corpus_built *built,
                         struct error *err) {
    struct builder b = {.source = source, .tokenizer = tokenizer};
    b.eos = tokenizer_specials(tokenizer).eos;
    assert(source->threads > 0 && b.eos >= 0);
    enum status status = open_builder(&b, err);
    if (status == OK)
        status = build(&b, err);
    *built = b.built;
    close_builder(&b);
    return status;
}
