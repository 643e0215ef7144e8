/* command_encode - normglue tokenizer encode.
 *
 * Batches of lines are shared out to threads, each of which writes its part of the result
 * into memory; the parts go to stdout in the order of the lines. A bad line stops the
 * run after the lines before it are out.
 *
 *   line_batch     1 MiB of lines with their file and number
 *   parts          a thread each: a contiguous stretch of the batch, a cache, an output
 *   formats        a row each: how one line is written; ids and tokens as text, JSON with
 *                  offsets, or little-endian integers without lines
 *
 * Contiguous stretches, not lines in turn: the parts are then joined by writing them one
 * after the other, and the result cannot depend on the number of threads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "tokenizer/command.h"
#include "tokenizer/encoding.h"
#include "tokenizer/line_batch.h"

struct encode_options {
    struct options_state *state;
    const char *tokenizer, *format, *invalid_utf8, *progress;
    int64_t max_length, threads;
    bool special_tokens, pairs, add_prefix_space;
};

#define FIELD(name) offsetof(struct encode_options, name)

static const char result[] = "Result", text[] = "Text", run_group[] = "Run";

static const struct option table[] = {
    {"tokenizer", OPTION_STRING, FIELD(tokenizer), NULL, 0, 0, "DIR", result,
     "folder of the tokenizer or model", true},
    {"format", OPTION_CHOICE, FIELD(format), "ids", 0, 0, "ids|tokens|jsonl|u16|u32",
     result,
     "numbers or tokens, a line each line; JSON with offsets; little-endian integers",
     false},
    {"special-tokens", OPTION_FLAG, FIELD(special_tokens), "false", 0, 0, NULL, result,
     "put <s> and </s> around each line", false},
    {"max-length", OPTION_INTEGER, FIELD(max_length), "0", 0, 1e9, NULL, result,
     "cut each line to so many tokens, specials included; 0 = never", false},
    {"pairs", OPTION_FLAG, FIELD(pairs), "false", 0, 0, NULL, text,
     "a line is two texts with a tab between them, encoded with special tokens", false},
    {"add-prefix-space", OPTION_FLAG, FIELD(add_prefix_space), NULL, 0, 0, NULL, text,
     "put a space before each text that does not begin with one; unset = the tokenizer's",
     false},
    {"invalid-utf8", OPTION_CHOICE, FIELD(invalid_utf8), "error", 0, 0,
     COMMAND_INVALID_UTF8, text,
     "what is no UTF-8: an error, U+FFFD, or bytes as they are", false},
    {"threads", OPTION_INTEGER, FIELD(threads), "0", 0, 4096, NULL, run_group,
     "threads; 0 = as many as the process may use", false},
    {"progress", OPTION_CHOICE, FIELD(progress), "auto", 0, 0, PROGRESS_WORDS, run_group,
     "progress bar; auto = on a terminal that the result does not go to", false},
    {NULL, OPTION_FLAG, 0, NULL, 0, 0, NULL, NULL, NULL, false},
};

static const struct command command = {
    .name = "normglue tokenizer encode",
    .usage = "--tokenizer DIR [OPTION]... [FILE]...",
    .summary =
        "Writes the token ids of each line of text files, plain or gzip, or of "
        "stdin. The newline that ends a line is no part of its text, except in "
        "the formats u16 and u32, which have no lines of their own.",
    .epilog =
        "Decoding gives the text back, byte for byte.\nExamples:\n\n"
        "  normglue tokenizer encode --tokenizer tok/ < text\n"
        "  normglue tokenizer encode --tokenizer tok/ --format u16 corpus.txt.gz "
        "> corpus.bin",
    .options = table,
    .operands = "FILE",
};

enum { DIGITS = 11 }; /* of an id, with the space after it */

/* One thread's part of a batch. */
struct part {
    const struct encode_job *job;
    struct tokenizer_cache *cache; /* owned */
    struct ids ids;
    struct encoding encoding; /* of format jsonl */
    struct buffer out;
    enum status status;
    struct error error;
};

struct format {
    const char *name;
    enum status (*write)(struct part *p, const struct batch_line *line,
                         struct error *err);
};

struct encode_job {
    const struct encode_options *options;
    const struct format *format;
    struct tokenizer *tokenizer; /* owned */
    struct line_batch batch;
    struct part *parts; /* owned */
    int part_count;
    struct progress *progress;
};

