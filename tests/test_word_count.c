/* test_word_count - words of files: lines, long lines, bad bytes, threads. */
#include "tokenizer/word_count.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/support.h"
#include "tokenizer/split.h"

static struct error error;

static struct word_count_options defaults(void) {
    return (struct word_count_options){.threads = 1, .progress = PROGRESS_NEVER};
}

static enum status count_paths(struct word_table *table, const char *const *paths,
                               int path_count, const struct word_count_options *options,
                               struct word_count_totals *totals) {
    SUPPORT_OK(word_table_open(table, &error), error);
    return word_count_files(table, paths, path_count, options, totals, &error);
}

static int compare_words(const void *a, const void *b) {
    const struct counted_word *x = a, *y = b;
    size_t shorter = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->bytes, y->bytes, shorter);
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

/* "word*count|..." in the order of their bytes, newlines as '/'. */
static char *words_text(const struct word_table *table) {
    struct counted_word *words;
    SUPPORT_OK(word_table_words(table, &words, &error), error);
    qsort(words, table->distinct, sizeof *words, compare_words);
    struct buffer out = {0};
    SUPPORT_OK(buffer_add(&out, "", 0, &error), error);
    for (size_t i = 0; i < table->distinct; i++)
        SUPPORT_OK(buffer_print(&out, &error, "%.*s*%llu|", (int)words[i].length,
                                (const char *)words[i].bytes,
                                (unsigned long long)words[i].count),
                   error);
    for (char *c = out.data; *c; c++)
        *c = *c == '\n' ? '/' : *c;
    free(words);
    return out.data;
}

static const struct {
    const char *name, *text;
    bool add_prefix_space;
    enum invalid_utf8 invalid_utf8;
    const char *words;
} line_cases[] = {
    {"an empty file has no words", "", false, 0, ""},
    {"a newline is a word of its line", "a\n\nb", false, 0, "/*2|a*1|b*1|"},
    {"whitespace never crosses a line", "a \n b\n", false, 0, "/*1| /*1| b*1|a*1|"},
    {"a carriage return stays", "a\r\n", false, 0, "\r/*1|a*1|"},
    {"a prefix space for each line that has none", "a b\n c\n\n", true, 0,
     "/*2| /*1| a*1| b*1| c*1|"},
    {"a bad byte is kept",
     "a\xff"
     "b\n",
     false, INVALID_UTF8_BYTES, "/*1|a*1|b*1|\xff*1|"},
    {"a bad byte is replaced", "a\xe2\x82z", false, INVALID_UTF8_REPLACE,
     "a*1|z*1|\xef\xbf\xbd*1|"},
    {"words of 15, 16 and 40 bytes",
     "fifteen_letters 1234567890123456 "
     "aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd",
     false, 0,
     " 1234567890123456*1| aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd*1|_*1|fifteen*1|"
     "letters*1|"},
};

static void lines_become_words(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof line_cases / sizeof line_cases[0]; i++) {
        const char *path = support_write("lines.txt", line_cases[i].text);
        struct word_count_options options = defaults();
        options.add_prefix_space = line_cases[i].add_prefix_space;
        options.invalid_utf8 = line_cases[i].invalid_utf8;
        struct word_table table;
        struct word_count_totals totals;
        SUPPORT_OK(count_paths(&table, &path, 1, &options, &totals), error);
        char *words = words_text(&table);
        print_message("%s\n", line_cases[i].name);
        assert_string_equal(words, line_cases[i].words);
        free(words);
        word_table_close(&table);
    }
}

/* A text of random words, spaces and signs without newlines, in which the pre-tokenizer
 * has something to decide everywhere. */
