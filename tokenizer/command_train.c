/* command_train - normglue tokenizer train.
 *
 * What can be refused is refused before any text is read: options, sizes, the output
 * folder, missing files. Files are written at the end only, each whole or not at all.
 *
 *   word_count_files    distinct words and their counts, by several threads
 *   bpe_train           merges, by one: each depends on the one before
 *   tokenizer_save      through tokenizer_from_trained, so that what is written is what
 *                       this program itself would load
 *
 * The counts are all that training needs of the text, so memory is bounded by the
 * distinct words, not by the size of the files. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/options.h"
#include "tokenizer/bpe_train.h"
#include "tokenizer/command.h"
#include "tokenizer/unicode.h"
#include "tokenizer/word_count.h"

enum { BYTES = 256 };

struct train_options {
    struct options_state *state;
    const char *output, *normalization, *invalid_utf8, *progress;
    struct option_list special_tokens;
    int64_t vocab_size, min_frequency, max_token_length, threads;
    bool add_prefix_space, overwrite;
};

#define FIELD(name) offsetof(struct train_options, name)

static const char vocabulary[] = "Vocabulary", text[] = "Text", run[] = "Run";

static const struct option table[] = {
    {"vocab-size", OPTION_INTEGER, FIELD(vocab_size), "50265", 0, 1 << 24, NULL,
     vocabulary, "entries, with the special tokens and the 256 bytes", false},
    {"min-frequency", OPTION_INTEGER, FIELD(min_frequency), "2", 0, 1e18, NULL,
     vocabulary, "merge only pairs that occur so often", false},
    {"special-tokens", OPTION_LIST, FIELD(special_tokens), "<s> <pad> </s> <unk> <mask>",
     0, 0, "TOKEN", vocabulary,
     "they take the first ids; end the list with -- before FILE", false},
    {"max-token-length", OPTION_INTEGER, FIELD(max_token_length), NULL, 2, 1e9, NULL,
     vocabulary, "new tokens are shorter than this many bytes, or two; unset = any",
     false},
    {"add-prefix-space", OPTION_FLAG, FIELD(add_prefix_space), "false", 0, 0, NULL, text,
     "put a space before each line that does not begin with one", false},
    {"normalization", OPTION_STRING, FIELD(normalization), NULL, 0, 0, "NAME,...", text,
     "steps before the text is cut into words: nfc, nfd, nfkc, nfkd, lowercase", false},
    {"invalid-utf8", OPTION_CHOICE, FIELD(invalid_utf8), "error", 0, 0,
     COMMAND_INVALID_UTF8, text,
     "what is no UTF-8: an error, U+FFFD, or bytes as they are", false},
    {"output", OPTION_STRING, FIELD(output), NULL, 0, 0, "DIR", run,
     "folder for the tokenizer's files", true},
    {"overwrite", OPTION_FLAG, FIELD(overwrite), "false", 0, 0, NULL, run,
     "use an output folder that is not empty", false},
    {"threads", OPTION_INTEGER, FIELD(threads), "0", 0, 4096, NULL, run,
     "threads; 0 = as many as the process may use", false},
    {"progress", OPTION_CHOICE, FIELD(progress), "auto", 0, 0, PROGRESS_WORDS, run,
     "progress bar; auto = on a terminal", false},
    {NULL, OPTION_FLAG, 0, NULL, 0, 0, NULL, NULL, NULL, false},
};

static const struct command command = {
    .name = "normglue tokenizer train",
    .usage = "--output DIR [OPTION]... [--] FILE...",
    .summary =
        "Learns a byte-level BPE vocabulary from text files, plain or gzip (- is "
        "stdin), byte for byte as Hugging Face tokenizers does, and writes "
        "vocab.json, merges.txt, tokenizer.json, tokenizer_config.json and "
        "special_tokens_map.json.",
    .epilog =
        "A line with its newline is one text. The result does not depend on the "
        "number of threads.\nExample:\n\n"
        "  normglue tokenizer train --vocab-size 50265 --output tok/ corpus.txt "
        "more.txt.gz",
    .options = table,
    .operands = "FILE",
};

static bool is_repeated(const struct option_list *list, int at) {
    for (int i = 0; i < at; i++)
        if (strcmp(list->items[i], list->items[at]) == 0)
            return true;
    return false;
}

static enum status check_specials(const struct train_options *o, struct error *err) {
    for (int i = 0; i < o->special_tokens.count; i++) {
        const char *token = o->special_tokens.items[i];
        size_t length = strlen(token);
        if (length == 0)
            return error_set(err, ERR_USAGE,
                             "--special-tokens: expected text, found an empty token");
        if (unicode_valid_prefix((const unsigned char *)token, length) < length)
            return error_set(err, ERR_USAGE,
                             "--special-tokens: expected UTF-8, found \"%s\"", token);
        if (is_repeated(&o->special_tokens, i))
            return error_set(err, ERR_USAGE, "--special-tokens: \"%s\" is given twice",
                             token);
    }
    return OK;
}

static enum status check_size(const struct train_options *o, struct error *err) {
    int specials = o->special_tokens.count;
    if (o->vocab_size >= BYTES + specials)
        return OK;
    return error_set(err, ERR_USAGE,
                     "--vocab-size %lld: the minimum is %d = %d bytes + %d specials",
                     (long long)o->vocab_size, BYTES + specials, BYTES, specials);
}

static bool is_dots(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* An output folder that holds anything is refused unless --overwrite is given. */
static enum status check_output(const struct train_options *o, struct error *err) {
    if (o->overwrite)
        return OK;
    DIR *directory = opendir(o->output);
    if (!directory)
        return errno == ENOENT ? OK : error_system(err, o->output, "cannot open");
    const struct dirent *entry = readdir(directory);
    while (entry && is_dots(entry->d_name))
        entry = readdir(directory);
    enum status status = OK;
    if (entry)
        status = error_set(err, ERR_USAGE,
                           "--output %s: the folder is not empty (it holds \"%s\"); "
                           "--overwrite replaces the tokenizer's files in it",
                           o->output, entry->d_name);
    closedir(directory);
    return status;
}

