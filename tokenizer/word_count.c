/* word_count - the pre-tokens of text files and how often each occurs, counted by
 * several threads.
 *
 * A thread takes a block, checks its UTF-8, rewrites it where the options ask for it
 * (U+FFFD, normal form, prefix spaces: all of them within a line), cuts it and counts
 * into a table of its own; the tables are added up at the end. Sums do not depend on who
 * counted what, and of several errors that of the earliest block is told: blocks before
 * it were all given out before, and their threads finish them.
 *
 *   text_blocks   blocks of 256 KiB that can be cut on their own, in turn
 *   counter       checks, rewrites, splits (split_spans, line by line), counts
 *   gather        adds the tables up: word_table_merge
 *
 * No table is shared while counting, as a lock or an atomic addition on every word would
 * cost more than the word. The price is a table of distinct words a thread. */
#include "tokenizer/word_count.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/split.h"
#include "tokenizer/text_blocks.h"
#include "tokenizer/unicode.h"

enum { SPANS = 512 };

/* One thread's part. Plain threads, which end with the reading: those of OpenMP would
 * spin through the merging that follows. */
struct counter {
    const struct word_count_options *options;
    struct text_blocks *blocks;
    struct word_table *table; /* the caller's for the first thread, else `own` */
    struct word_table own;
    struct text_block block;
    struct buffer changed; /* the block with U+FFFD, or with prefix spaces */
    struct normalized normalized;
    struct word_count_totals totals;
    uint64_t sequence; /* of the block that failed, or that held the first bad byte */
    enum status status;
    struct error error;
    pthread_t thread;
};

/* Counts the places that are no UTF-8, or stops at the first. */
static enum status check_utf8(struct counter *c, struct error *err) {
    const unsigned char *text = (const unsigned char *)c->block.text.data;
    size_t length = c->block.text.length;
    size_t at = unicode_valid_prefix(text, length);
    if (at == length)
        return OK;
    if (c->options->invalid_utf8 == INVALID_UTF8_ERROR)
        return error_set(err, ERR_INPUT,
                         "%s: byte %llu: expected UTF-8, found 0x%02X (--invalid-utf8 "
                         "replace or bytes accepts it)",
                         c->block.path, (unsigned long long)(c->block.offset + at),
                         text[at]);
    if (c->totals.invalid_places == 0) {
        c->totals.invalid_path = c->block.path;
        c->totals.invalid_offset = c->block.offset + at;
        c->sequence = c->block.sequence;
    }
    while (at < length) {
        uint32_t code;
        at += unicode_decode(text + at, length - at, &code);
        at += unicode_valid_prefix(text + at, length - at);
        c->totals.invalid_places++;
    }
    return OK;
}

static void swap(struct buffer *a, struct buffer *b) {
    struct buffer kept = *a;
    *a = *b;
    *b = kept;
}

static enum status replace_invalid(struct counter *c, struct error *err) {
    buffer_clear(&c->changed);
    TRY(unicode_add_lossy(&c->changed, (unsigned char *)c->block.text.data,
                          c->block.text.length, err));
    swap(&c->changed, &c->block.text);
    return OK;
}

/* A block ends where no normal form reaches across: after '\n' or before a space. */
static enum status normalize(struct counter *c, struct error *err) {
    TRY(normalizer_apply(c->options->normalizer, (unsigned char *)c->block.text.data,
                         c->block.text.length, &c->normalized, err));
    swap(&c->normalized.text, &c->block.text);
    return OK;
}

/* First byte after the line that begins at `at`. */
static size_t line_end(const struct buffer *text, size_t at) {
    const char *newline = memchr(text->data + at, '\n', text->length - at);
    return newline ? (size_t)(newline - text->data) + 1 : text->length;
}

static enum status add_prefix_spaces(struct counter *c, struct error *err) {
    buffer_clear(&c->changed);
    for (size_t at = 0; at < c->block.text.length;) {
        size_t end = line_end(&c->block.text, at);
        bool begins = at > 0 || c->block.begins_line;
        if (begins && c->block.text.data[at] != ' ')
            TRY(buffer_add(&c->changed, " ", 1, err));
        TRY(buffer_add(&c->changed, c->block.text.data + at, end - at, err));
        at = end;
    }
    swap(&c->changed, &c->block.text);
    return OK;
}

static uint64_t count_newlines(const unsigned char *text, size_t length) {
    uint64_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += text[i] == '\n';
    return count;
}

static enum status count_words(struct counter *c, struct error *err) {
    const unsigned char *text = (const unsigned char *)c->block.text.data;
    size_t length = c->block.text.length, ends[SPANS];
    enum split_path path = split_best_path();
    c->totals.lines += c->block.begins_line + count_newlines(text, length - 1);
    for (size_t at = 0; at < length;) {
        size_t count = split_spans_by(path, true, text, at, length, ends, SPANS);
        for (size_t i = 0; i < count; at = ends[i++])
            TRY(word_table_add(c->table, text + at, ends[i] - at, err));
    }
    return OK;
}

