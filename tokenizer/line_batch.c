/* line_batch - lines of several files in reading order, a batch at a time.
 *
 * A batch is large enough to keep threads busy and small enough to stay in the cache. On
 * a pipe it ends where nothing more has arrived yet, so that a filter answers at once.
 *
 * Lines are copied into one text with their newlines, so that threads share plain memory
 * and u16 and u32 can encode a line with the newline it ended with. */
#include "tokenizer/line_batch.h"

#include <stdlib.h>

static const size_t BATCH_BYTES = (size_t)1 << 20, BATCH_LINES = (size_t)1 << 14;

static enum status reserve(struct line_batch *b, struct error *err) {
    if (b->lines)
        return OK;
    b->lines = malloc(BATCH_LINES * sizeof b->lines[0]);
    if (!b->lines)
        return error_set(err, ERR_MEMORY, "out of memory for %zu lines", BATCH_LINES);
    return OK;
}

static void close_file(struct line_batch *b) {
    if (b->reader)
        b->bytes_before += reader_bytes(b->reader);
    reader_close(b->reader);
    b->reader = NULL;
}

static enum status add_line(struct line_batch *b, const char *line, size_t length,
                            struct error *err) {
    b->lines[b->count++] = (struct batch_line){
        .start = b->text.length,
        .length = length,
        .was_ended = reader_line_was_ended(b->reader),
        .path = b->paths[b->next_path - 1],
        .number = reader_line_number(b->reader),
    };
    TRY(buffer_add(&b->text, line, length, err));
    return buffer_add(&b->text, "\n", 1, err);
}

/* Full, or the next line would have to be waited for. */
static bool is_full(const struct line_batch *b) {
    if (b->text.length >= BATCH_BYTES || b->count == BATCH_LINES)
        return true;
    return b->count > 0 && b->reader && !reader_line_ready(b->reader);
}

enum status line_batch_next(struct line_batch *b, struct error *err) {
    TRY(reserve(b, err));
    b->count = 0;
    buffer_clear(&b->text);
    while (!is_full(b)) {
        if (!b->reader && b->next_path == b->path_count)
            return OK;
        if (!b->reader)
            TRY(reader_open(&b->reader, b->paths[b->next_path++], err));
        char *line;
        size_t length;
        TRY(reader_line(b->reader, &line, &length, err));
        if (line)
            TRY(add_line(b, line, length, err));
        else
            close_file(b);
    }
    return OK;
}

uint64_t line_batch_done(const struct line_batch *b) {
    return b->bytes_before + (b->reader ? reader_bytes(b->reader) : 0);
}

void line_batch_close(struct line_batch *b) {
    reader_close(b->reader);
    buffer_free(&b->text);
    free(b->lines);
    *b = (struct line_batch){0};
}