static struct buffer long_line(size_t length) {
    static const char *const parts[] = {"the ",     "a",
                                        " ",        "  ",
                                        "'s",       "'ll x",
                                        "12",       " 7",
                                        "\xc3\xa9", "\xe4\xb8\xad",
                                        "\t",       "Word ",
                                        "...",      " b",
                                        "-",        "\xf0\x9f\x98\x80 "};
    struct buffer out = {0};
    const struct rng r = rng_stream(7, RNG_TEST, 0, 0);
    for (uint32_t i = 0; out.length < length; i++) {
        uint32_t draw = rng_draw(r, i, 0, 0, 0).word[0];
        const char *part = parts[draw % (sizeof parts / sizeof parts[0])];
        SUPPORT_OK(buffer_add(&out, part, strlen(part), &error), error);
    }
    return out;
}

static void a_line_of_any_length_gives_the_words_of_the_whole_line(void **state) {
    (void)state;
    struct buffer text = long_line(3 << 20);
    const char *path = support_write_bytes("long.txt", text.data, text.length);
    struct word_table expected, found;
    struct word_count_totals totals;
    SUPPORT_OK(word_table_open(&expected, &error), error);
    SUPPORT_OK(buffer_reserve(&text, WORD_TABLE_PADDING, &error), error);
    const unsigned char *bytes = (const unsigned char *)text.data;
    for (size_t at = 0, end; at < text.length; at = end) {
        end = split_next(bytes, at, text.length);
        SUPPORT_OK(word_table_add(&expected, bytes + at, end - at, &error), error);
    }
    SUPPORT_OK(word_table_settle(&expected, &error), error);
    char *expected_words = words_text(&expected);
    for (int threads = 1; threads <= 3; threads++) {
        struct word_count_options options = defaults();
        options.threads = threads;
        SUPPORT_OK(count_paths(&found, &path, 1, &options, &totals), error);
        char *words = words_text(&found);
        assert_string_equal(words, expected_words);
        assert_int_equal(totals.lines, 1);
        assert_int_equal(totals.bytes, text.length);
        assert_int_equal(found.total, expected.total);
        free(words);
        word_table_close(&found);
    }
    free(expected_words);
    word_table_close(&expected);
    buffer_free(&text);
}

static void a_line_without_a_place_to_cut_is_one_word(void **state) {
    (void)state;
    size_t length = 1500000;
    char *text = malloc(length);
    assert_non_null(text);
    memset(text, 'x', length);
    const char *path = support_write_bytes("one.txt", text, length);
    struct word_count_options options = defaults();
    struct word_table table;
    struct word_count_totals totals;
    SUPPORT_OK(count_paths(&table, &path, 1, &options, &totals), error);
    assert_int_equal(table.distinct, 1);
    assert_int_equal(table.total, 1);
    word_table_close(&table);
    free(text);
}

static void a_gzip_file_counts_as_its_text(void **state) {
    (void)state;
    const char *paths[2] = {
        support_write("plain.txt", "to be or\nnot to be"),
        support_write_gzip("packed.txt.gz", "to be or\nnot to be", 0)};
    char *words[2];
    for (int i = 0; i < 2; i++) {
        struct word_count_options options = defaults();
        struct word_table table;
        struct word_count_totals totals;
        SUPPORT_OK(count_paths(&table, &paths[i], 1, &options, &totals), error);
        assert_int_equal(totals.lines, 2);
        words[i] = words_text(&table);
        word_table_close(&table);
    }
    assert_string_equal(words[0], words[1]);
    free(words[0]);
    free(words[1]);
}

static void a_file_ends_its_last_line(void **state) {
    (void)state;
    const char *paths[2] = {support_write("first.txt", "one"),
                            support_write("second.txt", "two")};
    struct word_count_options options = defaults();
    struct word_table table;
    struct word_count_totals totals;
    SUPPORT_OK(count_paths(&table, paths, 2, &options, &totals), error);
    char *words = words_text(&table);
    assert_string_equal(words, "one*1|two*1|");
    free(words);
    word_table_close(&table);
}

