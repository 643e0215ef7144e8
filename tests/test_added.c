/* test_added - added tokens in text, with all their flags, and decoded. */
#include "tokenizer/added.h"

#include <string.h>

#include "tests/tokenizer_data.h"
#include "tokenizer/encoding.h"

static struct error err;

/* A tokenizer and how many rows it has seen. */
struct pass {
    struct tokenizer *t;
    int rows;
};

static void encode_row(struct pass *pass, const json_t *text, const json_t *expected) {
    struct ids ids = {0};
    SUPPORT_OK(tokenizer_encode(pass->t, NULL, json_string_value(text),
                                json_string_length(text), &ids, &err),
               err);
    tokenizer_data_assert_ids(expected, ids.items, ids.count, sizeof *ids.items,
                              json_string_value(text));
    ids_free(&ids);
}

static void line_row(void *self, const json_t *row) {
    encode_row(self, json_object_get(row, "text"), json_object_get(row, "ids"));
}

static void endoftext_is_found_in_text_when_it_is_added(void **state) {
    (void)state;
    char content[] = "<|endoftext|>";
    struct added_token token = {
        .content = content, .length = strlen(content), .special = true};
    struct pass pass = {.t = tokenizer_data_gpt2()};
    SUPPORT_OK(tokenizer_add_tokens(pass.t, &token, 1, &err), err);
    assert_int_equal(tokenizer_data_rows("gpt2_endoftext", line_row, &pass), 125);
    assert_true(tokenizer_is_special(pass.t, 50256));
    assert_false(tokenizer_is_special(pass.t, 50255));
    tokenizer_free(pass.t);
}

static void define_added(struct pass *pass, const json_t *list) {
    size_t index;
    json_t *row;
    json_array_foreach(list, index, row) {
        const json_t *content = json_object_get(row, "content");
        bool special = json_is_true(json_object_get(row, "special"));
        struct added_token token = {
            .content = (char *)(uintptr_t)json_string_value(content),
            .length = json_string_length(content),
            .single_word = json_is_true(json_object_get(row, "singleWord")),
            .lstrip = json_is_true(json_object_get(row, "leftStrip")),
            .rstrip = json_is_true(json_object_get(row, "rightStrip")),
            .special = special,
            .normalized = !special};
        SUPPORT_OK(tokenizer_add_tokens(pass->t, &token, 1, &err), err);
        assert_int_equal(tokenizer_find(pass->t, token.content),
                         json_integer_value(json_object_get(row, "id")));
    }
}

static void check_offsets(const struct encoding *e, const json_t *expected,
                          const char *text) {
    for (size_t i = 0; i < e->count; i++) {
        const json_t *pair = json_array_get(expected, i);
        if (e->tokens[i].start != json_integer_value(json_array_get(pair, 0)) ||
            e->tokens[i].end != json_integer_value(json_array_get(pair, 1)))
            fail_msg("'%s': token %zu: found (%u,%u)", text, i, e->tokens[i].start,
                     e->tokens[i].end);
    }
}

/* Row 0 defines the tokens, the others use them. */
static void added_row(void *self, const json_t *row) {
    struct pass *pass = self;
    if (!pass->rows++) {
        char end[] = "<|endoftext|>";
        struct added_token token = {
            .content = end, .length = strlen(end), .special = true};
        SUPPORT_OK(tokenizer_add_tokens(pass->t, &token, 1, &err), err);
        define_added(pass, json_object_get(row, "added"));
        return;
    }
    const json_t *text = json_object_get(row, "text");
    struct encoding e = {0};
    struct encoding_options options = {0};
    SUPPORT_OK(encoding_encode(pass->t, NULL, json_string_value(text),
                               json_string_length(text), NULL, 0, &options, &e, &err),
               err);
    tokenizer_data_assert_ids(json_object_get(row, "ids"), &e.tokens->id, e.count,
                              sizeof *e.tokens, json_string_value(text));
    check_offsets(&e, json_object_get(row, "offsets"), json_string_value(text));
    encode_row(pass, text, json_object_get(row, "ids"));
    encoding_free(&e);
}

static void added_tokens_are_found_as_the_reference_finds_them(void **state) {
    (void)state;
    struct pass pass = {.t = tokenizer_data_gpt2()};
    assert_int_equal(tokenizer_data_rows("gpt2_added_tokens", added_row, &pass), 251);
    tokenizer_free(pass.t);
}

static void added_decode_row(void *self, const json_t *row) {
    const json_t *content = json_object_get(row, "added");
    struct added_token token = {.content = (char *)(uintptr_t)json_string_value(content),
                                .length = json_string_length(content),
                                .normalized = true};
    SUPPORT_OK(tokenizer_add_tokens(self, &token, 1, &err), err);
    int32_t a = tokenizer_find(self, "a"), id = tokenizer_find(self, token.content);
    int32_t ids[] = {a, id, a};
    struct buffer out = {0};
    assert_int_equal(id, json_integer_value(json_object_get(row, "id")));
    SUPPORT_OK(tokenizer_decode(self, &id, 1, false, &out, &err), err);
    assert_string_equal(out.data, json_string_value(json_object_get(row, "decode")));
    buffer_clear(&out);
    SUPPORT_OK(tokenizer_decode(self, ids, 3, false, &out, &err), err);
    assert_string_equal(out.data, json_string_value(json_object_get(row, "decode_ctx")));
    buffer_free(&out);
}

static void added_tokens_of_byte_characters_decode_as_bytes(void **state) {
    (void)state;
    struct tokenizer *t = tokenizer_data_gpt2();
    assert_int_equal(tokenizer_data_rows("gpt2_added_decode", added_decode_row, t), 6);
    tokenizer_free(t);
}

/* The search itself: leftmost, then longest. */
static void the_longest_of_several_tokens_is_found(void **state) {
    (void)state;
    static const char *const contents[] = {"ab", "abc", "b", "abcde", "\xE4\xB8"};
    struct added a = {0};
    for (int i = 0; i < 5; i++) {
        struct added_token token = {.content = (char *)(uintptr_t)contents[i],
                                    .length = strlen(contents[i]),
                                    .id = i};
        SUPPORT_OK(added_add(&a, &token, &err), err);
    }
    SUPPORT_OK(added_build(&a, NULL, NULL, &err), err);
    static const char text[] =
        "xabcdabcdeb\xE4\xB8\xAD"
        "a";
    static const struct {
        int id; /* -1: text */
        size_t start, end;
    } expected[] = {{-1, 0, 1},  {1, 1, 4},   {-1, 4, 5},  {3, 5, 10},
                    {2, 10, 11}, {4, 11, 13}, {-1, 13, 15}};
    struct added_scan scan = {.added = &a,
                              .set = &a.raw,
                              .text = (const unsigned char *)text,
                              .length = sizeof text - 1};
    struct added_piece piece;
    for (int i = 0; i < 7; i++) {
        assert_true(added_next(&scan, &piece));
        assert_int_equal(piece.token ? piece.token->id : -1, expected[i].id);
        assert_int_equal(piece.start, expected[i].start);
        assert_int_equal(piece.end, expected[i].end);
    }
    assert_false(added_next(&scan, &piece));
    added_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(endoftext_is_found_in_text_when_it_is_added),
        cmocka_unit_test(added_tokens_are_found_as_the_reference_finds_them),
        cmocka_unit_test(added_tokens_of_byte_characters_decode_as_bytes),
        cmocka_unit_test(the_longest_of_several_tokens_is_found),
    };
    return cmocka_run_group_tests_name("added", tests, NULL, NULL);
}
