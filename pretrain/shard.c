/* shard - one file of token ids: written once, then mapped.
 *
 * The header is written twice: as zeros first, to hold its place, and at the end with the
 * counts and the checksum. Until then the file has a temporary name, so no reader ever
 * sees a shard without its counts.
 *
 * Reading trusts nothing: magic, version, width, the size that the counts promise and the
 * document index are checked at opening, ids when they are read. The CRC is not: to
 * compute it would read the whole file before the first step. It names the contents for
 * whoever compares (corpus_checksum).
 *
 * u16 where the vocabulary allows it halves the file and what the page cache holds of it:
 * 2 bytes a token, 20 GB for 10^10 tokens. */
#include "pretrain/shard.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARD_VERSION 1

struct header { /* as it lies in the file */
    char magic[8];
    uint32_t version, width;
    uint64_t fingerprint, num_tokens, num_documents;
    uint32_t vocab_size, crc;
    uint64_t zero[2];
};
_Static_assert(sizeof(struct header) == 64, "the header has no holes");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "shards are little-endian");

static const char magic[8] = {'N', 'G', 'T', 'O', 'K', 'E', 'N', 'S'};

static uint64_t padding(uint64_t bytes) { return (8 - bytes % 8) % 8; }

/* ---- reading ---- */

static enum status check_header(const struct header *h, const struct shard *s,
                                struct error *err) {
    if (s->mapping.size < sizeof *h || memcmp(h->magic, magic, sizeof magic) != 0)
        return error_set(err, ERR_INPUT, "%s: no token shard (magic NGTOKENS not found)",
                         s->path);
    if (h->version != SHARD_VERSION)
        return error_set(err, ERR_INPUT, "%s: expected token shard version %d, found %u",
                         s->path, SHARD_VERSION, h->version);
    if ((h->width != 2 && h->width != 4) || h->zero[0] || h->zero[1])
        return error_set(err, ERR_INPUT, "%s: damaged header (%u bytes a token)", s->path,
                         h->width);
    if (h->vocab_size == 0 || h->vocab_size > INT32_MAX ||
        (h->width == 2 && h->vocab_size > 65536))
        return error_set(err, ERR_INPUT, "%s: damaged header (%u ids in %u bytes)",
                         s->path, h->vocab_size, h->width);
    return OK;
}

/* The file's size must be what the header promises; counts are bounded first, so that no
 * product wraps. */
static enum status check_size(const struct header *h, const struct shard *s,
                              struct error *err) {
    const uint64_t size = s->mapping.size, most = size / 2;
    uint64_t promised = UINT64_MAX;
    if (h->num_tokens <= most && h->num_documents <= most) {
        const uint64_t bytes = h->num_tokens * h->width;
        promised = sizeof *h + bytes + padding(bytes) + h->num_documents * 8;
    }
    if (promised == size)
        return OK;
    return error_set(err, ERR_INPUT,
                     "%s: %" PRIu64 " bytes do not hold the %" PRIu64
                     " tokens and %" PRIu64 " documents of its header",
                     s->path, size, h->num_tokens, h->num_documents);
}

static enum status check_documents(const struct shard *s, struct error *err) {
    for (uint64_t d = 0; d < s->num_documents; d++)
        if (s->documents[d] >= s->num_tokens ||
            (d > 0 && s->documents[d] <= s->documents[d - 1]))
            return error_set(err, ERR_INPUT,
                             "%s: document %" PRIu64 " begins at token %" PRIu64
                             ": expected ascending places below %" PRIu64,
                             s->path, d, s->documents[d], s->num_tokens);
    return OK;
}

static enum status parse(struct shard *s, struct error *err) {
    struct header h = {0};
    if (s->mapping.size >= sizeof h)
        memcpy(&h, s->mapping.data, sizeof h);
    TRY(check_header(&h, s, err));
    TRY(check_size(&h, s, err));
    const uint64_t bytes = h.num_tokens * h.width;
    s->tokens = s->mapping.data + sizeof h;
    s->documents = (const void *)(s->mapping.data + sizeof h + bytes + padding(bytes));
    s->width = h.width;
    s->vocab_size = h.vocab_size;
    s->crc = h.crc;
    s->fingerprint = h.fingerprint;
    s->num_tokens = h.num_tokens;
    s->num_documents = h.num_documents;
    return check_documents(s, err);
}

