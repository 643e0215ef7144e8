/* test_tokenizer_command - normglue tokenizer train, encode, decode and inspect, as a
 * user runs them. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tests/capture.h"
#include "tests/support.h"
#include "tokenizer/tokenizer.h"

#define DATA "tests/data/tokenizer/train/"
#define CORPUS DATA "corpus_syn100k.txt.gz"

static struct error error;

enum { MOST_WORDS = 24 };

/* Runs the words, which end with NULL. */
static struct captured run(const char *input, const char *const *words) {
    return capture(tokenizer_command, input, words);
}
#define RUN(input, ...) run(input, (const char *const[]){__VA_ARGS__, NULL})

static void assert_ran(struct captured *c) {
    if (c->code != 0)
        fail_msg("exit code %d: %s", c->code, c->err.data);
}

/* A path that outlives the next calls of support. */
static const char *keep(char kept[PATH_BYTES], const char *path) {
    snprintf(kept, PATH_BYTES, "%s", path);
    return kept;
}

static struct buffer read_gzip(const char *path) {
    struct buffer out = {0};
    struct reader *reader;
    SUPPORT_OK(reader_open(&reader, path, &error), error);
    size_t got = 1;
    while (got) {
        SUPPORT_OK(buffer_reserve(&out, 1 << 16, &error), error);
        SUPPORT_OK(reader_read(reader, out.data + out.length, 1 << 16, &got, &error),
                   error);
        out.length += got;
    }
    reader_close(reader);
    return out;
}

static void assert_same_bytes(const char *path, const char *golden) {
    struct buffer ours = support_read(path), theirs = read_gzip(golden);
    assert_int_equal(ours.length, theirs.length);
    assert_memory_equal(ours.data, theirs.data, ours.length);
    buffer_free(&ours);
    buffer_free(&theirs);
}

/* The folder of a tokenizer of 1,000 entries, made once. */
static const char *trained(void) {
    static char folder[PATH_BYTES];
    if (folder[0])
        return folder;
    snprintf(folder, sizeof folder, "%s", support_path("trained"));
    struct captured c = RUN("", "train", "--vocab-size", "1000", "--output", folder,
                            "--progress", "never", CORPUS);
    assert_ran(&c);
    captured_free(&c);
    return folder;
}

static void training_writes_the_files_of_hugging_face(void **state) {
    (void)state;
    static const char *const names[] = {"vocab.json", "merges.txt", "tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json"};
    char path[PATH_BYTES];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        SUPPORT_OK(file_join(path, trained(), names[i], &error), error);
        assert_true(file_exists(path));
    }
    SUPPORT_OK(file_join(path, trained(), "vocab.json", &error), error);
    assert_same_bytes(path, DATA "syn100k_blbpe1000.vocab.json.gz");
    SUPPORT_OK(file_join(path, trained(), "merges.txt", &error), error);
    assert_same_bytes(path, DATA "syn100k_blbpe1000.merges.txt.gz");
}

static void training_says_what_it_read_and_made(void **state) {
    (void)state;
    const char *corpus = support_write("small.txt", "low low low lower\nlow\n");
    struct captured c = RUN("", "train", "--vocab-size=300", "--output",
                            support_path("small"), "--progress", "never", corpus);
    assert_ran(&c);
    assert_int_equal(c.out.length, 0);
    assert_non_null(strstr(c.err.data,
                           "no pair occurs 2 times any more: the vocabulary "
                           "has 264 entries, not 300"));
    assert_non_null(strstr(c.err.data,
                           "small: 264 entries (3 merges) from 2 lines, 22 "
                           "bytes, 7 words, 4 distinct; "));
    captured_free(&c);
}

static void training_reads_stdin_and_several_files_alike(void **state) {
    (void)state;
    const char *paths[] = {support_write("half1.txt", "one fish two\n"),
                           support_write_gzip("half2.txt.gz", "fish red fish\n", 0)};
    struct captured a = RUN("", "train", "--vocab-size=280", "--output",
                            support_path("halves"), paths[0], paths[1]);
    assert_ran(&a);
    struct captured b = RUN("one fish two\nfish red fish\n", "train", "--vocab-size=280",
                            "--threads=2", "--output", support_path("from_stdin"), "-");
    assert_ran(&b);
    struct buffer first = support_read(support_path("halves/tokenizer.json"));
    struct buffer second = support_read(support_path("from_stdin/tokenizer.json"));
    assert_string_equal(first.data, second.data);
    buffer_free(&first);
    buffer_free(&second);
    captured_free(&a);
    captured_free(&b);
}

/* What a wrong command gets; OUT stands for a folder that does not exist, FULL for one
 * that is not empty, TRAINED for a tokenizer, BAD for a file that is no UTF-8. */
