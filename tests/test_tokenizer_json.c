/* test_tokenizer_json - tokenizer.json byte for byte, and what is refused in it. */
#include "tokenizer/tokenizer_json.h"

#include <string.h>

#include "tests/tokenizer_data.h"
#include "tokenizer/encoding.h"

static struct error err;

static struct tokenizer *read_json(const char *path) {
    struct tokenizer *t = tokenizer_new();
    assert_non_null(t);
    SUPPORT_OK(tokenizer_json_read(t, path, &err), err);
    return t;
}

static void check_sample(const char *name, const struct truncation *truncation,
                         const struct padding *padding) {
    static const char *const styles[] = {"compact", "pretty"};
    for (int from = 0; from < 2; from++)
        for (int to = 0; to < 2; to++) {
            char path[256];
            snprintf(path, sizeof path, TOKENIZER_DATA "format/%s.%s.tokenizer.json",
                     name, styles[from]);
            struct tokenizer *t = read_json(path);
            struct buffer out = {0};
            SUPPORT_OK(tokenizer_json_add(t, to, truncation, padding, &out, &err), err);
            snprintf(path, sizeof path, TOKENIZER_DATA "format/%s.%s.tokenizer.json",
                     name, styles[to]);
            struct buffer expected = support_read(path);
            assert_string_equal(out.data, expected.data);
            assert_int_equal(out.length, expected.length);
            buffer_free(&out);
            buffer_free(&expected);
            tokenizer_free(t);
        }
}

static void samples_are_written_byte_for_byte(void **state) {
    (void)state;
    struct truncation truncation = {.max_length = 16};
    struct padding padding = {.id = 1, .token = "<pad>"};
    check_sample("roberta_like", &truncation, &padding);
    check_sample("tiny_default", NULL, NULL);
}

static void other_padding_and_truncation_are_named(void **state) {
    (void)state;
    struct tokenizer *t = read_json(TOKENIZER_DATA
                                    "format/tiny_default.compact."
                                    "tokenizer.json");
    struct truncation truncation = {.max_length = 9,
                                    .strategy = TRUNCATION_ONLY_SECOND,
                                    .direction = DIRECTION_LEFT,
                                    .stride = 2};
    struct padding padding = {
        .length = 12, .multiple_of = 8, .direction = DIRECTION_LEFT, .token = "x"};
    struct buffer out = {0};
    SUPPORT_OK(tokenizer_json_add(t, false, &truncation, &padding, &out, &err), err);
    static const char start[] =
        "{\"version\":\"1.0\",\"truncation\":{\"direction\":\"Left\",\"max_length\":9,"
        "\"strategy\":\"OnlySecond\",\"stride\":2},\"padding\":{\"strategy\":{\"Fixed\":"
        "12},"
        "\"direction\":\"Left\",\"pad_to_multiple_of\":8,\"pad_id\":0,\"pad_type_id\":0,"
        "\"pad_token\":\"x\"},";
    assert_memory_equal(out.data, start, sizeof start - 1);
    buffer_free(&out);
    tokenizer_free(t);
}

/* The model that the documents below share, with the vocabulary a b c ab <s> </s>. */
#define MODEL                                                                         \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\xC4\xA0\":2,\"ab\":3," \
    "\"<s>\":4,\"</s>\":5},\"merges\":"
#define PRE "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"

static void merges_are_read_as_pairs_and_as_strings(void **state) {
    (void)state;
    static const char *const documents[] = {
        "{" PRE "," MODEL "[[\"a\",\"b\"]]}}", "{" MODEL "[\"a b\"]}," PRE "}",
        "{" PRE ",\"normalizer\":null," MODEL "[ [ \"\\u0061\" , \"b\" ] ] } }\n"};
    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
        struct tokenizer *t = read_json(support_write("tokenizer.json", documents[i]));
        struct ids ids = {0};
        SUPPORT_OK(tokenizer_encode(t, NULL, "abab b", 6, &ids, &err), err);
        static const int32_t expected[] = {3, 3, 2, 1};
        assert_int_equal(ids.count, 4);
        assert_memory_equal(ids.items, expected, sizeof expected);
        ids_free(&ids);
        tokenizer_free(t);
    }
}