enum status shard_open(struct shard *s, const char *path, struct error *err) {
    memset(s, 0, sizeof *s);
    snprintf(s->path, sizeof s->path, "%s", path);
    TRY(file_map(&s->mapping, path, err));
    const enum status status = parse(s, err);
    if (status != OK)
        shard_close(s);
    return status;
}

enum status shard_read(const struct shard *s, uint64_t first, uint64_t count,
                       int32_t *out, struct error *err) {
    assert(first <= s->num_tokens && count <= s->num_tokens - first);
    uint32_t largest = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t id = s->width == 2 ? ((const uint16_t *)s->tokens)[first + i]
                                          : ((const uint32_t *)s->tokens)[first + i];
        largest = id > largest ? id : largest;
        out[i] = (int32_t)id;
    }
    if (largest < s->vocab_size)
        return OK;
    return error_set(err, ERR_INPUT,
                     "%s: id %u among tokens %" PRIu64 "..%" PRIu64
                     ": expected ids below %u",
                     s->path, largest, first, first + count - 1, s->vocab_size);
}

void shard_close(struct shard *s) {
    file_unmap(&s->mapping);
    s->num_tokens = s->num_documents = 0;
}

/* ---- writing ---- */

enum status shard_writer_open(struct shard_writer *w, const char *path,
                              uint64_t fingerprint, int32_t vocab_size,
                              struct error *err) {
    *w = (struct shard_writer){.fingerprint = fingerprint,
                               .width = vocab_size <= 65536 ? 2 : 4,
                               .vocab_size = (uint32_t)vocab_size};
    TRY(writer_open(&w->file, path, err));
    const struct header nothing = {0};
    return writer_write(w->file, &nothing, sizeof nothing, err);
}

enum status shard_writer_document(struct shard_writer *w, struct error *err) {
    if (w->num_documents == w->capacity) {
        const uint64_t more = w->capacity ? 2 * w->capacity : 1024;
        uint64_t *grown = realloc(w->documents, more * sizeof *grown);
        if (!grown)
            return error_set(err, ERR_MEMORY, "out of memory for %" PRIu64 " documents",
                             more);
        w->documents = grown;
        w->capacity = more;
    }
    w->documents[w->num_documents++] = w->num_tokens;
    return OK;
}

/* Writes bytes that the checksum covers: all but the header. */
static enum status put(struct shard_writer *w, const void *bytes, size_t length,
                       struct error *err) {
    w->crc = file_crc32c(w->crc, bytes, length);
    return writer_write(w->file, bytes, length, err);
}

enum status shard_writer_add(struct shard_writer *w, const int32_t *ids, uint64_t count,
                             struct error *err) {
    uint16_t narrow[4096];
    w->num_tokens += count;
    if (w->width == 4)
        return put(w, ids, count * sizeof *ids, err);
    while (count) {
        const uint64_t n = count < 4096 ? count : 4096;
        for (uint64_t i = 0; i < n; i++)
            narrow[i] = (uint16_t)ids[i];
        TRY(put(w, narrow, n * sizeof *narrow, err));
        ids += n;
        count -= n;
    }
    return OK;
}

enum status shard_writer_commit(struct shard_writer *w, struct error *err) {
    TRY(put(w, (const char[8]){0}, padding(w->num_tokens * w->width), err));
    TRY(put(w, w->documents, w->num_documents * sizeof *w->documents, err));
    struct header h = {.version = SHARD_VERSION,
                       .width = w->width,
                       .fingerprint = w->fingerprint,
                       .num_tokens = w->num_tokens,
                       .num_documents = w->num_documents,
                       .vocab_size = w->vocab_size,
                       .crc = w->crc};
    memcpy(h.magic, magic, sizeof magic);
    TRY(writer_overwrite(w->file, 0, &h, sizeof h, err));
    return writer_commit(w->file, err);
}

void shard_writer_close(struct shard_writer *w) {
    writer_close(w->file);
    free(w->documents);
    *w = (struct shard_writer){0};
}
