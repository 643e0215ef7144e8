/* command_decode - normglue tokenizer decode.
 *
 * Ids as text are decoded a line at a time. Binary ids are one text of any length: they
 * are decoded in stretches that end before a token that begins a word, so that no
 * character made of several tokens is cut.
 *
 * The output is exact: what encode read comes back byte for byte, with the newline a line
 * had and without one it had not. A stretch of binary ids is put aside up to the last
 * token that begins a word, as a character never goes on into a word's first token. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/options.h"
#include "tokenizer/command.h"

enum { BLOCK_IDS = 1 << 18 };

struct decode_options {
    struct options_state *state;
    const char *tokenizer, *format;
    bool skip_special_tokens;
};

#define FIELD(name) offsetof(struct decode_options, name)

static const struct option table[] = {
    {"tokenizer", OPTION_STRING, FIELD(tokenizer), NULL, 0, 0, "DIR", "Options",
     "folder of the tokenizer or model", true},
    {"format", OPTION_CHOICE, FIELD(format), "ids", 0, 0, "ids|u16|u32", "Options",
     "ids: numbers, a text a line; u16, u32: little-endian, one text", false},
    {"skip-special-tokens", OPTION_FLAG, FIELD(skip_special_tokens), "false", 0, 0, NULL,
     "Options", "leave out <s>, </s>, <pad> ...", false},
    {NULL, OPTION_FLAG, 0, NULL, 0, 0, NULL, NULL, NULL, false},
};

static const struct command command = {
    .name = "normglue tokenizer decode",
    .usage = "--tokenizer DIR [OPTION]... [FILE]...",
    .summary =
        "Writes the text of token ids read from files, plain or gzip, or from "
        "stdin: the inverse of normglue tokenizer encode.",
    .epilog =
        "Bytes that make no UTF-8 become U+FFFD.\nExample:\n\n"
        "  normglue tokenizer encode --tokenizer tok/ < text | "
        "normglue tokenizer decode --tokenizer tok/",
    .options = table,
    .operands = "FILE",
};

struct decoder {
    const struct decode_options *options;
    struct tokenizer *tokenizer; /* owned */
    struct reader *reader;
    struct ids ids;
    struct buffer text;
};

/* Decodes the first `count` ids to stdout and drops them. */
static enum status write_ids(struct decoder *d, size_t count, struct error *err) {
    if (count == 0)
        return OK;
    buffer_clear(&d->text);
    TRY(tokenizer_decode(d->tokenizer, d->ids.items, count,
                         d->options->skip_special_tokens, &d->text, err));
    TRY(command_write(d->text.data, d->text.length, err));
    d->ids.count -= count;
    memmove(d->ids.items, d->ids.items + count, d->ids.count * sizeof d->ids.items[0]);
    return OK;
}

/* The id at *at of a line, and goes past it. */
static enum status read_id(struct decoder *d, char **at, int32_t *id, struct error *err) {
    const char *path = reader_path(d->reader);
    long long line = reader_line_number(d->reader), value = 0;
    int length = (int)strcspn(*at, " \t\r");
    for (int i = 0; i < length; i++) {
        if (!isdigit((unsigned char)(*at)[i]))
            return error_set(err, ERR_INPUT,
                             "%s:%lld: expected token ids, found \"%.*s\"", path, line,
                             length < 40 ? length : 40, *at);
        value = value < INT32_MAX ? value * 10 + (*at)[i] - '0' : value;
    }
    if (value >= tokenizer_size(d->tokenizer))
        return error_set(err, ERR_INPUT,
                         "%s:%lld: expected token ids below %d, found %.*s", path, line,
                         tokenizer_size(d->tokenizer), length < 40 ? length : 40, *at);
    *id = (int32_t)value;
    *at += length;
    return OK;
}

static enum status decode_line(struct decoder *d, char *line, size_t length,
                               struct error *err) {
    d->ids.count = 0;
    if (strlen(line) != length)
        return error_set(err, ERR_INPUT, "%s:%lld: expected token ids, found a NUL byte",
                         reader_path(d->reader),
                         (long long)reader_line_number(d->reader));
    for (char *at = line; *(at += strspn(at, " \t\r"));) {
        int32_t id;
        TRY(read_id(d, &at, &id, err));
        TRY(ids_add(&d->ids, &id, 1, err));
    }
    TRY(write_ids(d, d->ids.count, err));
    if (reader_line_was_ended(d->reader))
        TRY(command_write("\n", 1, err));
    return reader_line_ready(d->reader) ? OK : command_flush(err);
}