/* -- one line -------------------------------------------------------------------------
 */

/* A line as one text or two: second is NULL for one. */
struct texts {
    const char *first, *second;
    size_t first_length, second_length;
};

/* In formats without lines the newline is part of the text, so that decoding restores it.
 */
static enum status cut_line(const struct part *p, const struct batch_line *line,
                            struct texts *texts, struct error *err) {
    const struct encode_options *o = p->job->options;
    *texts = (struct texts){.first = p->job->batch.text.data + line->start,
                            .first_length = line->length};
    if (command_id_width(o->format))
        texts->first_length += line->was_ended;
    if (!o->pairs)
        return OK;
    const char *end = texts->first + texts->first_length;
    const char *tab = memchr(texts->first, '\t', texts->first_length);
    if (!tab || memchr(tab + 1, '\t', (size_t)(end - tab - 1)))
        return error_set(err, ERR_INPUT,
                         "expected two texts with one tab between them, found %s",
                         tab ? "more tabs" : "no tab");
    texts->first_length = (size_t)(tab - texts->first);
    texts->second = tab + 1;
    texts->second_length = (size_t)(end - tab - 1);
    return OK;
}

static bool has_template(const struct encode_options *o) {
    return o->special_tokens || o->pairs;
}

static enum status encode_ids(struct part *p, const struct batch_line *line,
                              struct error *err) {
    const struct encode_job *job = p->job;
    size_t most = (size_t)job->options->max_length;
    struct texts x;
    TRY(cut_line(p, line, &x, err));
    p->ids.count = 0;
    if (has_template(job->options))
        return tokenizer_encode_pair(job->tokenizer, p->cache, x.first, x.first_length,
                                     x.second, x.second_length, most, &p->ids, err);
    TRY(tokenizer_encode(job->tokenizer, p->cache, x.first, x.first_length, &p->ids,
                         err));
    if (most && p->ids.count > most)
        p->ids.count = most;
    return OK;
}

/* Writes a number >= 0 and a space; what follows them. */
static char *put_number(char *to, int32_t number) {
    char digits[DIGITS];
    int count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    while (count > 0)
        *to++ = digits[--count];
    *to++ = ' ';
    return to;
}

/* Puts a newline for the last space, or nothing if the line of text had none. */
static enum status end_line(struct part *p, const struct batch_line *line,
                            struct error *err) {
    if (p->ids.count > 0)
        p->out.length--;
    return buffer_add(&p->out, "\n", line->was_ended, err);
}

static enum status write_ids(struct part *p, const struct batch_line *line,
                             struct error *err) {
    TRY(encode_ids(p, line, err));
    TRY(buffer_reserve(&p->out, p->ids.count * DIGITS, err));
    char *to = p->out.data + p->out.length;
    for (size_t i = 0; i < p->ids.count; i++)
        to = put_number(to, p->ids.items[i]);
    p->out.length = (size_t)(to - p->out.data);
    return end_line(p, line, err);
}

static enum status write_tokens(struct part *p, const struct batch_line *line,
                                struct error *err) {
    TRY(encode_ids(p, line, err));
    for (size_t i = 0; i < p->ids.count; i++) {
        const char *token = tokenizer_token(p->job->tokenizer, p->ids.items[i]);
        TRY(buffer_add(&p->out, token, strlen(token), err));
        TRY(buffer_add(&p->out, " ", 1, err));
    }
    return end_line(p, line, err);
}

static enum status write_binary(struct part *p, const struct batch_line *line,
                                struct error *err) {
    size_t width = command_id_width(p->job->options->format);
    TRY(encode_ids(p, line, err));
    TRY(buffer_reserve(&p->out, p->ids.count * width, err));
    for (size_t i = 0; i < p->ids.count; i++)
        for (size_t byte = 0; byte < width; byte++)
            p->out.data[p->out.length++] = (char)(p->ids.items[i] >> 8 * byte & 0xFF);
    return OK;
}

/* -- one line as JSON -----------------------------------------------------------------
 */

