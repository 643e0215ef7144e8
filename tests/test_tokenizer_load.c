/* test_tokenizer_load - directories of every kind: loaded, saved, and the errors of
 * broken ones. */
#include <string.h>

#include "base/file.h"
#include "tests/tokenizer_data.h"

static struct error err;

/* Notices end up here. */
static char noticed[2048];

static void keep_notice(void *self, const char *text) {
    (void)self;
    snprintf(noticed + strlen(noticed), sizeof noticed - strlen(noticed), "%s\n", text);
}
static const struct notices notices = {keep_notice, NULL};

#define VOCAB                                                     \
    "{\"<s>\":0,\"<pad>\":1,\"</"                                 \
    "s>\":2,\"<unk>\":3,\"a\":4,\"b\":5,\"\xC4\xA0\":6,\"ab\":7," \
    "\"<mask>\":8}"
#define MERGES "#version: 0.2\na b\n"

static struct tokenizer *load(const char *directory) {
    struct tokenizer *t;
    noticed[0] = 0;
    SUPPORT_OK(tokenizer_load(&t, support_path(directory), &notices, &err), err);
    return t;
}

static void assert_encodes(const struct tokenizer *t, const char *text, const char *ids) {
    struct ids found = {0};
    char line[512] = "";
    SUPPORT_OK(
        tokenizer_encode_pair(t, NULL, text, strlen(text), NULL, 0, 0, &found, &err),
        err);
    for (size_t i = 0; i < found.count; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), i ? " %d" : "%d",
                 found.items[i]);
    assert_string_equal(line, ids);
    ids_free(&found);
}

static void two_files_make_a_roberta(void **state) {
    (void)state;
    support_write("two/vocab.json", VOCAB);
    support_write("two/merges.txt", MERGES);
    struct tokenizer *t = load("two");
    assert_encodes(t, "ab <mask>b", "0 7 8 5 2");
    assert_encodes(t, "a</s>b", "0 4 2 5 2");
    assert_int_equal(tokenizer_specials(t).mask, 8);
    tokenizer_free(t);
    assert_non_null(strstr(noticed, "253 of the 256 bytes are no token"));
}

static void all_layouts_of_vocab_json_are_read(void **state) {
    (void)state;
    static const char *const layouts[] = {
        "{\"a\":0,\"b\":1,\"\xC4\xA0\":2,\"ab\":3,\"\\\"\":4,\"\\\\\":5}",
        "{\"a\": 0, \"b\": 1, \"\\u0120\": 2, \"ab\": 3, \"\\u0022\": 4, \"\\\\\": 5}",
        "{\n  \"\\\"\": 4,\n  \"\\\\\": 5,\n  \"a\": 0,\n  \"ab\": 3,\n  \"b\": 1,\n"
        "  \"\xC4\xA0\": 2\n}\n"};
    static const char *const merges[] = {
        "#version: 0.2\na b\n",
        "#version: 0.2 - Trained by `huggingface/tokenizers`\na b", "a b\r\n"};
    for (int i = 0; i < 3; i++) {
        support_write("layout/vocab.json", layouts[i]);
        support_write("layout/merges.txt", merges[i]);
        struct tokenizer *t = load("layout");
        assert_encodes(t, "ab \"\\", "3 2 4 5");
        tokenizer_free(t);
    }
}

static void a_saved_directory_loads_alike_and_saves_alike(void **state) {
    (void)state;
    struct tokenizer *t = tokenizer_data_roberta();
    tokenizer_set_add_prefix_space(t, true);
    SUPPORT_OK(tokenizer_add_normalizer(t, "nfkc", &err), err);
    SUPPORT_OK(tokenizer_add_normalizer(t, "lowercase", &err), err);
    SUPPORT_OK(tokenizer_save(t, support_path("saved"), &err), err);
    struct tokenizer *back = load("saved");
    assert_string_equal(noticed, "");
    assert_true(tokenizer_fingerprint(back) == tokenizer_fingerprint(t));
    SUPPORT_OK(tokenizer_save(back, support_path("again"), &err), err);
    static const char *const files[] = {"vocab.json", "merges.txt", "tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json"};
    for (int i = 0; i < 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "saved/%s", files[i]);
        struct buffer first = support_read(support_path(name));
        snprintf(name, sizeof name, "again/%s", files[i]);
        struct buffer second = support_read(support_path(name));
        assert_true(first.length > 0);
        assert_string_equal(first.data, second.data);
        buffer_free(&first);
        buffer_free(&second);
    }
    /* Without tokenizer.json the flags come from the other files. */
    assert_int_equal(remove(support_path("saved/tokenizer.json")), 0);
    struct tokenizer *two = load("saved");
    assert_encodes(two, "Hello <mask>", "0 20920 50264 2");
    tokenizer_free(two);
    tokenizer_free(back);
    tokenizer_free(t);
}

