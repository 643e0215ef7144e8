/* test_normalizer - normal forms, lower case, and where each byte comes from. */
#include "tokenizer/normalizer.h"

#include <string.h>

#include "tests/tokenizer_data.h"
#include "tokenizer/encoding.h"

static struct error err;

static void check(const char *const *steps, const char *text, const char *expected) {
    struct normalizer n = {0};
    struct normalized out = {0};
    for (; *steps; steps++)
        SUPPORT_OK(normalizer_add(&n, *steps, &err), err);
    SUPPORT_OK(
        normalizer_apply(&n, (const unsigned char *)text, strlen(text), &out, &err), err);
    assert_string_equal(out.text.data ? out.text.data : "", expected);
    uint32_t before = 0;
    for (size_t i = 0; i < out.text.length; i++) {
        assert_true(out.origins[i].start < out.origins[i].end);
        assert_true(out.origins[i].start >= before && out.origins[i].end <= strlen(text));
        before = out.origins[i].start;
    }
    normalized_free(&out);
}

/* Values of Python's unicodedata and str.lower (per character). */
static void texts_take_their_normal_form(void **state) {
    (void)state;
    static const struct {
        const char *steps[4], *text, *expected;
    } rows[] = {
        {{"NFC"}, "e\xCC\x81 \xC3\xA9", "\xC3\xA9 \xC3\xA9"},
        {{"NFD"}, "\xC3\xA9!", "e\xCC\x81!"},
        {{"NFKC"}, "\xEF\xAC\x81\xC2\xB2\xEF\xBC\xA1", "fi2A"},
        {{"NFKD"},
         "\xC2\xBD",
         "1\xE2\x81\x84"
         "2"},
        {{"NFC"}, "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81"},
        {{"NFKC"}, "\xE3\x84\xB1\xE3\x85\x8F", "\xEA\xB0\x80"},
        {{"NFKC"}, "\xE1\x84\x80\xE3\x85\x8F", "\xEA\xB0\x80"},
        {{"NFKC"}, "\xEF\xBE\xA1\xE1\x85\xA1", "\xEA\xB0\x80"},
        {{"NFKC"}, "\xEA\xB0\x80\xE3\x84\xB3", "\xEA\xB0\x83"},
        {{"NFC"}, "a\xCC\x81\xCC\xA3", "\xE1\xBA\xA1\xCC\x81"},
        {{"Lowercase"},
         "\xC4\xB0\xC3\x89 \xCE\xA3\xE1\xBA\x9E",
         "i\xCC\x87\xC3\xA9 \xCF\x83\xC3\x9F"},
        {{"nfkc", "lowercase"}, "\xEF\xBC\xA1", "a"},
        {{"NFC"}, "", ""},
        {{"NFC"}, "a\xFF\xCC\x81", "a\xFF\xCC\x81"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check(rows[i].steps, rows[i].text, rows[i].expected);
}

static void what_is_no_normalizer_is_refused(void **state) {
    (void)state;
    struct normalizer n = {0};
    support_assert_error(&err, normalizer_add(&n, "Strip", &err),
                         "expected a normalizer NFC, NFD, NFKC, NFKD or Lowercase, found "
                         "'Strip'");
    for (int i = 0; i < 8; i++)
        SUPPORT_OK(normalizer_add(&n, "NFC", &err), err);
    support_assert_error(&err, normalizer_add(&n, "NFC", &err),
                         "more than 8 normalizers");
}

static void offsets_count_in_the_text_as_it_was(void **state) {
    (void)state;
    struct tokenizer *t = tokenizer_data_roberta();
    struct encoding e = {0};
    struct encoding_options options = {.no_special_tokens = true};
    SUPPORT_OK(tokenizer_add_normalizer(t, "NFC", &err), err);
    SUPPORT_OK(tokenizer_add_normalizer(t, "Lowercase", &err), err);
    /* "Cafe" and a combining accent, then a token that is searched as it is. */
    static const char text[] = "CAFE\xCC\x81<mask> THE";
    SUPPORT_OK(encoding_encode(t, NULL, text, strlen(text), NULL, 0, &options, &e, &err),
               err);
    static const struct {
        const char *token;
        uint32_t start, end;
    } expected[] = {{"c", 0, 1},
                    {"af", 1, 3},
                    {"\xC3\x83\xC2\xA9", 3, 5},
                    {"<mask>", 5, 11},
                    {"\xC4\xA0the", 12, 15}};
    assert_int_equal(e.count, 5);
    for (int i = 0; i < 5; i++) {
        assert_string_equal(tokenizer_token(t, e.tokens[i].id), expected[i].token);
        assert_int_equal(e.tokens[i].start, expected[i].start);
        assert_int_equal(e.tokens[i].end, expected[i].end);
    }
    encoding_free(&e);
    tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_take_their_normal_form),
        cmocka_unit_test(what_is_no_normalizer_is_refused),
        cmocka_unit_test(offsets_count_in_the_text_as_it_was),
    };
    return cmocka_run_group_tests_name("normalizer", tests, NULL, NULL);
}