static enum status encode_fully(struct part *p, const struct batch_line *line,
                                struct error *err) {
    const struct encode_job *job = p->job;
    const struct truncation truncation = {.max_length = (size_t)job->options->max_length};
    const struct encoding_options options = {
        .no_special_tokens = !has_template(job->options),
        .truncation = truncation.max_length ? &truncation : NULL,
    };
    struct texts x;
    TRY(cut_line(p, line, &x, err));
    return encoding_encode(job->tokenizer, p->cache, x.first, x.first_length, x.second,
                           x.second_length, &options, &p->encoding, err);
}

/* The members of a line, each an array with an element a token. */
static enum status add_id(const struct part *p, const struct encoded_token *token,
                          struct buffer *out, struct error *err) {
    (void)p;
    return buffer_print(out, err, "%d", token->id);
}

static enum status add_token(const struct part *p, const struct encoded_token *token,
                             struct buffer *out, struct error *err) {
    const char *string = tokenizer_token(p->job->tokenizer, token->id);
    return buffer_add_json_string(out, string, strlen(string), err);
}

static enum status add_offsets(const struct part *p, const struct encoded_token *token,
                               struct buffer *out, struct error *err) {
    (void)p;
    return buffer_print(out, err, "[%u,%u]", token->start, token->end);
}

static enum status add_or_null(struct buffer *out, int32_t number, struct error *err) {
    return number < 0 ? buffer_add(out, "null", 4, err)
                      : buffer_print(out, err, "%d", number);
}

static enum status add_word_id(const struct part *p, const struct encoded_token *token,
                               struct buffer *out, struct error *err) {
    (void)p;
    return add_or_null(out, token->word_id, err);
}

static enum status add_sequence_id(const struct part *p,
                                   const struct encoded_token *token, struct buffer *out,
                                   struct error *err) {
    (void)p;
    return add_or_null(out, token->sequence_id, err);
}

static enum status add_special(const struct part *p, const struct encoded_token *token,
                               struct buffer *out, struct error *err) {
    (void)p;
    return buffer_add(out, token->special ? "1" : "0", 1, err);
}

static const struct {
    const char *name; /* as tokenizers names the lists of an encoding */
    enum status (*add)(const struct part *p, const struct encoded_token *token,
                       struct buffer *out, struct error *err);
} members[] = {
    {"ids", add_id},
    {"tokens", add_token},
    {"offsets", add_offsets},
    {"word_ids", add_word_id},
    {"sequence_ids", add_sequence_id},
    {"special_tokens_mask", add_special},
};
enum { MEMBER_COUNT = sizeof members / sizeof members[0] };

static enum status write_json(struct part *p, const struct batch_line *line,
                              struct error *err) {
    TRY(encode_fully(p, line, err));
    for (int i = 0; i < MEMBER_COUNT; i++) {
        TRY(buffer_print(&p->out, err, "%s\"%s\": [", i ? ", " : "{", members[i].name));
        for (size_t j = 0; j < p->encoding.count; j++) {
            TRY(buffer_add(&p->out, ", ", j ? 2 : 0, err));
            TRY(members[i].add(p, &p->encoding.tokens[j], &p->out, err));
        }
        TRY(buffer_add(&p->out, "]", 1, err));
    }
    return buffer_add(&p->out, "}\n", 2, err);
}

static const struct format formats[] = {
    {"ids", write_ids},    {"tokens", write_tokens}, {"jsonl", write_json},
    {"u16", write_binary}, {"u32", write_binary},
};

static const struct format *find_format(const char *name) {
    const struct format *f = formats;
    while (strcmp(f->name, name) != 0) /* the option table let no other word through */
        f++;
    return f;
}

/* -- batches --------------------------------------------------------------------------
 */

/* The lines [first, end) of the batch; stops at the first that is bad. */
static void encode_part(struct part *p, size_t first, size_t end) {
    const struct encode_job *job = p->job;
    buffer_clear(&p->out);
    p->status = OK;
    for (size_t i = first; i < end && p->status == OK; i++) {
        const struct batch_line *line = &job->batch.lines[i];
        p->status = job->format->write(p, line, &p->error);
        if (p->status != OK)
            error_context(&p->error, "%s:%lld", line->path, (long long)line->number);
    }
}