static const struct {
    const char *words[MOST_WORDS], *input;
    int code;
    const char *sentence;
} refusals[] = {
    {{"trian"}, "", 2, "*unknown subcommand 'trian'; did you mean 'train'?*"},
    {{"train", "--output", "OUT"}, "", 2, "*expected a FILE to learn from, found none*"},
    {{"train", "--output", "OUT", "--vocab-size", "100", "no such file"},
     "",
     2,
     "*--vocab-size 100: the minimum is 261 = 256 bytes + 5 specials*"},
    {{"train", "--output", "OUT", "--vocab-size", "257", "--special-tokens", "a", "b",
      "--", "no such file"},
     "",
     2,
     "*the minimum is 258 = 256 bytes + 2 specials*"},
    {{"train", "--output", "OUT", "--special-tokens", "a", "a", "--", CORPUS},
     "",
     2,
     "*--special-tokens: \"a\" is given twice*"},
    {{"train", "--output", "OUT", "--vocab_sise", "300", CORPUS},
     "",
     2,
     "*did you mean*vocab-size*"},
    {{"train", "--output", "OUT", "--normalization", "nfx", CORPUS},
     "",
     2,
     "*--normalization*nfx*"},
    {{"train", "--output", "OUT", "no such file"}, "", 3, "*no such file*"},
    {{"train", "--output", "OUT", "BAD"},
     "",
     3,
     "*bad.txt: byte 1: expected UTF-8, found 0xFF*"},
    {{"train", "--output", "FULL", CORPUS},
     "",
     2,
     "*the folder is not empty (it holds \"mine.txt\")*"},
    {{"encode"}, "", 2, "*--tokenizer*"},
    {{"encode", "--tokenizer", "OUT"}, "", 3, "*"},
    {{"encode", "--tokenizer", "TRAINED", "BAD"}, "", 3, "*bad.txt:1: *"},
    {{"encode", "--tokenizer", "TRAINED", "--pairs"},
     "a\tb\nc\n",
     3,
     "*-:2: expected two texts with one tab between them, found no tab*"},
    {{"encode", "--tokenizer", "TRAINED", "--pairs"},
     "a\tb\tc\n",
     3,
     "*-:1: *more tabs*"},
    {{"decode", "--tokenizer", "TRAINED"},
     "1 2\n3 x4\n",
     3,
     "*-:2: expected token ids, found \"x4\"*"},
    {{"decode", "--tokenizer", "TRAINED"},
     "1000\n",
     3,
     "*-:1: expected token ids below 1000, found 1000*"},
    {{"decode", "--tokenizer", "TRAINED"}, "99999999999999999999\n", 3, "*below 1000*"},
    {{"decode", "--tokenizer", "TRAINED", "--format", "u16"},
     "ab",
     3,
     "*-: byte 0: expected a token id below 1000, found 25185*"},
    {{"decode", "--tokenizer", "TRAINED", "--format", "u32"},
     "abc",
     3,
     "*-: expected ids of 4 bytes, found 3 bytes in all*"},
    {{"inspect"}, "", 2, "*expected the DIR of a tokenizer, found none*"},
    {{"inspect", "OUT"}, "", 3, "*"},
};

static const char *stand_in(const char *word) {
    if (strcmp(word, "OUT") == 0)
        return support_path("not there");
    if (strcmp(word, "FULL") == 0)
        return support_path("full");
    if (strcmp(word, "TRAINED") == 0)
        return trained();
    return strcmp(word, "BAD") == 0 ? support_path("bad.txt") : word;
}

static void a_wrong_command_gets_one_sentence_and_its_exit_code(void **state) {
    (void)state;
    support_write("full/mine.txt", "precious");
    support_write("bad.txt",
                  "a\xff"
                  "b\n");
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const char *words[MOST_WORDS + 1] = {0};
        for (int j = 0; j < MOST_WORDS && refusals[i].words[j]; j++)
            words[j] = stand_in(refusals[i].words[j]);
        struct captured c = run(refusals[i].input, words);
        struct error found = {.status = (enum status)c.code};
        snprintf(found.text, sizeof found.text, "%s", c.err.data);
        support_assert_error(&found, (enum status)refusals[i].code, refusals[i].sentence);
        assert_false(file_exists(support_path("not there")));
        captured_free(&c);
    }
    struct buffer mine = support_read(support_path("full/mine.txt"));
    assert_string_equal(mine.data, "precious");
    buffer_free(&mine);
    assert_false(file_exists(support_path("full/vocab.json")));
}

