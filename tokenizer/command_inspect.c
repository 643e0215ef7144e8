/* command_inspect - normglue tokenizer inspect.
 *
 * What to know before training on a tokenizer: is its vocabulary proper (no gaps, every
 * byte a token, every token reached by merges), and how many bytes a token stands for on
 * the text at hand. The fingerprint is the one that token shards carry. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "tokenizer/command.h"
#include "tokenizer/line_batch.h"
#include "tokenizer/unicode.h"

struct inspect_options {
    struct options_state *state;
    const char *invalid_utf8;
};

static const struct option table[] = {
    {"invalid-utf8", OPTION_CHOICE, offsetof(struct inspect_options, invalid_utf8),
     "error", 0, 0, COMMAND_INVALID_UTF8, "Options",
     "what is no UTF-8 in FILE: an error, U+FFFD, or bytes as they are", false},
    {NULL, OPTION_FLAG, 0, NULL, 0, 0, NULL, NULL, NULL, false},
};

static const struct command command = {
    .name = "normglue tokenizer inspect",
    .usage = "[OPTION]... DIR [FILE]...",
    .summary =
        "Prints what a tokenizer is and, for each text file, plain or gzip, how "
        "well it compresses it. Words are what whitespace separates.",
    .epilog = "Example:\n\n  normglue tokenizer inspect tok/ held-out.txt",
    .options = table,
    .operands = "DIR",
};

/* -- the vocabulary -------------------------------------------------------------------
 */

static void print_special(const char *role, const struct tokenizer *t, int32_t id) {
    if (id >= 0)
        printf("%-18s %s (%" PRId32 ")\n", role, tokenizer_token(t, id), id);
}

static int32_t longest_token(const struct tokenizer *t) {
    int32_t longest = -1;
    size_t most = 0;
    for (int32_t id = 0; id < tokenizer_size(t); id++) {
        const char *token = tokenizer_token(t, id);
        if (!token || tokenizer_is_special(t, id) || strlen(token) <= most)
            continue;
        most = strlen(token);
        longest = id;
    }
    return longest;
}

static void print_tokenizer(const char *directory, const struct tokenizer *t) {
    struct special_ids s = tokenizer_specials(t);
    struct tokenizer_facts facts = tokenizer_facts(t);
    int32_t longest = longest_token(t);
    printf("%-18s %s\n", "tokenizer", directory);
    printf("%-18s %" PRId32 "\n", "size", tokenizer_size(t));
    printf("%-18s %" PRId32 "\n", "merges", facts.merges);
    printf("%-18s %" PRId32 "\n", "added tokens", facts.added);
    print_special("bos", t, s.bos);
    print_special("pad", t, s.pad);
    print_special("eos", t, s.eos);
    print_special("unk", t, s.unk);
    print_special("mask", t, s.mask);
    if (longest >= 0)
        printf("%-18s %s (%" PRId32 ")\n", "longest token", tokenizer_token(t, longest),
               longest);
    printf("%-18s %" PRId32 "\n", "id gaps", facts.gaps);
    printf("%-18s %" PRId32 "\n", "missing bytes", facts.missing_bytes);
    printf("%-18s %" PRId32 "\n", "unreachable tokens", facts.unreachable);
    printf("%-18s %s\n", "proper",
           facts.gaps || facts.missing_bytes || facts.unreachable ? "no" : "yes");
    printf("%-18s %s\n", "Unicode classes", facts.unicode);
    printf("%-18s %016" PRIx64 "\n", "fingerprint", tokenizer_fingerprint(t));
}

/* -- texts ----------------------------------------------------------------------------
 */

struct counts {
    uint64_t bytes, lines, words, tokens;
};

static uint64_t count_words(const unsigned char *text, size_t length) {
    uint64_t words = 0;
    bool in_word = false;
    for (size_t at = 0; at < length;) {
        uint32_t code;
        at += unicode_decode(text + at, length - at, &code);
        bool is_space = code != UNICODE_BAD && unicode_class(code) == UNICODE_SPACE;
        words += !is_space && !in_word;
        in_word = !is_space;
    }
    return words;
}

static enum status count_line(const struct tokenizer *t, struct tokenizer_cache *cache,
                              const struct line_batch *batch,
                              const struct batch_line *line, struct ids *ids,
                              struct counts *counts, struct error *err) {
    const char *at = batch->text.data + line->start;
    size_t length = line->length + line->was_ended;
    ids->count = 0;
    if (tokenizer_encode(t, cache, at, length, ids, err) != OK)
        return error_context(err, "%s:%lld", line->path, (long long)line->number);
    counts->bytes += length;
    counts->lines++;
    counts->words += count_words((const unsigned char *)at, length);
    counts->tokens += ids->count;
    return OK;
}

static enum status count_file(const struct tokenizer *t, struct tokenizer_cache *cache,
                              const char *path, struct counts *counts,
                              struct error *err) {
    struct line_batch batch = {.paths = &path, .path_count = 1};
    struct ids ids = {0};
    enum status status = line_batch_next(&batch, err);
    while (status == OK && batch.count > 0) {
        for (size_t i = 0; i < batch.count && status == OK; i++)
            status = count_line(t, cache, &batch, &batch.lines[i], &ids, counts, err);
        if (status == OK)
            status = line_batch_next(&batch, err);
    }
    ids_free(&ids);
    line_batch_close(&batch);
    return status;
}

static double ratio(uint64_t a, uint64_t b) { return b ? (double)a / (double)b : 0; }

static enum status print_file(const struct tokenizer *t, struct tokenizer_cache *cache,
                              const char *path, struct error *err) {
    struct counts c = {0};
    TRY(count_file(t, cache, path, &c, err));
    printf("\n%-18s %s\n", "text", path);
    printf("%-18s %" PRIu64 "\n", "bytes", c.bytes);
    printf("%-18s %" PRIu64 "\n", "lines", c.lines);
    printf("%-18s %" PRIu64 "\n", "words", c.words);
    printf("%-18s %" PRIu64 "\n", "tokens", c.tokens);
    printf("%-18s %.3f\n", "bytes a token", ratio(c.bytes, c.tokens));
    printf("%-18s %.3f\n", "tokens a word", ratio(c.tokens, c.words));
    return OK;
}

static enum status run(const struct call *call, struct error *err) {
    const struct inspect_options *options = call->values;
    const struct option_list *operands = &call->operands;
    if (operands->count == 0)
        return error_set(err, ERR_USAGE, "expected the DIR of a tokenizer, found none");
    struct tokenizer *t;
    TRY(tokenizer_load(&t, operands->items[0], &notices_stderr, err));
    tokenizer_set_invalid_utf8(t, command_invalid_utf8(options->invalid_utf8));
    print_tokenizer(operands->items[0], t);
    enum status status = OK;
    struct tokenizer_cache *cache = tokenizer_cache_new(t);
    if (!cache)
        status = error_set(err, ERR_MEMORY, "out of memory for a tokenizer's cache");
    for (int i = 1; i < operands->count && status == OK; i++)
        status = print_file(t, cache, operands->items[i], err);
    tokenizer_cache_free(cache);
    tokenizer_free(t);
    return status;
}

int command_inspect(int argc, char **argv) {
    struct inspect_options options;
    return options_run(&command, &options, argc, argv, run);
}