static const struct {
    const char *name, *bytes;
    size_t length;
    const char *sentence;
} bad_files[] = {
    {"a byte that is no UTF-8",
     "a\xff"
     "b",
     3, "*bad.txt: byte 1: expected UTF-8, found 0xFF*"},
    {"a character cut by the end of the file", "abc\n\xe2\x82", 6,
     "*bad.txt: byte 4: expected UTF-8, found 0xE2*"},
    {"UTF-16, little-endian",
     "\xff\xfe"
     "a\0",
     4,
     "*bad.txt: byte 0: expected UTF-8, found the byte-order mark of UTF-16 "
     "(little-endian)"},
    {"UTF-16, big-endian", "\xfe\xff\0a", 4, "*byte-order mark of UTF-16 (big-endian)"},
    {"UTF-32, little-endian", "\xff\xfe\0\0a\0\0\0", 8,
     "*byte-order mark of UTF-32 (little-endian)"},
    {"UTF-32, big-endian", "\0\0\xfe\xff\0\0\0a", 8,
     "*byte-order mark of UTF-32 (big-endian)"},
};

static void what_is_no_utf8_is_refused_with_file_and_byte(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad_files / sizeof bad_files[0]; i++) {
        const char *path =
            support_write_bytes("bad.txt", bad_files[i].bytes, bad_files[i].length);
        struct word_count_options options = defaults();
        struct word_table table;
        struct word_count_totals totals;
        print_message("%s\n", bad_files[i].name);
        assert_int_equal(count_paths(&table, &path, 1, &options, &totals), ERR_INPUT);
        support_assert_error(&error, ERR_INPUT, bad_files[i].sentence);
        word_table_close(&table);
    }
}

static void the_first_bad_byte_is_named_whatever_the_threads(void **state) {
    (void)state;
    size_t length = 4 << 20;
    char *text = malloc(length);
    assert_non_null(text);
    for (size_t i = 0; i < length; i++)
        text[i] = i % 10 == 9 ? '\n' : 'w';
    text[1234567] = text[1999998] = text[3999994] = (char)0xfe;
    const char *path = support_write_bytes("late.txt", text, length);
    for (int threads = 1; threads <= 4; threads++) {
        struct word_count_options options = defaults();
        options.threads = threads;
        struct word_table table;
        struct word_count_totals totals;
        assert_int_equal(count_paths(&table, &path, 1, &options, &totals), ERR_INPUT);
        support_assert_error(&error, ERR_INPUT, "*late.txt: byte 1234567: expected*");
        word_table_close(&table);
        options.invalid_utf8 = INVALID_UTF8_BYTES;
        SUPPORT_OK(count_paths(&table, &path, 1, &options, &totals), error);
        assert_int_equal(totals.invalid_places, 3);
        assert_int_equal(totals.invalid_offset, 1234567);
        assert_int_equal(totals.lines, (length + 9) / 10);
        word_table_close(&table);
    }
    free(text);
}

static void a_missing_file_is_an_error_before_any_reading(void **state) {
    (void)state;
    const char *paths[2] = {support_write("there.txt", "x"), "tests/data/no such file"};
    struct word_count_options options = defaults();
    struct word_table table;
    struct word_count_totals totals;
    assert_int_equal(count_paths(&table, paths, 2, &options, &totals), ERR_INPUT);
    support_assert_error(&error, ERR_INPUT, "tests/data/no such file*");
    assert_int_equal(table.total, 0);
    word_table_close(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_words),
        cmocka_unit_test(a_line_of_any_length_gives_the_words_of_the_whole_line),
        cmocka_unit_test(a_line_without_a_place_to_cut_is_one_word),
        cmocka_unit_test(a_gzip_file_counts_as_its_text),
        cmocka_unit_test(a_file_ends_its_last_line),
        cmocka_unit_test(what_is_no_utf8_is_refused_with_file_and_byte),
        cmocka_unit_test(the_first_bad_byte_is_named_whatever_the_threads),
        cmocka_unit_test(a_missing_file_is_an_error_before_any_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