static enum status check(const struct train_options *o, const struct option_list *files,
                         struct error *err) {
    if (files->count == 0)
        return error_set(err, ERR_USAGE, "expected a FILE to learn from, found none");
    TRY(check_specials(o, err));
    TRY(check_size(o, err));
    return check_output(o, err);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* All 256 bytes are tokens, so that no text is ever unknown. */
static enum status learn(const struct train_options *o, const struct word_table *words,
                         struct bpe_trained *trained, struct error *err) {
    struct counted_word *list;
    TRY(word_table_words(words, &list, err));
    struct bpe_train_options options = {
        .vocab_size = (int32_t)o->vocab_size,
        .min_frequency = (uint64_t)o->min_frequency,
        .max_token_length = o->max_token_length == OPTION_UNSET_INTEGER
                                ? 0
                                : (uint64_t)o->max_token_length,
        .all_bytes = true,
        .specials = o->special_tokens.items,
        .special_count = o->special_tokens.count,
        .progress =
            progress_open(progress_mode_named(o->progress), "merging", "merges",
                          (uint64_t)(o->vocab_size - BYTES - o->special_tokens.count)),
    };
    enum status status = bpe_train(trained, list, words->distinct, &options, err);
    progress_close(options.progress);
    free(list);
    return status;
}

static void say_what_was_invalid(const struct train_options *o,
                                 const struct word_count_totals *totals) {
    if (totals->invalid_places)
        notice(
            &notices_stderr, "%s: byte %llu is no UTF-8; %llu such places were %s",
            totals->invalid_path, (unsigned long long)totals->invalid_offset,
            (unsigned long long)totals->invalid_places,
            strcmp(o->invalid_utf8, "bytes") == 0 ? "kept as bytes" : "read as U+FFFD");
}

static void say_what_was_done(const struct train_options *o,
                              const struct bpe_trained *trained,
                              const struct word_table *words,
                              const struct word_count_totals *totals, double taken) {
    if (trained->size < o->vocab_size)
        notice(&notices_stderr,
               "no pair occurs %lld times any more: the vocabulary has %d entries, "
               "not %lld",
               (long long)(o->min_frequency > 1 ? o->min_frequency : 1), trained->size,
               (long long)o->vocab_size);
    notice(&notices_stderr,
           "%s: %d entries (%d merges) from %llu lines, %llu bytes, %llu words, "
           "%zu distinct; %.2f s, %.0f MB/s",
           o->output, trained->size, trained->merge_count,
           (unsigned long long)totals->lines, (unsigned long long)totals->bytes,
           (unsigned long long)words->total, words->distinct, taken,
           1e-6 * (double)totals->bytes / (taken > 0 ? taken : 1e-9));
}

/* -- the run --------------------------------------------------------------------------
 */

/* Hands each step of "nfkc,lowercase" to `add`. */
static enum status each_step(const char *steps,
                             enum status (*add)(void *self, const char *name,
                                                struct error *err),
                             void *self, struct error *err) {
    for (const char *at = steps; at && *at; at += strspn(at, ",")) {
        char name[32];
        size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)(length < 31 ? length : 31), at);
        if (add(self, name, err) != OK) {
            error_context(err, "--normalization");
            return err->status = ERR_USAGE;
        }
        at += length;
    }
    return OK;
}

