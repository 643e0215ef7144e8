/* file_reader - bytes or lines from a plain file, a gzip file (RFC 1952, members may
 * follow each other) or stdin.
 *
 * Two buffers: `raw` as it is on disk, `text` unpacked. A plain file needs only `text`.
 *
 *   file --read--> raw --inflate--> text --memchr--> line
 *   file --read--> raw = text                              plain: the buffers swap
 *
 * zlib's inflate and not its gzread, which says neither where a fault is nor that
 * something else follows the last member. A line is copied once, into a buffer that grows
 * to the longest; everything before it is in fixed buffers of 128 KiB. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"

enum { CHUNK = 1 << 17 };                       /* bytes read at a time */
static const size_t MAX_LINE = (size_t)1 << 30; /* bytes */

struct reader {
    int file;
    char *path;
    uint64_t consumed, total; /* bytes of the file on disk */
    unsigned char *raw, *text;
    size_t raw_at, raw_end, text_at, text_end;
    bool is_raw_over; /* the file has no more bytes */
    bool is_gzip, is_inside_member, has_stream;
    z_stream stream;
    struct buffer line;
    int64_t line_number;
    bool line_was_ended;
};

/* Up to `size` bytes of the disk file; *got grows by what came. */
static enum status read_raw(struct reader *r, unsigned char *out, size_t size,
                            size_t *got, struct error *err) {
    ssize_t n;
    do
        n = read(r->file, out, size);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_system(err, r->path, "cannot read");
    r->is_raw_over = n == 0;
    r->consumed += (uint64_t)n;
    *got += (size_t)n;
    return OK;
}

/* More bytes of the disk file behind those that `raw` still holds. */
static enum status fill_raw(struct reader *r, struct error *err) {
    memmove(r->raw, r->raw + r->raw_at, r->raw_end - r->raw_at);
    r->raw_end -= r->raw_at;
    r->raw_at = 0;
    return read_raw(r, r->raw + r->raw_end, CHUNK - r->raw_end, &r->raw_end, err);
}

static enum status damaged(const struct reader *r, const char *why, struct error *err) {
    return error_set(err, ERR_INPUT, "%s: damaged gzip file near byte %llu: %s", r->path,
                     (unsigned long long)(r->consumed - (r->raw_end - r->raw_at)), why);
}

/* At the border of two members: goes into the next one, or reports the end. Zero bytes
 * behind the last member are padding, as gzip(1) has it. */
static enum status next_member(struct reader *r, bool *is_end, struct error *err) {
    for (;;) {
        while (r->raw_at < r->raw_end && r->raw[r->raw_at] == 0)
            r->raw_at++;
        if (r->raw_at < r->raw_end || r->is_raw_over)
            break;
        TRY(fill_raw(r, err));
    }
    *is_end = r->raw_at == r->raw_end;
    if (!*is_end && inflateReset2(&r->stream, 15 + 16) != Z_OK)
        return damaged(r, "cannot start a member", err);
    r->is_inside_member = !*is_end;
    return OK;
}

static enum status inflate_some(struct reader *r, struct error *err) {
    if (r->raw_at == r->raw_end && !r->is_raw_over)
        TRY(fill_raw(r, err));
    if (r->raw_at == r->raw_end)
        return damaged(r, "expected more data, found the end of the file", err);
    r->stream.next_in = r->raw + r->raw_at;
    r->stream.avail_in = (uInt)(r->raw_end - r->raw_at);
    r->stream.next_out = r->text;
    r->stream.avail_out = CHUNK;
    const int code = inflate(&r->stream, Z_NO_FLUSH);
    r->raw_at = r->raw_end - r->stream.avail_in;
    r->text_end = CHUNK - r->stream.avail_out;
    if (code == Z_STREAM_END)
        r->is_inside_member = false;
    else if (code == Z_MEM_ERROR)
        return error_set(err, ERR_MEMORY, "%s: out of memory", r->path);
    else if (code != Z_OK && code != Z_BUF_ERROR)
        return damaged(r, r->stream.msg ? r->stream.msg : "bad data", err);
    return OK;
}

static enum status fill_gzip(struct reader *r, struct error *err) {
    bool is_end = false;
    while (r->text_end == 0 && !is_end) {
        if (!r->is_inside_member)
            TRY(next_member(r, &is_end, err));
        if (r->is_inside_member)
            TRY(inflate_some(r, err));
    }
    return OK;
}

/* More unpacked bytes into an empty `text`; text_end stays 0 at the end. */
static enum status fill_text(struct reader *r, struct error *err) {
    r->text_at = r->text_end = 0;
    if (r->is_gzip)
        return fill_gzip(r, err);
    if (r->raw_at == r->raw_end && !r->is_raw_over)
        TRY(fill_raw(r, err));
    unsigned char *swap = r->text; /* the raw bytes are the text */
    r->text = r->raw;
    r->raw = swap;
    r->text_at = r->raw_at;
    r->text_end = r->raw_end;
    r->raw_at = r->raw_end = 0;
    return OK;
}

