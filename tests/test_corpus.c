/* test_corpus - text files become token shards: contents, reuse, strict reading. */
#include "pretrain/corpus.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "tests/pretrain_data.h"

struct heard { /* what notices said */
    char text[4096];
};

static void hear(void *self, const char *text) {
    struct heard *h = self;
    const size_t used = strlen(h->text);
    snprintf(h->text + used, sizeof h->text - used, "%s\n", text);
}

/* A source below a folder of its own. */
struct fixture {
    struct tokenizer *tokenizer;
    const char *files[4];
    struct corpus_source source;
    struct heard heard;
    struct notices notices;
    struct corpus corpus;
    struct error err;
};

static void open_fixture(struct fixture *f, const char *directory) {
    *f = (struct fixture){.tokenizer = pretrain_data_tokenizer()};
    f->notices = (struct notices){hear, &f->heard};
    f->source = (struct corpus_source){.name = "train",
                                       .directory = strdup(support_path(directory)),
                                       .files = f->files,
                                       .threads = 1,
                                       .progress = PROGRESS_NEVER};
}

static void add_file(struct fixture *f, const char *path) {
    f->files[f->source.num_files++] = strdup(path);
}

static enum status prepare(struct fixture *f) {
    f->heard.text[0] = 0;
    return corpus_prepare(&f->corpus, &f->source, f->tokenizer, &f->notices, &f->err);
}

static void close_fixture(struct fixture *f) {
    corpus_close(&f->corpus);
    tokenizer_free(f->tokenizer);
    for (int i = 0; i < f->source.num_files; i++)
        free((char *)f->files[i]);
    free((char *)f->source.directory);
}

static const char *row(struct fixture *f) {
    int32_t ids[1024];
    assert_in_range(f->corpus.num_tokens, 1, 1024);
    SUPPORT_OK(corpus_read(&f->corpus, 0, f->corpus.num_tokens, ids, &f->err), f->err);
    return pretrain_data_tokens(f->tokenizer, ids, (int64_t)f->corpus.num_tokens);
}

static const char *shard_path(const struct fixture *f, int shard) {
    static char path[PATH_BYTES];
    struct error err;
    SUPPORT_OK(corpus_shard_path(path, f->source.directory, "train", shard, &err), err);
    return path;
}

/* ---- contents ---- */

static const struct example {
    const char *name, *text, *row;
    uint64_t documents;
} examples[] = {
    {"lines", "~\n^\n", "~</s>^</s>", 1},
    {"no newline at the end", "~\n^", "~</s>^</s>", 1},
    {"documents", "~\n\n^\n\n\n|\n\n", "~</s></s>^</s></s></s>|</s></s>", 3},
    {"blank means white space only", "~\n \t\n^\n", "~</s></s>^</s>", 2},
    {"CRLF", "~\r\n^\r\n\r\n|\r\n", "~</s>^</s></s>|</s>", 2},
    {"only one CR goes, and only before LF", "~\r\r\n^\r", "~č</s>^č</s>", 1},
};

static void rows_are_exact(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const struct example *e = &examples[i];
        struct fixture f;
        open_fixture(&f, "rows");
        add_file(&f, support_write("rows.txt", e->text));
        SUPPORT_OK(prepare(&f), f.err);
        if (strcmp(row(&f), e->row) != 0 || f.corpus.num_documents != e->documents)
            fail_msg("%s: expected %s, found %s in %d documents", e->name, e->row,
                     row(&f), (int)f.corpus.num_documents);
        close_fixture(&f);
    }
}

/* Case D07: U+2028, U+0085 and form feed end no line. */
static void only_line_feeds_end_lines(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, "feeds");
    add_file(&f, support_write("feeds.txt", "~\xE2\x80\xA8~\n~\xC2\x85~\n~\f~\n"));
    SUPPORT_OK(prepare(&f), f.err);
    int lines = 0;
    for (const char *at = row(&f); (at = strstr(at, "</s>")) != NULL; at++)
        lines++;
    assert_int_equal(lines, 3);
    close_fixture(&f);
}