static void templates_that_say_what_roberta_says_are_taken(void **state) {
    (void)state;
#define S(name) "{\"SpecialToken\":{\"id\":\"" name "\",\"type_id\":0}}"
#define Q(name) "{\"Sequence\":{\"id\":\"" name "\",\"type_id\":0}}"
    static const char document[] =
        "{" PRE "," MODEL
        "[[\"a\",\"b\"]]},\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":"
        "[" S("<s>") "," Q("A") "," S("</s>") "],\"pair\":[" S("<s>") "," Q("A") "," S(
            "</s>") "," S("</s>") "," Q("B") "," S("</s>") "],\"special_tokens\":{}}}";
    struct tokenizer *t = read_json(support_write("tokenizer.json", document));
    struct ids ids = {0};
    SUPPORT_OK(tokenizer_encode_pair(t, NULL, "a", 1, "b", 1, 0, &ids, &err), err);
    static const int32_t expected[] = {4, 0, 5, 5, 1, 5};
    assert_int_equal(ids.count, 6);
    assert_memory_equal(ids.items, expected, sizeof expected);
    ids_free(&ids);
    tokenizer_free(t);
}

static void what_would_encode_otherwise_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *document, *expected;
    } rows[] = {
        {"", "*: byte 0: expected '{', found the end"},
        {"{", "*: byte 1: expected a string, found the end"},
        {"{}", "*: expected a 'model', found none"},
        {"{" PRE "," MODEL "[[\"a\",\"b\"]]}} x",
         "*: expected the end of the file, found 'x'"},
        {"{" PRE "," MODEL "[[\"a\",\"c\"]]}}",
         "*: expected tokens of the vocabulary, found 'c'"},
        {"{" PRE "," MODEL "[[\"a\",\"b\",\"c\"]]}}", "*: expected ']', found ','"},
        {"{" PRE "," MODEL "[\"a b c\"]}}",
         "*: expected two tokens and one space between them, found 'a b c'"},
        {"{" PRE ",\"model\":{\"type\":\"WordPiece\",\"vocab\":{},\"merges\":[]}}",
         "*: model: type: expected \"BPE\", found \"WordPiece\""},
        {"{" PRE ",\"model\":{\"type\":\"BPE\",\"vocab\":{}}}",
         "*: model: expected vocab and merges, found no merges"},
        {"{" PRE ",\"model\":{\"dropout\":0.1,\"vocab\":{},\"merges\":[]}}",
         "*: model: dropout: expected none (byte-level BPE has none), found 0.1"},
        {"{" PRE ",\"model\":{\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]}}",
         "*: token 'a' has two ids, 0 and 1"},
        {"{" PRE ",\"model\":{\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}",
         "*: id 0 is given to 'a' and to 'b'"},
        {"{" PRE ",\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}",
         "*: token 'a': id -1 is not in 0 to 16777215"},
        {"{" PRE ",\"model\":{\"vocab\":{\"a\":1.5},\"merges\":[]}}",
         "*: expected a whole number, found '1'"},
        {"{" PRE ",\"model\":{\"unk_token\":\"x\",\"vocab\":{},\"merges\":[]}}",
         "*: model: unk_token: expected a token of the vocabulary, found 'x'"},
        {"{" PRE "," MODEL "[]},\"model\":{}}", "*: 'model' is there twice"},
        {"{" MODEL "[]}}",
         "*: pre_tokenizer: expected ByteLevel with its own splitting, "
         "found none"},
        {"{\"pre_tokenizer\":{\"type\":\"Whitespace\"}," MODEL "[]}}",
         "*: pre_tokenizer: expected ByteLevel*found Whitespace"},
        {"{" PRE ",\"normalizer\":{\"type\":\"Strip\"}," MODEL "[]}}",
         "*: normalizer: expected a normalizer NFC*found 'Strip'"},
        {"{" PRE ",\"post_processor\":{\"type\":\"BertProcessing\"}," MODEL "[]}}",
         "*: post_processor: expected RobertaProcessing*found BertProcessing"},
        {"{" PRE ",\"post_processor\":{\"type\":\"RobertaProcessing\",\"sep\":[\"x\",99],"
         "\"cls\":[\"<s>\",4]}," MODEL "[]}}",
         "*: post_processor: sep: expected * of the vocabulary"},
        {"{" PRE ",\"added_tokens\":[{\"id\":1,\"content\":\"a\"}]," MODEL "[]}}",
         "*: added_tokens: 'a' has id 1, but id 0 in the vocabulary"},
        {"{" PRE ",\"added_tokens\":{}," MODEL "[]}}",
         "*: added_tokens: expected an array"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tokenizer *t = tokenizer_new();
        const char *path = support_write("tokenizer.json", rows[i].document);
        enum status status = tokenizer_json_read(t, path, &err);
        assert_int_equal(status, ERR_INPUT);
        support_assert_error(&err, ERR_INPUT, rows[i].expected);
        tokenizer_free(t);
    }
}

