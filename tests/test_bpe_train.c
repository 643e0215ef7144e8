/* test_bpe_train - training against Hugging Face's files, byte for byte, and the rule in
 * small. */
#include "tokenizer/bpe_train.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "tokenizer/word_count.h"

#define DATA "tests/data/tokenizer/train/"

static struct error error;
#define MUST(call) assert_int_equal_or_say(call, __LINE__)

static void assert_int_equal_or_say(enum status status, int line) {
    if (status != OK)
        fail_msg("line %d: status %d: %s", line, status, error.text);
}

/* A row of the index of golden runs. */
struct golden {
    char name[64], corpus[32];
    int add_prefix_space, all_bytes;
    long vocab_size, min_frequency, max_token_length, size, merges;
    json_t *specials;
};

static void parse_golden(struct golden *g, const char *line) {
    char specials[256];
    int fields = sscanf(
        line, "%63[^\t]\t%31[^\t]\t%d\t%ld\t%ld\t%d\t%ld\t%255[^\t]\t%ld\t%ld", g->name,
        g->corpus, &g->add_prefix_space, &g->vocab_size, &g->min_frequency, &g->all_bytes,
        &g->max_token_length, specials, &g->size, &g->merges);
    assert_int_equal(fields, 10);
    g->specials = json_loads(specials, 0, NULL);
    assert_non_null(g->specials);
}

static void read_whole(struct buffer *out, const char *name, const char *ending) {
    char path[256];
    snprintf(path, sizeof path, DATA "%s%s", name, ending);
    struct reader *reader;
    MUST(reader_open(&reader, path, &error));
    size_t got = 1;
    while (got) {
        MUST(buffer_reserve(out, 1 << 16, &error));
        MUST(reader_read(reader, out->data + out->length, 1 << 16, &got, &error));
        out->length += got;
    }
    reader_close(reader);
}

static void write_vocabulary(struct buffer *out, const struct bpe_trained *trained) {
    MUST(buffer_add(out, "{", 1, &error));
    for (int32_t id = 0; id < trained->size; id++) {
        size_t length;
        const char *text = bpe_trained_token(trained, id, &length);
        MUST(buffer_add(out, ",", id > 0, &error));
        MUST(buffer_add_json_string(out, text, length, &error));
        MUST(buffer_print(out, &error, ":%d", id));
    }
    MUST(buffer_add(out, "}", 1, &error));
}

static void write_merges(struct buffer *out, const struct bpe_trained *trained) {
    for (int32_t i = 0; i < trained->merge_count; i++) {
        size_t left, right;
        const char *l = bpe_trained_token(trained, trained->merges[i].left, &left);
        const char *r = bpe_trained_token(trained, trained->merges[i].right, &right);
        MUST(buffer_print(out, &error, "%.*s %.*s\n", (int)left, l, (int)right, r));
    }
}

static void assert_same_file(const struct buffer *ours, const char *name,
                             const char *ending) {
    struct buffer golden = {0};
    read_whole(&golden, name, ending);
    if (golden.length != ours->length ||
        memcmp(golden.data, ours->data, golden.length) != 0)
        fail_msg("%s%s differs", name, ending);
    buffer_free(&golden);
}

static void count_corpus(struct word_table *table, const struct golden *g, int threads) {
    char path[256];
    snprintf(path, sizeof path, DATA "corpus_%s.txt.gz", g->corpus);
    const struct word_count_options options = {
        .add_prefix_space = g->add_prefix_space,
        .threads = threads,
        .progress = PROGRESS_NEVER,
    };
    struct word_count_totals totals;
    MUST(word_table_open(table, &error));
    const char *paths[] = {path};
    MUST(word_count_files(table, paths, 1, &options, &totals, &error));
}

static void train_golden(struct bpe_trained *out, const struct golden *g, int threads) {
    struct word_table table;
    struct counted_word *words;
    const char *specials[16];
    count_corpus(&table, g, threads);
    MUST(word_table_words(&table, &words, &error));
    for (size_t i = 0; i < json_array_size(g->specials); i++)
        specials[i] = json_string_value(json_array_get(g->specials, i));
    const struct bpe_train_options options = {
        .vocab_size = (int32_t)g->vocab_size,
        .min_frequency = (uint64_t)g->min_frequency,
        .max_token_length = g->max_token_length < 0 ? 0 : (uint64_t)g->max_token_length,
        .all_bytes = g->all_bytes,
        .specials = specials,
        .special_count = (int)json_array_size(g->specials),
    };
    MUST(bpe_train(out, words, table.distinct, &options, &error));
    free(words);
    word_table_close(&table);
}