/* A few lines are not worth waking threads for. */
static enum status encode_batch(struct encode_job *job, struct error *err) {
    size_t count = job->batch.count;
    int parts = job->part_count;
#pragma omp parallel for num_threads(parts) schedule(static, 1) if (count > 64)
    for (int i = 0; i < parts; i++)
        encode_part(&job->parts[i], count * (size_t)i / (size_t)parts,
                    count * ((size_t)i + 1) / (size_t)parts);
    for (int i = 0; i < parts; i++) {
        const struct part *p = &job->parts[i];
        TRY(command_write(p->out.data, p->out.length, err));
        if (p->status != OK) {
            *err = p->error;
            return p->status;
        }
    }
    return command_flush(err);
}

static enum status encode_all(struct encode_job *job, struct error *err) {
    for (;;) {
        TRY(line_batch_next(&job->batch, err));
        if (job->batch.count == 0)
            return OK;
        TRY(encode_batch(job, err));
        progress_update(job->progress, line_batch_done(&job->batch), NULL);
    }
}

/* What would fail at the first line, told before any is read. */
static enum status check_tokenizer(const struct encode_job *job, struct error *err) {
    const struct encode_options *o = job->options;
    struct special_ids specials = tokenizer_specials(job->tokenizer);
    if (strcmp(o->format, "u16") == 0 && tokenizer_size(job->tokenizer) > 65536)
        return error_set(err, ERR_USAGE,
                         "--format u16: %d entries do not fit 16 bits; use u32",
                         tokenizer_size(job->tokenizer));
    if ((o->special_tokens || o->pairs) && (specials.bos < 0 || specials.eos < 0))
        return error_set(err, ERR_USAGE, "%s has no special tokens to put around a text",
                         o->tokenizer);
    return OK;
}

static enum status open_progress(struct encode_job *job, struct error *err) {
    enum progress_mode mode = progress_mode_named(job->options->progress);
    uint64_t total;
    TRY(reader_check(job->batch.paths, job->batch.path_count, &total, err));
    if (mode == PROGRESS_AUTO &&
        (isatty(STDOUT_FILENO) || !terminal_is_smart(STDERR_FILENO)))
        mode = PROGRESS_NEVER;
    job->progress = progress_open(mode, "encoding", "bytes", total);
    return OK;
}

static enum status open_job(struct encode_job *job, const struct option_list *files,
                            struct error *err) {
    static const char *const stdin_only[] = {"-"};
    const struct encode_options *o = job->options;
    job->batch.paths = files->count ? files->items : stdin_only;
    job->batch.path_count = files->count ? files->count : 1;
    job->format = find_format(o->format);
    TRY(tokenizer_load(&job->tokenizer, o->tokenizer, &notices_stderr, err));
    tokenizer_set_invalid_utf8(job->tokenizer, command_invalid_utf8(o->invalid_utf8));
    if (options_given(&command, o, "add-prefix-space"))
        tokenizer_set_add_prefix_space(job->tokenizer, o->add_prefix_space);
    TRY(check_tokenizer(job, err));
    job->part_count = command_threads(o->threads);
    job->parts = calloc((size_t)job->part_count, sizeof *job->parts);
    if (!job->parts)
        return error_set(err, ERR_MEMORY, "out of memory for %d threads",
                         job->part_count);
    for (int i = 0; i < job->part_count; i++) {
        job->parts[i].job = job;
        job->parts[i].cache = tokenizer_cache_new(job->tokenizer);
        if (!job->parts[i].cache)
            return error_set(err, ERR_MEMORY, "out of memory for a tokenizer's cache");
    }
    return open_progress(job, err);
}

static void close_job(struct encode_job *job) {
    for (int i = 0; job->parts && i < job->part_count; i++) {
        tokenizer_cache_free(job->parts[i].cache);
        ids_free(&job->parts[i].ids);
        encoding_free(&job->parts[i].encoding);
        buffer_free(&job->parts[i].out);
    }
    free(job->parts);
    line_batch_close(&job->batch);
    tokenizer_free(job->tokenizer);
    progress_close(job->progress);
}

static enum status run(const struct call *call, struct error *err) {
    struct encode_job job = {.options = call->values};
    enum status status = open_job(&job, &call->operands, err);
    if (status == OK)
        status = encode_all(&job, err);
    close_job(&job);
    return status;
}

int command_encode(int argc, char **argv) {
    struct encode_options options;
    return options_run(&command, &options, argc, argv, run);
}