static void overwrite_replaces_only_the_tokenizers_files(void **state) {
    (void)state;
    support_write("again/mine.txt", "precious");
    for (int i = 0; i < 2; i++) {
        struct captured c = RUN("", "train", "--overwrite", "--vocab-size=300",
                                "--output", support_path("again"), CORPUS);
        assert_ran(&c);
        captured_free(&c);
    }
    assert_true(file_exists(support_path("again/vocab.json")));
    struct buffer mine = support_read(support_path("again/mine.txt"));
    assert_string_equal(mine.data, "precious");
    buffer_free(&mine);
}

static const struct {
    const char *format, *specials, *text;
} round_trips[] = {
    {"ids", NULL, "Hello  world\n\n\tx\r\n \xf0\x9f\x98\x80 end\n"},
    {"ids", NULL, "no newline at the end"},
    {"ids", NULL, "\n"},
    {"ids", NULL, ""},
    {"ids", "--special-tokens", "one\n\nthree \n"},
    {"u16", NULL, "Hello  world\n\n\tx\r\n \xf0\x9f\x98\x80 end\n"},
    {"u32", NULL, "no newline at the end \xe4\xb8\xad\xe6\x96\x87"},
    {"u16", "--special-tokens", "one\n\nthree\n"},
};

static void decoding_what_was_encoded_gives_the_text_back(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof round_trips / sizeof round_trips[0]; i++) {
        const char *text = round_trips[i].text, *format = round_trips[i].format;
        const char *file = support_write("text.txt", text);
        struct captured ids = RUN("", "encode", "--tokenizer", trained(), "--format",
                                  format, file, round_trips[i].specials);
        assert_ran(&ids);
        const char *packed = support_write_bytes("ids.bin", ids.out.data, ids.out.length);
        struct captured back = RUN("", "decode", "--tokenizer", trained(), "--format",
                                   format, "--skip-special-tokens", packed);
        assert_ran(&back);
        assert_int_equal(back.out.length, strlen(text));
        assert_memory_equal(back.out.data ? back.out.data : "", text, strlen(text));
        captured_free(&ids);
        captured_free(&back);
    }
}

/* A vocabulary with tabs, carriage returns, newlines and U+00A0 in its tokens is saved
 * and read back whole. */
static void a_tokenizer_of_whitespace_reads_its_own_files(void **state) {
    (void)state;
    char kept_folder[PATH_BYTES];
    const char *folder = keep(kept_folder, support_path("white"));
    const char *file = DATA "corpus_crlf.txt.gz";
    struct captured made = RUN("", "train", "--vocab-size=400", "--output", folder, file,
                               support_write("nbsp.txt",
                                             "\xc2\xa0\xc2\xa0\t\n\xc2\xa0"
                                             "\xc2\xa0\t\n\n"));
    assert_ran(&made);
    struct captured ids = RUN("", "encode", "--tokenizer", folder, file);
    assert_ran(&ids);
    const char *kept = support_write_bytes("white.ids", ids.out.data, ids.out.length);
    struct captured back = RUN("", "decode", "--tokenizer", folder, kept);
    assert_ran(&back);
    struct buffer text = read_gzip(file);
    assert_int_equal(back.out.length, text.length);
    assert_memory_equal(back.out.data, text.data, text.length);
    buffer_free(&text);
    captured_free(&made);
    captured_free(&ids);
    captured_free(&back);
}

static void bytes_that_are_no_utf8_are_kept_or_replaced_with_a_notice(void **state) {
    (void)state;
    static const char *const modes[][2] = {{"--invalid-utf8=bytes", "kept as bytes"},
                                           {"--invalid-utf8=replace", "read as U+FFFD"}};
    static const char text[] = {'a', (char)0xff, 'b', '\n', (char)0xfe, '\n', 0};
    char kept[PATH_BYTES];
    const char *file = keep(kept, support_write("mixed.txt", text));
    for (int i = 0; i < 2; i++) {
        struct captured c = RUN("", "train", "--overwrite", "--vocab-size=300",
                                modes[i][0], "--output", support_path("mixed"), file);
        assert_ran(&c);
        assert_non_null(strstr(c.err.data,
                               "mixed.txt: byte 1 is no UTF-8; 2 such places "
                               "were "));
        assert_non_null(strstr(c.err.data, modes[i][1]));
        captured_free(&c);
    }
}