static void check_golden(const struct golden *g, int threads) {
    struct bpe_trained trained;
    train_golden(&trained, g, threads);
    assert_int_equal(trained.size, g->size);
    assert_int_equal(trained.merge_count, g->merges);
    struct buffer vocabulary = {0}, merges = {0};
    write_vocabulary(&vocabulary, &trained);
    assert_same_file(&vocabulary, g->name, ".vocab.json.gz");
    MUST(buffer_print(&merges, &error, "#version: 0.2\n"));
    write_merges(&merges, &trained);
    assert_same_file(&merges, g->name, ".merges.txt.gz");
    buffer_free(&vocabulary);
    buffer_free(&merges);
    bpe_trained_free(&trained);
}

static void every_golden_run_is_reproduced_with_1_and_2_threads(void **state) {
    (void)state;
    struct buffer index = {0};
    read_whole(&index, "index", ".tsv");
    int runs = 0;
    char *rest;
    strtok_r(index.data, "\n", &rest);
    for (char *line; (line = strtok_r(NULL, "\n", &rest)); runs++) {
        struct golden g;
        parse_golden(&g, line);
        check_golden(&g, 1);
        check_golden(&g, 2);
        json_decref(g.specials);
    }
    assert_int_equal(runs, 34);
    buffer_free(&index);
}

/* Words in C strings with their counts, and the merges as text. */
struct small_case {
    const char *name;
    struct {
        const char *text;
        uint64_t count;
    } words[4];
    int vocab_size, min_frequency;
    const char *merges;
};

static const struct small_case small_cases[] = {
    {"ties: highest count, then lowest ids",
     {{"bbbaaaddddcccc", 1}},
     8,
     0,
     "c c\nd d\na a\nb b\n"},
    {"the same from another order",
     {{"aaabbbccccdddd", 1}},
     8,
     0,
     "c c\nd d\na a\nb b\n"},
    {"a count beyond 32 bits is merged first",
     {{"aa", 3000000000}, {"bc", 2147483647}, {"de", 2}},
     6,
     0,
     "a a\n"},
    {"a count beyond 32 bits in sum",
     {{"xaa", 2000000000}, {"yaa", 2000000000}, {"bc", 3999999999}},
     7,
     0,
     "a a\nb c\n"},
    {"overlaps count, merges do not overlap",
     {{"aaa", 2}, {"bc", 3}},
     5,
     0,
     "a a\nb c\n"},
    {"min_frequency 2 leaves what occurs once", {{"ab", 2}, {"cd", 1}}, 99, 2, "a b\n"},
    {"min_frequency 0 is as 1", {{"ab", 2}, {"cd", 1}}, 99, 0, "a b\nc d\n"},
    {"single bytes have no pair", {{"a", 9}, {"b", 9}}, 99, 0, ""},
};

static void the_rule_holds_in_small_cases(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof small_cases / sizeof small_cases[0]; i++) {
        const struct small_case *c = &small_cases[i];
        struct counted_word words[4];
        size_t count = 0;
        for (; count < 4 && c->words[count].text; count++)
            words[count] = (struct counted_word){
                (const unsigned char *)c->words[count].text, strlen(c->words[count].text),
                c->words[count].count};
        const struct bpe_train_options options = {
            .vocab_size = c->vocab_size, .min_frequency = (uint64_t)c->min_frequency};
        struct bpe_trained trained;
        MUST(bpe_train(&trained, words, count, &options, &error));
        struct buffer merges = {0};
        MUST(buffer_add(&merges, "", 0, &error));
        write_merges(&merges, &trained);
        print_message("%s\n", c->name);
        assert_string_equal(merges.data, c->merges);
        buffer_free(&merges);
        bpe_trained_free(&trained);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_golden_run_is_reproduced_with_1_and_2_threads),
        cmocka_unit_test(the_rule_holds_in_small_cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