static void files_are_joined_as_documents(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, "files");
    add_file(&f, support_write("one.txt", "~\n"));
    add_file(&f, support_write_gzip("two.raw", "^\n\n", 0)); /* told by its bytes */
    add_file(&f, support_write("empty.txt", ""));
    add_file(&f, support_write("three", "|"));
    SUPPORT_OK(prepare(&f), f.err);
    assert_string_equal(row(&f), "~</s></s>^</s></s>|</s>");
    assert_int_equal(f.corpus.num_documents, 3);
    close_fixture(&f);
}

static struct buffer shards_of(int threads, const char *directory, uint64_t shard_tokens,
                               const char *path) {
    struct fixture f;
    struct buffer all = {0};
    open_fixture(&f, directory);
    add_file(&f, path);
    f.source.threads = threads;
    f.source.shard_tokens = shard_tokens;
    SUPPORT_OK(prepare(&f), f.err);
    for (int i = 0; i < f.corpus.num_shards; i++) {
        struct buffer one = support_read(shard_path(&f, i));
        SUPPORT_OK(buffer_add(&all, one.data, one.length, &f.err), f.err);
        buffer_free(&one);
    }
    close_fixture(&f);
    return all;
}

static void shards_do_not_depend_on_threads(void **state) {
    (void)state;
    char *text = pretrain_data_text(40000, 3); /* several chunks */
    char *path = strdup(support_write("threads.txt", text));
    struct buffer one = shards_of(1, "threads1", 0, path);
    struct buffer three = shards_of(3, "threads3", 0, path);
    assert_int_equal(one.length, three.length);
    assert_memory_equal(one.data, three.data, one.length);
    buffer_free(&one);
    buffer_free(&three);
    free(path);
    free(text);
}

/* One row, whether it lies in one shard or many. */
static void reading_crosses_shards(void **state) {
    (void)state;
    char *text = pretrain_data_text(40000, 4);
    struct fixture whole, parts;
    open_fixture(&whole, "whole");
    open_fixture(&parts, "parts");
    add_file(&whole, support_write("crossing.txt", text));
    add_file(&parts, support_path("crossing.txt"));
    parts.source.shard_tokens = 1000; /* a chunk of lines each */
    SUPPORT_OK(prepare(&whole), whole.err);
    SUPPORT_OK(prepare(&parts), parts.err);
    assert_int_equal(whole.corpus.num_shards, 1);
    assert_true(parts.corpus.num_shards > 3);
    assert_int_equal(whole.corpus.num_tokens, parts.corpus.num_tokens);
    assert_int_equal(whole.corpus.num_documents, parts.corpus.num_documents);
    const size_t count = whole.corpus.num_tokens;
    int32_t *a = malloc(count * sizeof *a), *b = malloc(count * sizeof *b);
    SUPPORT_OK(corpus_read(&whole.corpus, 0, count, a, &whole.err), whole.err);
    SUPPORT_OK(corpus_read(&parts.corpus, 0, count, b, &parts.err), parts.err);
    assert_memory_equal(a, b, count * sizeof *a);
    SUPPORT_OK(corpus_read(&parts.corpus, 77, count - 99, b, &parts.err), parts.err);
    assert_memory_equal(a + 77, b, (count - 99) * sizeof *a);
    free(a);
    free(b);
    close_fixture(&whole);
    close_fixture(&parts);
    free(text);
}

/* ---- reuse ---- */

static void reprepare(struct fixture *f, const char *expected) {
    corpus_close(&f->corpus);
    SUPPORT_OK(prepare(f), f->err);
    if (!strstr(f->heard.text, expected))
        fail_msg("expected a notice with \"%s\", found \"%s\"", expected, f->heard.text);
}

static void shards_are_reused_only_when_nothing_changed(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, "reuse");
    add_file(&f, support_write("reuse.txt", "~\n"));
    SUPPORT_OK(prepare(&f), f.err);
    assert_string_equal(f.heard.text, "");
    reprepare(&f, "token shards of train data reused");
    support_write("reuse.txt", "^^\n");
    reprepare(&f, "made anew: the files are others or have changed");
    assert_string_equal(row(&f), "^^</s>");
    f.source.invalid_utf8 = INVALID_UTF8_BYTES;
    reprepare(&f, "made anew: --invalid-utf8 is another");
    add_file(&f, support_write("more.txt", "|\n"));
    reprepare(&f, "made anew: the files are others or have changed");
    reprepare(&f, "token shards of train data reused");
    assert_string_equal(row(&f), "^^</s></s>|</s>");
    assert_int_equal(truncate(shard_path(&f, 0), 70), 0);
    reprepare(&f, "made anew: ");
    assert_string_equal(row(&f), "^^</s></s>|</s>");
    assert_int_equal(unlink(shard_path(&f, 0)), 0);
    reprepare(&f, "made anew: ");
    close_fixture(&f);
}