static void ignoring_merges_is_refused_only_where_it_matters(void **state) {
    (void)state;
    static const char proper[] =
        "{" PRE
        ",\"model\":{\"ignore_merges\":true,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},"
        "\"merges\":[[\"a\",\"b\"]]}}";
    static const char improper[] =
        "{" PRE
        ",\"model\":{\"ignore_merges\":true,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,"
        "\"ba\":3},\"merges\":[[\"a\",\"b\"]]}}";
    tokenizer_free(read_json(support_write("tokenizer.json", proper)));
    struct tokenizer *t = tokenizer_new();
    enum status status =
        tokenizer_json_read(t, support_write("tokenizer.json", improper), &err);
    assert_int_equal(status, ERR_INPUT);
    support_assert_error(&err, status, "*: model: ignore_merges: expected false*");
    tokenizer_free(t);
}

/* Files with a few bytes changed, cut or doubled: loaded or refused, never a crash, and
 * what loads encodes. */
static void damaged_files_never_crash(void **state) {
    (void)state;
    static const char *const names[] = {"roberta_like.compact", "tiny_default.pretty"};
    unsigned seed = 3;
    int loaded = 0;
    for (int round = 0; round < 3000; round++) {
        char path[256];
        snprintf(path, sizeof path, TOKENIZER_DATA "format/%s.tokenizer.json",
                 names[round % 2]);
        struct buffer text = support_read(path);
        for (int change = 0; change < 1 + round % 3; change++) {
            seed = seed * 1103515245u + 12345;
            size_t at = (seed >> 8) % text.length;
            text.data[at] = "\"{}[]:,0\\x\xFF "[(seed >> 4) % 13];
        }
        if (round % 10 == 0)
            text.length = (seed >> 8) % text.length;
        struct tokenizer *t = tokenizer_new();
        if (tokenizer_json_parse(t, "damaged", text.data, text.length, &err) == OK) {
            struct ids ids = {0};
            SUPPORT_OK(tokenizer_encode(t, NULL, "lower <mask> he\"\\", 16, &ids, &err),
                       err);
            ids_free(&ids);
            loaded++;
        }
        tokenizer_free(t);
        buffer_free(&text);
    }
    assert_in_range(loaded, 100, 2900);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_written_byte_for_byte),
        cmocka_unit_test(other_padding_and_truncation_are_named),
        cmocka_unit_test(merges_are_read_as_pairs_and_as_strings),
        cmocka_unit_test(templates_that_say_what_roberta_says_are_taken),
        cmocka_unit_test(what_would_encode_otherwise_is_refused),
        cmocka_unit_test(damaged_files_never_crash),
        cmocka_unit_test(ignoring_merges_is_refused_only_where_it_matters),
    };
    return cmocka_run_group_tests_name("tokenizer_json", tests, NULL, NULL);
}