static enum status open_path(struct reader *r, struct error *err) {
    struct stat info;
    if (strcmp(r->path, "-") == 0) {
        r->file = STDIN_FILENO;
        r->total = fstat(r->file, &info) == 0 && S_ISREG(info.st_mode)
                       ? (uint64_t)info.st_size
                       : 0;
        return OK;
    }
    TRY(file_open(&r->file, &info, r->path, err));
    r->total = (uint64_t)info.st_size;
    return OK;
}

static enum status allocate(struct reader *r, const char *path, struct error *err) {
    r->path = strdup(path);
    r->raw = malloc(CHUNK);
    r->text = malloc(CHUNK);
    if (!r->path || !r->raw || !r->text)
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    return OK;
}

static enum status start(struct reader *r, const char *path, struct error *err) {
    TRY(allocate(r, path, err));
    TRY(open_path(r, err));
    while (r->raw_end < 2 && !r->is_raw_over) /* a pipe may give one byte at a time */
        TRY(fill_raw(r, err));
    r->is_gzip = r->raw_end >= 2 && r->raw[0] == 0x1f && r->raw[1] == 0x8b;
    if (!r->is_gzip)
        return OK;
    if (inflateInit2(&r->stream, 15 + 16) != Z_OK)
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    r->has_stream = true;
    return OK;
}

enum status reader_open(struct reader **r, const char *path, struct error *err) {
    *r = calloc(1, sizeof **r);
    if (!*r)
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    (*r)->file = -1;
    const enum status status = start(*r, path, err);
    if (status != OK) {
        reader_close(*r);
        *r = NULL;
    }
    return status;
}

enum status reader_read(struct reader *r, void *out, size_t size, size_t *got,
                        struct error *err) {
    *got = 0;
    while (*got < size) {
        if (r->text_at == r->text_end && !r->is_gzip && r->raw_at == r->raw_end &&
            size - *got >= CHUNK && !r->is_raw_over) {
            TRY(read_raw(r, (unsigned char *)out + *got, size - *got, got, err));
            continue;
        }
        if (r->text_at == r->text_end)
            TRY(fill_text(r, err));
        if (r->text_at == r->text_end)
            break;
        size_t n = r->text_end - r->text_at;
        n = n < size - *got ? n : size - *got;
        memcpy((char *)out + *got, r->text + r->text_at, n);
        r->text_at += n;
        *got += n;
    }
    return OK;
}

enum status reader_line(struct reader *r, char **line, size_t *length,
                        struct error *err) {
    bool is_any = false;
    buffer_clear(&r->line);
    r->line_was_ended = false;
    while (!r->line_was_ended) {
        if (r->text_at == r->text_end)
            TRY(fill_text(r, err));
        if (r->text_at == r->text_end)
            break;
        is_any = true;
        const unsigned char *from = r->text + r->text_at;
        const size_t have = r->text_end - r->text_at;
        const unsigned char *newline = memchr(from, '\n', have);
        const size_t n = newline ? (size_t)(newline - from) : have;
        if (r->line.length + n > MAX_LINE)
            return error_set(err, ERR_INPUT, "%s:%lld: a line longer than 1 GiB", r->path,
                             (long long)r->line_number + 1);
        TRY(buffer_add(&r->line, from, n, err));
        r->text_at += n + (newline != NULL);
        r->line_was_ended = newline != NULL;
    }
    r->line_number += is_any;
    *line = is_any ? r->line.data : NULL;
    *length = r->line.length;
    return OK;
}

bool reader_line_was_ended(const struct reader *r) { return r->line_was_ended; }

bool reader_line_ready(const struct reader *r) {
    const size_t have = r->text_end - r->text_at;
    if ((have && memchr(r->text + r->text_at, '\n', have)) || r->raw_at < r->raw_end ||
        r->is_raw_over || r->total)
        return true;
    struct pollfd waiting = {.fd = r->file, .events = POLLIN};
    return poll(&waiting, 1, 0) != 0;
}

int64_t reader_line_number(const struct reader *r) { return r->line_number; }

uint64_t reader_bytes(const struct reader *r) { return r->consumed; }

uint64_t reader_total(const struct reader *r) { return r->total; }

const char *reader_path(const struct reader *r) { return r->path; }

void reader_close(struct reader *r) {
    if (!r)
        return;
    if (r->has_stream)
        inflateEnd(&r->stream);
    if (r->file > STDIN_FILENO)
        close(r->file);
    buffer_free(&r->line);
    free(r->raw);
    free(r->text);
    free(r->path);
    free(r);
}

enum status reader_check(const char *const *paths, int path_count, uint64_t *total,
                         struct error *err) {
    bool is_known = true;
    *total = 0;
    for (int i = 0; i < path_count; i++) {
        is_known = is_known && strcmp(paths[i], "-") != 0;
        if (strcmp(paths[i], "-") == 0) /* opening reads its first bytes */
            continue;
        struct reader *reader;
        TRY(reader_open(&reader, paths[i], err));
        *total += reader_total(reader);
        reader_close(reader);
    }
    if (!is_known)
        *total = 0;
    return OK;
}