static enum status add_to_normalizer(void *self, const char *name, struct error *err) {
    return normalizer_add(self, name, err);
}

static enum status add_to_tokenizer(void *self, const char *name, struct error *err) {
    return tokenizer_add_normalizer(self, name, err);
}

/* Settings that training does not know of are added to the tokenizer, then written with
 * it. */
static enum status save(const struct train_options *o, const struct bpe_trained *trained,
                        struct error *err) {
    struct tokenizer *t;
    TRY(tokenizer_from_trained(&t, trained, err));
    tokenizer_set_add_prefix_space(t, o->add_prefix_space);
    enum status status = each_step(o->normalization, add_to_tokenizer, t, err);
    if (status == OK)
        status = file_make_directory(o->output, err);
    if (status == OK)
        status = tokenizer_save(t, o->output, err);
    tokenizer_free(t);
    return status;
}

static enum status train_on(const struct train_options *o,
                            const struct option_list *files,
                            const struct normalizer *normalizer, struct word_table *words,
                            struct error *err) {
    const struct word_count_options counting = {
        .add_prefix_space = o->add_prefix_space,
        .invalid_utf8 = command_invalid_utf8(o->invalid_utf8),
        .normalizer = normalizer,
        .threads = command_threads(o->threads),
        .progress = progress_mode_named(o->progress),
    };
    struct word_count_totals totals;
    struct bpe_trained trained;
    double begin = seconds();
    TRY(word_count_files(words, files->items, files->count, &counting, &totals, err));
    say_what_was_invalid(o, &totals);
    TRY(learn(o, words, &trained, err));
    double taken = seconds() - begin;
    enum status status = save(o, &trained, err);
    if (status == OK)
        say_what_was_done(o, &trained, words, &totals, taken);
    bpe_trained_free(&trained);
    return status;
}

static enum status run_training(const struct call *call, struct error *err) {
    const struct train_options *o = call->values;
    const struct option_list *files = &call->operands;
    struct word_table words;
    struct normalizer normalizer = {0};
    TRY(check(o, files, err));
    TRY(each_step(o->normalization, add_to_normalizer, &normalizer, err));
    enum status status = word_table_open(&words, err);
    if (status == OK)
        status = train_on(o, files, &normalizer, &words, err);
    word_table_close(&words);
    return status;
}

int command_train(int argc, char **argv) {
    struct train_options options;
    return options_run(&command, &options, argc, argv, run_training);
}