static enum status decode_lines(struct decoder *d, struct error *err) {
    char *line;
    size_t length;
    for (;;) {
        TRY(reader_line(d->reader, &line, &length, err));
        if (!line)
            return OK;
        TRY(decode_line(d, line, length, err));
    }
}

/* How many ids can be decoded before the others are known: up to the last that begins a
 * word, so that no character is cut. In text without spaces none does; then all of it
 * waits. */
static size_t settled(const struct decoder *d) {
    size_t count = d->ids.count;
    while (count > 0 && !tokenizer_begins_word(d->tokenizer, d->ids.items[count - 1]))
        count--;
    return count > 0 ? count - 1 : 0;
}

static enum status add_binary(struct decoder *d, const unsigned char *bytes, size_t width,
                              uint64_t offset, struct error *err) {
    uint32_t id = bytes[0] | (uint32_t)bytes[1] << 8;
    if (width == 4)
        id |= (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
    if (id >= (uint32_t)tokenizer_size(d->tokenizer))
        return error_set(err, ERR_INPUT,
                         "%s: byte %llu: expected a token id below %d, found %u",
                         reader_path(d->reader), (unsigned long long)offset,
                         tokenizer_size(d->tokenizer), id);
    const int32_t item = (int32_t)id;
    return ids_add(&d->ids, &item, 1, err);
}

/* Reads whole ids as far as the buffer holds them; *got is 0 at the end. */
static enum status read_block(struct decoder *d, unsigned char *block, size_t size,
                              size_t *got, struct error *err) {
    size_t more = 1;
    *got = 0;
    while (more && *got < size) {
        TRY(reader_read(d->reader, block + *got, size - *got, &more, err));
        *got += more;
    }
    return OK;
}

/* A file that ends inside an id is refused; the blocks before are written by then. */
static enum status decode_binary(struct decoder *d, size_t width, unsigned char *block,
                                 struct error *err) {
    uint64_t offset = 0;
    size_t got = 1;
    d->ids.count = 0;
    while (got) {
        TRY(read_block(d, block, BLOCK_IDS * width, &got, err));
        if (got % width)
            return error_set(
                err, ERR_INPUT, "%s: expected ids of %zu bytes, found %llu bytes in all",
                reader_path(d->reader), width, (unsigned long long)(offset + got));
        for (size_t i = 0; i < got; i += width)
            TRY(add_binary(d, block + i, width, offset + i, err));
        offset += got;
        TRY(write_ids(d, got ? settled(d) : d->ids.count, err));
    }
    return OK;
}

static enum status decode_file(struct decoder *d, const char *path, struct error *err) {
    TRY(reader_open(&d->reader, path, err));
    size_t width = command_id_width(d->options->format);
    unsigned char *block = width ? malloc(BLOCK_IDS * width) : NULL;
    enum status status;
    if (width == 0)
        status = decode_lines(d, err);
    else if (block)
        status = decode_binary(d, width, block, err);
    else
        status = error_set(err, ERR_MEMORY, "out of memory for token ids");
    free(block);
    reader_close(d->reader);
    return status;
}

static enum status run(const struct call *call, struct error *err) {
    struct decoder d = {.options = call->values};
    const struct option_list *files = &call->operands;
    enum status status =
        tokenizer_load(&d.tokenizer, d.options->tokenizer, &notices_stderr, err);
    if (status == OK && files->count == 0)
        status = decode_file(&d, "-", err);
    for (int i = 0; i < files->count && status == OK; i++)
        status = decode_file(&d, files->items[i], err);
    ids_free(&d.ids);
    buffer_free(&d.text);
    tokenizer_free(d.tokenizer);
    return status;
}

int command_decode(int argc, char **argv) {
    struct decode_options options;
    return options_run(&command, &options, argc, argv, run);
}
