/* corpus_build - text files to token shards: the work behind corpus_prepare.
 *
 * The text is cut at ends of lines into chunks, which go round a ring:
 *
 *   read       in order, one thread at a time
 *   encoded    by any thread, with its own cache of words
 *   written    in order, one thread at a time
 *
 * Every thread does in turn whatever is due: write the next chunk if it is encoded, else
 * read another and encode it. Nobody waits while there is such work, so reading and
 * writing overlap with encoding. The bytes on disk do not depend on the threads, the
 * first error is that of the first bad line, and memory is that of the ring: some MB,
 * unless a single line is longer.
 *
 * Where documents begin depends on the line before, so the reader notes for each chunk
 * whether one is open where it begins. */
#include "pretrain/corpus_build.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/interrupt.h"

/* Of text; a longer line is a chunk of its own. */
#define CHUNK_BYTES ((size_t)256 << 10)
#define CHUNKS_A_THREAD 4
#define MOST_LINE_BYTES ((size_t)1 << 30)

/* Some whole lines of one file and what became of them. */
struct chunk {
    const char *path;
    uint64_t bytes_read; /* on disk up to the end of the chunk, for progress */
    bool begins_file;
    bool joins_files; /* a blank line goes before it, where none ends the file before */
    bool in_document; /* the line before it is not blank */
    bool done;        /* encoded, or not to be for an error */
    struct buffer text;
    int64_t num_lines; /* encoded; with an error the last is the bad one */
    struct ids ids;
    size_t *documents; /* owned: where in `ids` documents begin */
    size_t num_documents, documents_capacity;
    struct error err;
};

struct builder {
    const struct corpus_source *source;
    const struct tokenizer *tokenizer;
    int32_t eos;
    struct progress *progress;

    /* Guards what follows up to `chunks`; chunks themselves belong to who works on them.
     */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool reading, writing, all_read;
    uint64_t num_read, num_written; /* chunks so far */
    enum status status;             /* of the first failure, which ends the work */
    struct error *err;
    struct chunk *chunks; /* owned: the ring */
    uint64_t num_chunks;

    /* Of the thread that reads. */
    int next_file;
    struct reader *reader; /* NULL between files */
    struct buffer rest;    /* read, but behind the last whole line of the chunk */
    uint64_t bytes_before; /* of the files already read */
    bool after_text;       /* the last line so far was not blank */

    /* Of the thread that writes. */
    struct shard_writer writer;
    bool has_shard;
    int64_t file_lines; /* of the file, before the chunk */
    struct corpus_built built;
};

/* ---- files into chunks ---- */

/* Nothing but ASCII white space, as in the published forms of WikiText. */
static bool is_blank(const char *line, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (line[i] != ' ' && !(line[i] >= '\t' && line[i] <= '\r'))
            return false;
    return true;
}

static bool ends_with_text(const struct buffer *text) {
    size_t end = text->length - (text->data[text->length - 1] == '\n');
    const char *newline = end ? memrchr(text->data, '\n', end) : NULL;
    size_t start = newline ? (size_t)(newline - text->data) + 1 : 0;
    return !is_blank(text->data + start, end - start);
}

/* Whole lines into the chunk, what follows them into the rest. */
static enum status read_lines(struct builder *b, struct chunk *c, struct error *err) {
    size_t got = 1, whole = 0;
    buffer_clear(&c->text);
    TRY(buffer_add(&c->text, b->rest.data, b->rest.length, err));
    buffer_clear(&b->rest);
    for (size_t more = CHUNK_BYTES; got && !whole; more = c->text.length) {
        if (c->text.length > MOST_LINE_BYTES)
            return error_set(err, ERR_INPUT, "%s: a line longer than 1 GiB", c->path);
        TRY(buffer_reserve(&c->text, more, err));
        TRY(reader_read(b->reader, c->text.data + c->text.length, more, &got, err));
        c->text.length += got;
        const char *newline = memrchr(c->text.data, '\n', c->text.length);
        whole = newline ? (size_t)(newline - c->text.data) + 1 : 0;
    }
    if (!whole) /* the last line of the file has no end */
        return OK;
    TRY(buffer_add(&b->rest, c->text.data + whole, c->text.length - whole, err));
    c->text.length = whole;
    return OK;
}

static void close_file(struct builder *b) {
    b->bytes_before += b->reader ? reader_bytes(b->reader) : 0;
    reader_close(b->reader);
    b->reader = NULL;
}