/* The checksum is of the contents: it is what a resumed run compares. */
static void checksums_follow_the_contents(void **state) {
    (void)state;
    uint64_t sums[3];
    const char *const texts[] = {"~\n^\n", "~\n^\n", "~\n|\n"};
    for (int i = 0; i < 3; i++) {
        struct fixture f;
        open_fixture(&f, "sums");
        add_file(&f, support_write(i == 0 ? "sum0" : i == 1 ? "sum1" : "sum2", texts[i]));
        SUPPORT_OK(prepare(&f), f.err);
        sums[i] = corpus_checksum(&f.corpus);
        close_fixture(&f);
    }
    assert_true(sums[0] == sums[1] && sums[0] != sums[2]);
}

/* ---- bad input ---- */

static void bad_text_is_named_and_nothing_is_left(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, "bad");
    add_file(&f, support_write_bytes("bad.txt",
                                     "fine\na\xFF"
                                     "b\n",
                                     9));
    assert_int_equal(prepare(&f), ERR_INPUT);
    support_assert_error(&f.err, ERR_INPUT,
                         "*bad.txt:2: byte 1: expected UTF-8, found 0xFF");
    assert_false(file_exists(f.source.directory));
    tokenizer_set_invalid_utf8(f.tokenizer, INVALID_UTF8_REPLACE);
    f.source.invalid_utf8 = INVALID_UTF8_REPLACE;
    SUPPORT_OK(prepare(&f), f.err);
    close_fixture(&f);
}

static void a_signal_stops_between_rounds(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, "signal");
    add_file(&f, support_write("signal.txt", "~\n"));
    interrupt_install();
    raise(SIGTERM);
    assert_int_equal(prepare(&f), STOPPED_SIGTERM);
    support_assert_error(&f.err, STOPPED_SIGTERM, "stopped by a signal in the text");
    interrupt_install(); /* forgets the signal */
    reprepare(&f, "");
    close_fixture(&f);
}

static void no_text_is_an_error(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, "none");
    add_file(&f, support_write("none.txt", "\n \n"));
    assert_int_equal(prepare(&f), ERR_INPUT);
    support_assert_error(&f.err, ERR_INPUT, "*none.txt: no text to make train data of");
    close_fixture(&f);
    open_fixture(&f, "none");
    add_file(&f, support_path("missing.txt"));
    assert_int_equal(prepare(&f), ERR_INPUT);
    support_assert_error(&f.err, ERR_INPUT, "*missing.txt: *No such file*");
    close_fixture(&f);
}

static void a_failure_leaves_no_folder_that_it_made(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, "new/below/data");
    add_file(&f, support_write("bad_bytes.txt", "fine\n\xff\n"));
    assert_int_equal(prepare(&f), ERR_INPUT);
    assert_false(file_exists(support_path("new")));
    close_fixture(&f);
    assert_int_equal(file_make_directory(support_path("mine"), &f.err), OK);
    open_fixture(&f, "mine/data");
    add_file(&f, support_path("bad_bytes.txt"));
    assert_int_equal(prepare(&f), ERR_INPUT);
    assert_false(file_exists(support_path("mine/data")));
    assert_true(file_is_directory(support_path("mine")));
    close_fixture(&f);
}

/* ---- strict reading ---- */