static const struct {
    const char *words[8], *input, *output;
} encodings[] = {
    {{"--format=tokens"}, "ab\n", "a b\n"},
    {{"--format=tokens", "--special-tokens"}, "a\n\n", "<s> a </s>\n<s> </s>\n"},
    {{"--format=tokens", "--pairs"}, "a\tb\n", "<s> a </s> </s> b </s>\n"},
    {{"--format=tokens", "--pairs", "--max-length=5"},
     "a\tbbbbb\n",
     "<s> </s> </s> b </s>\n"},
    {{"--format=tokens", "--max-length=1"}, "a b c\n", "a\n"},
    {{"--format=tokens", "--invalid-utf8=bytes"}, "\xff\n", "\xc3\xbf\n"},
    {{"--special-tokens"}, "\n", "0 2\n"},
    {{"--format=jsonl", "--special-tokens"},
     "\xc3\xa9 \n",
     "{\"ids\": [0, 132, 107, 225, 2], \"tokens\": [\"<s>\", \"\xc3\x83\", "
     "\"\xc2\xa9\", \"\xc4\xa0\", \"</s>\"], \"offsets\": [[0,0], [0,1], [0,1], "
     "[2,2], [0,0]], \"word_ids\": [null, 0, 0, 1, null], \"sequence_ids\": [null, 0, 0, "
     "0, "
     "null], \"special_tokens_mask\": [1, 0, 0, 0, 1]}\n"},
};

static void encoding_prints_what_was_asked(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof encodings / sizeof encodings[0]; i++) {
        const char *words[12] = {"encode", "--tokenizer", trained()};
        for (int j = 0; encodings[i].words[j]; j++)
            words[3 + j] = encodings[i].words[j];
        struct captured c = run(encodings[i].input, words);
        assert_ran(&c);
        assert_string_equal(c.out.data, encodings[i].output);
        captured_free(&c);
    }
}

static void threads_do_not_change_the_order_of_the_lines(void **state) {
    (void)state;
    struct buffer first = {0};
    for (int threads = 1; threads <= 3; threads++) {
        char option[32];
        snprintf(option, sizeof option, "--threads=%d", threads);
        struct captured c =
            RUN("", "encode", "--tokenizer", trained(), option, CORPUS, CORPUS);
        assert_ran(&c);
        if (threads == 1) {
            first = c.out;
            c.out = (struct buffer){0};
        } else {
            assert_int_equal(c.out.length, first.length);
            assert_memory_equal(c.out.data, first.data, first.length);
        }
        captured_free(&c);
    }
    buffer_free(&first);
}

static void lines_before_a_bad_one_are_still_printed(void **state) {
    (void)state;
    struct captured c =
        RUN("a\nb\n\xff\nc\n", "encode", "--tokenizer", trained(), "--format=tokens");
    assert_int_equal(c.code, 3);
    assert_string_equal(c.out.data, "a\nb\n");
    assert_non_null(strstr(c.err.data, "-:3: "));
    captured_free(&c);
}

static void inspect_prints_size_specials_and_compression(void **state) {
    (void)state;
    static const char *const expected[] = {
        "size               1000\n",    "merges             739\n",
        "bos                <s> (0)\n", "mask               <mask> (4)\n",
        "proper             yes\n",     "Unicode classes    16.0\n",
        "\ntext               ",        "bytes              9\n",
        "words              2\n",       "tokens             9\n",
        "bytes a token      1.000\n",   "tokens a word      4.500\n",
    };
    const char *text = support_write("inspected.txt", "q\xc3\xa9qq q\n\n");
    struct captured c = RUN("", "inspect", trained(), text);
    assert_ran(&c);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        if (!strstr(c.out.data, expected[i]))
            fail_msg("no \"%s\" in:\n%s", expected[i], c.out.data);
    captured_free(&c);
}

static void every_subcommand_has_help(void **state) {
    (void)state;
    static const char *const names[] = {"train", "encode", "decode", "inspect"};
    struct captured all = RUN("", "--help");
    assert_ran(&all);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct captured c = RUN("", names[i], "--help");
        assert_ran(&c);
        assert_non_null(strstr(c.out.data, names[i]));
        assert_non_null(strstr(all.out.data, names[i]));
        captured_free(&c);
    }
    captured_free(&all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_writes_the_files_of_hugging_face),
        cmocka_unit_test(training_says_what_it_read_and_made),
        cmocka_unit_test(training_reads_stdin_and_several_files_alike),
        cmocka_unit_test(a_wrong_command_gets_one_sentence_and_its_exit_code),
        cmocka_unit_test(overwrite_replaces_only_the_tokenizers_files),
        cmocka_unit_test(decoding_what_was_encoded_gives_the_text_back),
        cmocka_unit_test(a_tokenizer_of_whitespace_reads_its_own_files),
        cmocka_unit_test(bytes_that_are_no_utf8_are_kept_or_replaced_with_a_notice),
        cmocka_unit_test(encoding_prints_what_was_asked),
        cmocka_unit_test(threads_do_not_change_the_order_of_the_lines),
        cmocka_unit_test(lines_before_a_bad_one_are_still_printed),
        cmocka_unit_test(inspect_prints_size_specials_and_compression),
        cmocka_unit_test(every_subcommand_has_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