/* The next chunk of the files; without text behind the last one. */
static enum status read_chunk(struct builder *b, struct chunk *c, struct error *err) {
    buffer_clear(&c->text);
    while (c->text.length == 0) {
        c->begins_file = !b->reader;
        if (!b->reader && b->next_file == b->source->num_files)
            return OK;
        if (!b->reader)
            TRY(reader_open(&b->reader, b->source->files[b->next_file++], err));
        c->path = b->source->files[b->next_file - 1];
        TRY(read_lines(b, c, err));
        c->bytes_read = b->bytes_before + reader_bytes(b->reader);
        if (c->text.length == 0)
            close_file(b);
    }
    c->joins_files = c->begins_file && b->after_text;
    c->in_document = b->after_text && !c->begins_file;
    b->after_text = ends_with_text(&c->text);
    return OK;
}

/* ---- chunks into ids ---- */

static enum status add_document(struct chunk *c) {
    if (c->num_documents == c->documents_capacity) {
        const size_t capacity = 2 * c->documents_capacity + 64;
        size_t *documents = realloc(c->documents, capacity * sizeof *documents);
        if (!documents)
            return error_set(&c->err, ERR_MEMORY, "out of memory for %zu documents",
                             capacity);
        c->documents = documents;
        c->documents_capacity = capacity;
    }
    c->documents[c->num_documents++] = c->ids.count;
    return OK;
}

static enum status encode_line(const struct builder *b, struct chunk *c,
                               struct tokenizer_cache *cache, const char *line,
                               size_t length, bool *in_document) {
    const bool blank = is_blank(line, length);
    c->num_lines++;
    if (!blank && !*in_document)
        TRY(add_document(c));
    *in_document = !blank;
    if (!blank)
        TRY(tokenizer_encode(b->tokenizer, cache, line, length, &c->ids, &c->err));
    TRY(ids_reserve(&c->ids, 1, &c->err));
    c->ids.items[c->ids.count++] = b->eos;
    return OK;
}

static enum status encode_chunk(const struct builder *b, struct chunk *c,
                                struct tokenizer_cache *cache) {
    const char *line = c->text.data, *end = line + c->text.length;
    bool in_document = c->in_document;
    c->ids.count = c->num_documents = 0;
    c->num_lines = 0;
    if (c->joins_files) {
        TRY(ids_add(&c->ids, &b->eos, 1, &c->err));
    }
    while (line < end) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t length = (size_t)((newline ? newline : end) - line);
        const size_t next = length + (newline != NULL);
        length -= newline && length && line[length - 1] == '\r';
        TRY(encode_line(b, c, cache, line, length, &in_document));
        line += next;
    }
    return OK;
}

/* ---- ids onto disk ---- */

static enum status close_shard(struct builder *b, struct error *err) {
    if (!b->has_shard)
        return OK;
    b->has_shard = false;
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
    b->has_shard = true;
    return shard_writer_open(&b->writer, path, tokenizer_fingerprint(b->tokenizer),
                             tokenizer_size(b->tokenizer), err);
}

static enum status write_ids(struct builder *b, const struct chunk *c,
                             struct error *err) {
    const uint64_t limit =
        b->source->shard_tokens ? b->source->shard_tokens : CORPUS_SHARD_TOKENS;
    if (b->has_shard && b->writer.num_tokens + c->ids.count > limit)
        TRY(close_shard(b, err));
    if (!b->has_shard)
        TRY(open_shard(b, err));
    size_t done = 0;
    for (size_t d = 0; d < c->num_documents; d++) {
        TRY(shard_writer_add(&b->writer, c->ids.items + done, c->documents[d] - done,
                             err));
        TRY(shard_writer_document(&b->writer, err));
        done = c->documents[d];
    }
    b->built.num_lines += (uint64_t)c->num_lines + c->joins_files;
    return shard_writer_add(&b->writer, c->ids.items + done, c->ids.count - done, err);
}

/* The next chunk in order, or the error that it met. */
static enum status write_chunk(struct builder *b, struct chunk *c, struct error *err) {
    if (c->begins_file)
        b->file_lines = 0;
    if (c->err.status != OK) {
        *err = c->err;
        return c->num_lines ? error_context(err, "%s:%" PRId64, c->path,
                                            b->file_lines + c->num_lines)
                            : err->status;
    }
    b->file_lines += c->num_lines;
    TRY(write_ids(b, c, err));
    char detail[48];
    const uint64_t tokens = b->built.num_tokens + b->writer.num_tokens;
    snprintf(detail, sizeof detail, "%.2fM tokens", (double)tokens / 1e6);
    progress_update(b->progress, c->bytes_read, detail);
    const enum status stop = interrupt_stop();
    return stop == OK ? OK : error_set(err, stop, "stopped by a signal in the text");
}

/* ---- what the threads do; they hold the lock but for the work itself ---- */

