/* text_blocks - files as a stream of blocks that can be pre-tokenised on their own.
 *
 * A block ends after a '\n', at the end of a file or, inside a long line, before a space
 * that stands between an ASCII letter or digit and an ASCII letter: there the
 * pre-tokenizer cuts whatever follows. Only where a line offers no such place does a
 * block grow beyond its usual size, up to 1 GiB. Threads take blocks in turn. */
#ifndef TOKENIZER_TEXT_BLOCKS_H
#define TOKENIZER_TEXT_BLOCKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"

struct text_block {
    struct buffer text;
    bool begins_line;  /* false: goes on inside a line */
    uint64_t sequence; /* from 0 */
    const char *path;
    uint64_t offset; /* of its first byte in the (unpacked) file */
};

struct text_blocks {
    const char *const *paths; /* "-" is stdin */
    int path_count, next_path;
    struct reader *reader; /* NULL between files */
    struct buffer rest;    /* read but not yet given */
    bool begins_line;
    uint64_t sequence, offset;
    uint64_t bytes_before, bytes_total; /* on disk, for progress; total 0 = unknown */
    pthread_mutex_t lock;
    bool is_stopped; /* after a failure no block follows */
    struct progress *progress;
};

/* Checks that every file can be opened. `paths` must outlive it. */
enum status text_blocks_open(struct text_blocks *b, const char *const *paths,
                             int path_count, struct error *err) MUST_CHECK;
/* The next block, after which at least `padding` bytes are readable; *found is false at
 * the end. Safe to call from several threads. A file that begins with a byte-order mark
 * of UTF-16 or UTF-32 is ERR_INPUT. */
enum status text_blocks_next(struct text_blocks *b, struct text_block *block,
                             size_t padding, bool *found, struct error *err) MUST_CHECK;
/* No more blocks for anyone. */
void text_blocks_stop(struct text_blocks *b);
void text_blocks_close(struct text_blocks *b);

#endif
