/* text_blocks - files as a stream of blocks that can be pre-tokenised on their own.
 *
 * Why a block may end before such a space: what stands before it, a letter or digit, ends
 * its pre-token there whatever follows, because a space is in no run of letters or
 * digits; no contraction holds one; and as no whitespace precedes it, no rule looks at
 * what follows a run of spaces. The space itself joins the letter behind it, which is
 * what it does at the start of a text too. UTF-8 is never cut, all three being ASCII.
 *
 * Reading is done under the lock by the thread that asks, so the others go on counting
 * while one reads or unpacks. */
#include "tokenizer/text_blocks.h"

#include <string.h>

enum { BLOCK_BYTES = 1 << 18 };
static const size_t MOST_BYTES = (size_t)1 << 30;

enum status text_blocks_open(struct text_blocks *b, const char *const *paths,
                             int path_count, struct error *err) {
    *b = (struct text_blocks){.paths = paths, .path_count = path_count};
    pthread_mutex_init(&b->lock, NULL);
    return reader_check(paths, path_count, &b->bytes_total, err);
}

void text_blocks_close(struct text_blocks *b) {
    reader_close(b->reader);
    buffer_free(&b->rest);
    pthread_mutex_destroy(&b->lock);
}

void text_blocks_stop(struct text_blocks *b) {
    pthread_mutex_lock(&b->lock);
    b->is_stopped = true;
    pthread_mutex_unlock(&b->lock);
}

static bool is_letter(unsigned char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }

/* Where the last line ends, or the last safe space stands; 0 when there is neither. */
static size_t last_cut(const unsigned char *text, size_t length) {
    const unsigned char *newline = memrchr(text, '\n', length);
    if (newline)
        return (size_t)(newline - text) + 1;
    for (size_t i = length; i >= 3; i--) {
        unsigned char before = text[i - 3];
        if (text[i - 2] == ' ' && is_letter(text[i - 1]) &&
            (is_letter(before) || (before >= '0' && before <= '9')))
            return i - 2;
    }
    return 0;
}

static enum status refuse_other_encodings(const struct text_block *block,
                                          struct error *err) {
    static const struct {
        unsigned char mark[4];
        size_t length;
        const char *name;
    } encodings[] = {{{0xFF, 0xFE, 0, 0}, 4, "UTF-32 (little-endian)"},
                     {{0, 0, 0xFE, 0xFF}, 4, "UTF-32 (big-endian)"},
                     {{0xFF, 0xFE}, 2, "UTF-16 (little-endian)"},
                     {{0xFE, 0xFF}, 2, "UTF-16 (big-endian)"}};
    for (size_t i = 0; i < sizeof encodings / sizeof encodings[0]; i++)
        if (block->text.length >= encodings[i].length &&
            memcmp(block->text.data, encodings[i].mark, encodings[i].length) == 0)
            return error_set(
                err, ERR_INPUT,
                "%s: byte 0: expected UTF-8, found the byte-order mark of %s",
                block->path, encodings[i].name);
    return OK;
}

static enum status open_next(struct text_blocks *b, struct error *err) {
    TRY(reader_open(&b->reader, b->paths[b->next_path++], err));
    b->begins_line = true;
    b->offset = 0;
    return OK;
}

static void close_file(struct text_blocks *b) {
    b->bytes_before += reader_bytes(b->reader);
    reader_close(b->reader);
    b->reader = NULL;
}

/* Adds up to `wanted` bytes of the file to the block. A pipe may give less than is asked
 * for: only nothing at all is the end. */
static enum status read_more(struct text_blocks *b, struct text_block *block,
                             size_t wanted, bool *is_end, struct error *err) {
    TRY(buffer_reserve(&block->text, wanted, err));
    size_t got = 1, target = block->text.length + wanted;
    while (got && block->text.length < target) {
        TRY(reader_read(b->reader, block->text.data + block->text.length,
                        target - block->text.length, &got, err));
        block->text.length += got;
    }
    *is_end = got == 0;
    return OK;
}

/* Reads until the block holds a place to cut, and puts what follows it aside. */
static enum status fill(struct text_blocks *b, struct text_block *block,
                        struct error *err) {
    size_t cut = 0, wanted = BLOCK_BYTES;
    bool is_end = false;
    while (cut == 0) {
        TRY(read_more(b, block, wanted, &is_end, err));
        wanted = block->text.length;
        cut = is_end ? block->text.length
                     : last_cut((unsigned char *)block->text.data, block->text.length);
        if (is_end)
            break;
        if (cut == 0 && block->text.length >= MOST_BYTES)
            return error_set(err, ERR_INPUT,
                             "%s: byte %llu: a line goes on for 1 GiB without a place "
                             "to divide it",
                             block->path, (unsigned long long)block->offset);
    }
    buffer_clear(&b->rest);
    TRY(buffer_add(&b->rest, block->text.data + cut, block->text.length - cut, err));
    block->text.length = cut;
    if (is_end)
        close_file(b);
    return OK;
}

static enum status next(struct text_blocks *b, struct text_block *block, bool *found,
                        struct error *err) {
    buffer_clear(&block->text);
    while (block->text.length == 0) {
        if (!b->reader && b->next_path == b->path_count)
            return OK;
        if (!b->reader)
            TRY(open_next(b, err));
        block->path = b->paths[b->next_path - 1];
        block->offset = b->offset;
        block->begins_line = b->begins_line;
        TRY(buffer_add(&block->text, b->rest.data, b->rest.length, err));
        buffer_clear(&b->rest);
        TRY(fill(b, block, err));
        if (block->offset == 0)
            TRY(refuse_other_encodings(block, err));
    }
    *found = true;
    b->offset += block->text.length;
    b->begins_line = block->text.data[block->text.length - 1] == '\n';
    uint64_t done = b->bytes_before + (b->reader ? reader_bytes(b->reader) : 0);
    progress_update(b->progress, done, NULL);
    return OK;
}

enum status text_blocks_next(struct text_blocks *b, struct text_block *block,
                             size_t padding, bool *found, struct error *err) {
    *found = false;
    pthread_mutex_lock(&b->lock);
    block->sequence = b->sequence++;
    enum status status = b->is_stopped ? OK : next(b, block, found, err);
    if (status == OK && *found)
        status = buffer_reserve(&block->text, padding, err);
    if (status != OK)
        b->is_stopped = true;
    pthread_mutex_unlock(&b->lock);
    return status;
}