static struct chunk *chunk_at(const struct builder *b, uint64_t number) {
    return &b->chunks[number % b->num_chunks];
}

static bool can_write(const struct builder *b) {
    return !b->writing && b->num_written < b->num_read &&
           chunk_at(b, b->num_written)->done;
}

static bool can_read(const struct builder *b) {
    return !b->reading && !b->all_read && b->num_read - b->num_written < b->num_chunks;
}

static bool is_over(const struct builder *b) {
    return b->status != OK || (b->all_read && b->num_written == b->num_read);
}

static void fail(struct builder *b, const struct error *err) {
    if (b->status == OK)
        *b->err = *err;
    b->status = b->err->status;
}

static void write_next(struct builder *b) {
    struct error err;
    b->writing = true;
    pthread_mutex_unlock(&b->lock);
    const enum status status = write_chunk(b, chunk_at(b, b->num_written), &err);
    pthread_mutex_lock(&b->lock);
    b->writing = false;
    b->num_written++;
    if (status != OK)
        fail(b, &err);
}

/* Reads a chunk and encodes it; what fails is told when its turn to be written comes. */
static void read_next(struct builder *b, struct tokenizer_cache *cache) {
    struct chunk *c = chunk_at(b, b->num_read);
    b->reading = true;
    pthread_mutex_unlock(&b->lock);
    c->done = false;
    c->num_lines = 0;
    c->err.status = read_chunk(b, c, &c->err);
    const bool is_text = c->err.status == OK && c->text.length > 0;
    pthread_mutex_lock(&b->lock);
    b->reading = false;
    b->all_read = !is_text;
    b->num_read += is_text || c->err.status != OK;
    pthread_cond_broadcast(&b->changed);
    if (is_text) {
        pthread_mutex_unlock(&b->lock);
        c->err.status = encode_chunk(b, c, cache);
        pthread_mutex_lock(&b->lock);
    }
    c->done = true;
}

static void work(struct builder *b, struct tokenizer_cache *cache) {
    while (!is_over(b)) {
        if (can_write(b))
            write_next(b);
        else if (can_read(b))
            read_next(b, cache);
        else {
            pthread_cond_wait(&b->changed, &b->lock);
            continue;
        }
        pthread_cond_broadcast(&b->changed);
    }
}

static void work_as_thread(struct builder *b) {
    struct tokenizer_cache *cache = tokenizer_cache_new(b->tokenizer);
    struct error err;
    pthread_mutex_lock(&b->lock);
    if (cache) {
        work(b, cache);
    } else {
        error_set(&err, ERR_MEMORY, "out of memory for tokenising %s", b->source->name);
        fail(b, &err);
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    tokenizer_cache_free(cache);
}

/* ---- the whole ---- */

static enum status open_builder(struct builder *b, struct error *err) {
    const struct corpus_source *s = b->source;
    uint64_t total = 0;
    for (int i = 0; i < s->num_files; i++) {
        struct stat info;
        total += stat(s->files[i], &info) == 0 ? (uint64_t)info.st_size : 0;
    }
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    b->err = err;
    b->num_chunks = CHUNKS_A_THREAD * (uint64_t)s->threads;
    b->chunks = calloc(b->num_chunks, sizeof *b->chunks);
    if (!b->chunks)
        return error_set(err, ERR_MEMORY, "out of memory for tokenising %s", s->name);
    char label[64];
    snprintf(label, sizeof label, "tokenising %s", s->name);
    b->progress = progress_open(s->progress, label, "bytes", total);
    return OK;
}

static void close_builder(struct builder *b) {
    close_file(b);
    progress_close(b->progress);
    if (b->has_shard)
        shard_writer_close(&b->writer);
    for (uint64_t i = 0; b->chunks && i < b->num_chunks; i++) {
        buffer_free(&b->chunks[i].text);
        ids_free(&b->chunks[i].ids);
        free(b->chunks[i].documents);
    }
    free(b->chunks);
    buffer_free(&b->rest);
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
}

enum status corpus_build(const struct corpus_source *source,
                         const struct tokenizer *tokenizer, struct corpus_built *built,
                         struct error *err) {
    struct builder b = {.source = source, .tokenizer = tokenizer};
    b.eos = tokenizer_specials(tokenizer).eos;
    assert(source->threads > 0 && b.eos >= 0);
    enum status status = open_builder(&b, err);
    if (status == OK) {
#pragma omp parallel num_threads(source->threads)
        work_as_thread(&b);
        status = b.status;
    }
    if (status == OK)
        status = close_shard(&b, err);
    *built = b.built;
    close_builder(&b);
    return status;
}