static const struct damage {
    const char *name;
    size_t at;
    uint64_t value;
    size_t bytes; /* of value; 0 = cut the file at `at` */
    const char *sentence;
} damages[] = {
    {"magic", 0, 'X', 1, "*: no token shard (magic NGTOKENS not found)"},
    {"empty", 0, 0, 0, "*: no token shard (magic NGTOKENS not found)"},
    {"short header", 63, 0, 0, "*: no token shard (magic NGTOKENS not found)"},
    {"version", 8, 2, 4, "*: expected token shard version 1, found 2"},
    {"byte order", 8, 1U << 24, 4, "*: expected token shard version 1, found 16777216"},
    {"width", 12, 3, 4, "*: damaged header (3 bytes a token)"},
    {"reserved", 48, 1, 1, "*: damaged header (2 bytes a token)"},
    {"vocabulary", 40, 70000, 4, "*: damaged header (70000 ids in 2 bytes)"},
    {"no vocabulary", 40, 0, 4, "*: damaged header (0 ids in 2 bytes)"},
    {"more tokens", 24, 9, 8, "*: 96 bytes do not hold the 9 tokens and 2 documents*"},
    {"wrapping tokens", 24, UINT64_MAX / 2, 8, "*: 96 bytes do not hold the *"},
    {"wrapping documents", 32, UINT64_MAX / 8 + 1, 8, "*: 96 bytes do not hold the *"},
    {"cut", 95, 0, 0, "*: 95 bytes do not hold the 5 tokens and 2 documents*"},
    {"tokenizer", 16, 5, 8, "*: made with another tokenizer"},
    {"other vocabulary", 40, 2001, 4, "*: made with another tokenizer"},
    {"document order", 88, 0, 8,
     "*: document 1 begins at token 0: expected ascending places below 5"},
    {"document beyond", 88, 5, 8,
     "*: document 1 begins at token 5: expected ascending places below 5"},
};

static void damaged_shards_are_refused(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, "damage");
    add_file(&f, support_write("damage.txt", "~\n\n^"));
    SUPPORT_OK(prepare(&f), f.err);
    assert_int_equal(f.corpus.num_tokens, 5);
    struct buffer good = support_read(shard_path(&f, 0));
    corpus_close(&f.corpus);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        const struct damage *d = &damages[i];
        char *bytes = malloc(good.length);
        memcpy(bytes, good.data, good.length);
        memcpy(bytes + d->at, &d->value, d->bytes);
        FILE *file = fopen(shard_path(&f, 0), "wb");
        fwrite(bytes, 1, d->bytes ? good.length : d->at, file);
        fclose(file);
        free(bytes);
        if (corpus_open(&f.corpus, f.source.directory, "train", 1, f.tokenizer, &f.err) ==
            OK)
            fail_msg("%s: was accepted", d->name);
        support_assert_error(&f.err, ERR_INPUT, d->sentence);
    }
    buffer_free(&good);
    close_fixture(&f);
}

static void ids_beyond_the_vocabulary_are_refused(void **state) {
    (void)state;
    struct fixture f;
    int32_t ids[5];
    open_fixture(&f, "ids");
    add_file(&f, support_write("ids.txt", "~\n\n^"));
    SUPPORT_OK(prepare(&f), f.err);
    corpus_close(&f.corpus);
    FILE *file = fopen(shard_path(&f, 0), "r+b");
    fseek(file, 64 + 4, SEEK_SET);
    fwrite("\xD0\x07", 1, 2, file); /* 2000 */
    fclose(file);
    SUPPORT_OK(
        corpus_open(&f.corpus, f.source.directory, "train", 1, f.tokenizer, &f.err),
        f.err);
    assert_int_equal(corpus_read(&f.corpus, 0, 5, ids, &f.err), ERR_INPUT);
    support_assert_error(&f.err, ERR_INPUT,
                         "*: id 2000 among tokens 0..4: expected ids below 2000");
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_exact),
        cmocka_unit_test(only_line_feeds_end_lines),
        cmocka_unit_test(files_are_joined_as_documents),
        cmocka_unit_test(shards_do_not_depend_on_threads),
        cmocka_unit_test(reading_crosses_shards),
        cmocka_unit_test(shards_are_reused_only_when_nothing_changed),
        cmocka_unit_test(checksums_follow_the_contents),
        cmocka_unit_test(bad_text_is_named_and_nothing_is_left),
        cmocka_unit_test(a_signal_stops_between_rounds),
        cmocka_unit_test(no_text_is_an_error),
        cmocka_unit_test(a_failure_leaves_no_folder_that_it_made),
        cmocka_unit_test(damaged_shards_are_refused),
        cmocka_unit_test(ids_beyond_the_vocabulary_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
