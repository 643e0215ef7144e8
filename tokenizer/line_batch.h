/* line_batch - lines of several files in reading order, a batch at a time, so that
 * threads can share them. */
#ifndef TOKENIZER_LINE_BATCH_H
#define TOKENIZER_LINE_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"

struct batch_line {
    size_t start, length; /* in the batch's text, without the newline */
    bool was_ended;       /* a '\n' follows it there */
    const char *path;
    int64_t number; /* from 1 */
};

struct line_batch {
    const char *const *paths; /* "-" is stdin */
    int path_count, next_path;
    struct reader *reader; /* NULL between files */
    struct buffer text;
    struct batch_line *lines; /* owned */
    size_t count;             /* count is 0 after the last batch */
    uint64_t bytes_before;    /* on disk, of the files before this one */
};

/* Replaces what the batch holds by the next lines: about 1 MiB, fewer when no more have
 * arrived on a pipe or terminal. Start with the paths set and the rest zero. */
enum status line_batch_next(struct line_batch *b, struct error *err) MUST_CHECK;
/* Bytes on disk read so far. */
uint64_t line_batch_done(const struct line_batch *b);
void line_batch_close(struct line_batch *b);

#endif