static void merges_are_saved_as_they_were_read(void **state) {
    (void)state;
    struct tokenizer *t = tokenizer_data_gpt2();
    SUPPORT_OK(tokenizer_save(t, support_path("gpt2"), &err), err);
    struct buffer saved = support_read(support_path("gpt2/merges.txt"));
    struct buffer source = support_read(tokenizer_data_file("merges.txt"));
    assert_int_equal(saved.length, source.length);
    assert_memory_equal(saved.data, source.data, saved.length);
    buffer_free(&saved);
    buffer_free(&source);
    tokenizer_free(t);
}

static void configs_say_what_special_tokens_are(void **state) {
    (void)state;
    support_write("config/vocab.json", "{\"a\":0,\"b\":1,\"\xC4\xA0\":2,\"<end>\":3}");
    support_write("config/merges.txt", "#version: 0.2\n");
    support_write(
        "config/tokenizer_config.json",
        "{\"add_prefix_space\": true, \"bos_token\": \"<end>\", \"eos_token\": "
        "{\"content\": \"<end>\", \"lstrip\": false}, \"pad_token\": \"<new>\", "
        "\"unk_token\": null, \"added_tokens_decoder\": {\"9\": {\"content\": "
        "\"<nine>\", \"lstrip\": true, \"special\": false}}}");
    support_write("config/added_tokens.json", "{\"<ten>\": 12}");
    struct tokenizer *t = load("config");
    assert_encodes(t, "a<end>b <nine>", "2 0 3 2 1 9");
    assert_encodes(t, "<ten>", "12");
    struct special_ids s = tokenizer_specials(t);
    assert_int_equal(s.bos, 3);
    assert_int_equal(s.eos, 3);
    assert_int_equal(s.pad, 10);
    assert_int_equal(s.unk, -1);
    assert_int_equal(tokenizer_size(t), 13);
    assert_true(tokenizer_is_special(t, 3));
    assert_false(tokenizer_is_special(t, 9));
    tokenizer_free(t);
    assert_int_equal(remove(support_path("config/added_tokens.json")), 0);
}

static void gaps_are_noticed_and_stay_exact(void **state) {
    (void)state;
    support_write("gaps/vocab.json", "{\"a\":7,\"b\":1,\"ab\":100}");
    support_write("gaps/merges.txt", "a b\n");
    struct tokenizer *t = load("gaps");
    assert_non_null(strstr(noticed, "98 of 101 ids are no token (harmless)"));
    assert_encodes(t, "abxa", "100 7");
    assert_int_equal(tokenizer_size(t), 101);
    assert_null(tokenizer_token(t, 50));
    tokenizer_free(t);
}

static void fairseq_and_gpt2_names_are_found(void **state) {
    (void)state;
    support_write("fairseq/encoder.json", "{\"a\": 0, \"b\": 1, \"ab\": 2}");
    support_write("fairseq/vocab.bpe", "#version: 0.2\na b\n");
    support_write("fairseq/dict.txt", "2 10\n0 5\n1 4\nmadeupword0000 0\n");
    struct tokenizer *t = load("fairseq");
    assert_encodes(t, "abb<mask>", "0 4 6 8 2");
    assert_string_equal(tokenizer_token(t, 7), "madeupword0000");
    tokenizer_free(t);
}

/* Training on one long run of a letter makes such tokens. */
static void tokens_of_many_bytes_are_loaded(void **state) {
    (void)state;
    enum { DOUBLINGS = 17, BYTES = 1 << DOUBLINGS };
    struct counted_word word = {.length = BYTES, .count = 2};
    struct bpe_train_options options = {.vocab_size = 1 + DOUBLINGS};
    struct bpe_trained trained;
    struct tokenizer *t;
    struct ids ids = {0};
    struct buffer text = {0}, back = {0};
    SUPPORT_OK(buffer_reserve(&text, BYTES, &err), err);
    memset(text.data, 'a', BYTES);
    word.bytes = (const unsigned char *)text.data;
    SUPPORT_OK(bpe_train(&trained, &word, 1, &options, &err), err);
    SUPPORT_OK(tokenizer_from_trained(&t, &trained, &err), err);
    SUPPORT_OK(tokenizer_encode(t, NULL, text.data, BYTES, &ids, &err), err);
    assert_int_equal(ids.count, 1);
    SUPPORT_OK(tokenizer_decode(t, ids.items, ids.count, false, &back, &err), err);
    assert_int_equal(back.length, BYTES);
    assert_memory_equal(back.data, text.data, BYTES);
    buffer_free(&text);
    buffer_free(&back);
    ids_free(&ids);
    bpe_trained_free(&trained);
    tokenizer_free(t);
}