static enum status count_block(struct counter *c, struct error *err) {
    c->totals.bytes += c->block.text.length;
    uint64_t bad_before = c->totals.invalid_places;
    TRY(check_utf8(c, err));
    if (c->options->invalid_utf8 == INVALID_UTF8_REPLACE &&
        c->totals.invalid_places > bad_before)
        TRY(replace_invalid(c, err));
    if (c->options->normalizer && c->options->normalizer->count > 0)
        TRY(normalize(c, err));
    if (c->options->add_prefix_space)
        TRY(add_prefix_spaces(c, err));
    TRY(buffer_reserve(&c->block.text, WORD_TABLE_PADDING, err));
    return count_words(c, err);
}

static enum status count_blocks(struct counter *c, struct error *err) {
    if (c->table == &c->own)
        TRY(word_table_open(&c->own, err));
    for (;;) {
        bool found;
        enum status status =
            text_blocks_next(c->blocks, &c->block, WORD_TABLE_PADDING, &found, err);
        if (status == OK && !found)
            return word_table_settle(c->table, err);
        if (status == OK)
            status = count_block(c, err);
        if (status != OK) {
            c->sequence = c->block.sequence;
            return status;
        }
    }
}

/* The totals of all threads, whose first bad byte is that of the earliest block. */
static void add_totals(struct word_count_totals *all, uint64_t *sequence,
                       const struct counter *c) {
    all->bytes += c->totals.bytes;
    all->lines += c->totals.lines;
    if (c->totals.invalid_places &&
        (all->invalid_places == 0 || c->sequence < *sequence)) {
        all->invalid_path = c->totals.invalid_path;
        all->invalid_offset = c->totals.invalid_offset;
        *sequence = c->sequence;
    }
    all->invalid_places += c->totals.invalid_places;
}

/* The failure of the earliest block, else all counts in one table. */
static enum status gather(struct counter *counters, int threads, struct word_table *table,
                          struct word_count_totals *totals, struct error *err) {
    const struct counter *failed = NULL;
    for (int i = 0; i < threads; i++)
        if (counters[i].status != OK &&
            (!failed || counters[i].sequence < failed->sequence))
            failed = &counters[i];
    if (failed) {
        *err = failed->error;
        return failed->status;
    }
    uint64_t sequence = 0;
    *totals = (struct word_count_totals){0};
    for (int i = 0; i < threads; i++) {
        add_totals(totals, &sequence, &counters[i]);
        if (i > 0)
            TRY(word_table_merge(table, &counters[i].own, err));
    }
    return OK;
}

/* A thread's work. After a failure nobody is given another block; those that were given
 * out before are finished, so that the earliest error is known. */
static void *run(void *self) {
    struct counter *c = self;
    c->status = count_blocks(c, &c->error);
    if (c->status != OK)
        text_blocks_stop(c->blocks);
    return NULL;
}

static enum status count_with(struct counter *counters, struct text_blocks *blocks,
                              const struct word_count_options *options,
                              struct word_table *table, struct word_count_totals *totals,
                              struct error *err) {
    int started = 1;
    for (int i = 0; i < options->threads; i++) {
        struct counter *c = &counters[i];
        c->options = options;
        c->blocks = blocks;
        c->table = i == 0 ? table : &c->own;
    }
    while (started < options->threads &&
           pthread_create(&counters[started].thread, NULL, run, &counters[started]) == 0)
        started++; /* with fewer threads the others read more */
    run(&counters[0]);
    for (int i = 1; i < started; i++)
        pthread_join(counters[i].thread, NULL);
    enum status status = gather(counters, started, table, totals, err);
    for (int i = 0; i < options->threads; i++) {
        word_table_close(&counters[i].own);
        buffer_free(&counters[i].block.text);
        buffer_free(&counters[i].changed);
        normalized_free(&counters[i].normalized);
    }
    return status;
}

enum status word_count_files(struct word_table *table, const char *const *paths,
                             int path_count, const struct word_count_options *options,
                             struct word_count_totals *totals, struct error *err) {
    struct text_blocks blocks;
    enum status status = text_blocks_open(&blocks, paths, path_count, err);
    struct counter *counters = calloc((size_t)options->threads, sizeof *counters);
    if (status == OK && !counters)
        status =
            error_set(err, ERR_MEMORY, "out of memory for %d threads", options->threads);
    if (status == OK) {
        blocks.progress =
            progress_open(options->progress, "reading", "bytes", blocks.bytes_total);
        status = count_with(counters, &blocks, options, table, totals, err);
        progress_close(blocks.progress);
    }
    free(counters);
    text_blocks_close(&blocks);
    return status;
}