static void check_error(const char *vocab, const char *merges, const char *expected) {
    struct tokenizer *t;
    support_write("bad/vocab.json", vocab);
    support_write("bad/merges.txt", merges);
    enum status status = tokenizer_load(&t, support_path("bad"), NULL, &err);
    support_assert_error(&err, status, expected);
    assert_int_equal(status, ERR_INPUT);
    assert_null(t);
}

static void broken_files_are_refused_with_their_place(void **state) {
    (void)state;
    static const struct {
        const char *vocab, *merges, *expected;
    } rows[] = {
        {"", "", "*vocab.json: byte 0: expected '{', found the end"},
        {"[]", "", "*vocab.json: byte 0: expected '{', found '*"},
        {"{\"a\" 1}", "", "*vocab.json: byte 5: expected ':', found '1'"},
        {"{\"a\":1", "", "*vocab.json: byte 6: expected ',' or '}', found the end"},
        {"{\"a\":1,}", "", "*vocab.json: byte 7: expected another entry*"},
        {"{\"a\":\"1\"}", "", "*vocab.json: byte 5: expected a whole number, found '\"'"},
        {"{\"a\":1,\"a\":2}", "", "*vocab.json: byte 12: token 'a' has two ids, 1 and 2"},
        {"{\"a\":1,\"b\":1}", "",
         "*vocab.json: byte 12: id 1 is given to 'a' and to 'b'"},
        {"{\"a\":99999999}", "", "*token 'a': id 99999999 is not in 0 to 16777215"},
        {"{\"\\ud800\":1}", "", "*expected the second half of a surrogate pair*"},
        {"{\"\\x\":1}", "", "*expected an escape*"},
        {"{\"\xFF\":1}", "", "*vocab.json: byte 2: expected UTF-8, found byte 0xFF"},
        {"{\"a\":1} {", "", "*vocab.json: byte 8: expected the end of the file*"},
        {VOCAB, "#version: 0.2\na b c\n",
         "*merges.txt: line 2: expected two tokens and one space between them, found 'a "
         "b "
         "c'"},
        {VOCAB, "ab\n", "*merges.txt: line 1: expected two tokens*found 'ab'"},
        {VOCAB, "a b\n\n", "*merges.txt: line 2: expected two tokens*"},
        {VOCAB, "a b\nab x\n",
         "*merges.txt: line 2: expected tokens of the vocabulary, found 'x'"},
        {VOCAB, "a a\n", "*merges.txt: line 1: expected tokens*found 'aa'"},
        {VOCAB, "a \xFF\n", "*merges.txt: byte 2: expected UTF-8, found 0xFF"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_error(rows[i].vocab, rows[i].merges, rows[i].expected);
}

static void missing_files_are_named(void **state) {
    (void)state;
    struct tokenizer *t;
    support_assert_error(&err, tokenizer_load(&t, support_path("nowhere"), NULL, &err),
                         "*nowhere: expected a directory with a tokenizer's files, found "
                         "nothing");
    support_write("half/vocab.json", VOCAB);
    support_assert_error(&err, tokenizer_load(&t, support_path("half"), NULL, &err),
                         "*half: expected tokenizer.json, or vocab.json and merges.txt, "
                         "found vocab.json alone");
    support_assert_error(
        &err, tokenizer_load(&t, support_path("half/vocab.json"), NULL, &err),
        "*: expected a directory with a tokenizer's files, found a file");
    support_write("fairseq/dict.txt", "2 10\n0\n");
    support_assert_error(&err, tokenizer_load(&t, support_path("fairseq"), NULL, &err),
                         "*dict.txt: line 2: expected '<token> <count>', found '0'");
    support_write("fairseq/dict.txt", "77 10\n");
    support_assert_error(
        &err, tokenizer_load(&t, support_path("fairseq"), NULL, &err),
        "*dict.txt: line 1: expected an id of the GPT-2 vocabulary, found "
        "77");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_files_make_a_roberta),
        cmocka_unit_test(all_layouts_of_vocab_json_are_read),
        cmocka_unit_test(a_saved_directory_loads_alike_and_saves_alike),
        cmocka_unit_test(merges_are_saved_as_they_were_read),
        cmocka_unit_test(configs_say_what_special_tokens_are),
        cmocka_unit_test(gaps_are_noticed_and_stay_exact),
        cmocka_unit_test(fairseq_and_gpt2_names_are_found),
        cmocka_unit_test(tokens_of_many_bytes_are_loaded),
        cmocka_unit_test(broken_files_are_refused_with_their_place),
        cmocka_unit_test(missing_files_are_named),
    };
    return cmocka_run_group_tests_name("tokenizer_load", tests, NULL, NULL);
}
