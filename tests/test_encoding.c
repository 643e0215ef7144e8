/* test_encoding - offsets, masks, word ids, truncation and padding against Hugging Face
 * tokenizers. */
#include "tokenizer/encoding.h"

#include <string.h>

#include "tests/tokenizer_data.h"

static struct error err;

struct pass {
    struct tokenizer *t;
    struct tokenizer_cache *cache;
    int rows, errors;
};

static void setup(struct pass *pass) {
    *pass = (struct pass){.t = tokenizer_data_roberta()};
    pass->cache = tokenizer_cache_new(pass->t);
    assert_non_null(pass->cache);
}

static void teardown(struct pass *pass) {
    tokenizer_cache_free(pass->cache);
    tokenizer_free(pass->t);
}

/* null counts as -1. */
static int number_at(const json_t *list, size_t i) {
    const json_t *value = json_array_get(list, i);
    return json_is_null(value) ? -1 : (int)json_integer_value(value);
}

/* The string that Hugging Face has for a token: of an added token what it covers. */
static void check_token_text(const struct pass *pass, const struct encoded_token *token,
                             const char *const *texts, const json_t *expected) {
    const char *text = tokenizer_token(pass->t, token->id);
    size_t length = strlen(text);
    if (tokenizer_is_special(pass->t, token->id) && !token->special) {
        text = texts[token->sequence_id] + token->first;
        length = token->last - token->first;
    }
    assert_int_equal(length, json_string_length(expected));
    assert_memory_equal(text, json_string_value(expected), length);
}

static void check_encoding(const struct pass *pass, const struct encoding *e,
                           const json_t *row, const char *const *texts) {
    const json_t *offsets = json_object_get(row, "offsets");
    const json_t *special = json_object_get(row, "special_mask");
    const json_t *words = json_object_get(row, "word_ids");
    const json_t *sequences = json_object_get(row, "seq_ids");
    const json_t *tokens = json_object_get(row, "tokens");
    tokenizer_data_assert_ids(json_object_get(row, "ids"), &e->tokens->id, e->count,
                              sizeof *e->tokens, texts[0]);
    for (size_t i = 0; i < e->count; i++) {
        const struct encoded_token *token = &e->tokens[i];
        const json_t *pair = json_array_get(offsets, i);
        if ((int)token->start != number_at(pair, 0) ||
            (int)token->end != number_at(pair, 1))
            fail_msg("'%s': token %zu: expected (%d,%d), found (%u,%u)", texts[0], i,
                     number_at(pair, 0), number_at(pair, 1), token->start, token->end);
        assert_int_equal(token->special, number_at(special, i));
        assert_int_equal(token->word_id, number_at(words, i));
        assert_int_equal(token->sequence_id, number_at(sequences, i));
        assert_int_equal(token->type_id, 0);
        assert_true(token->attention);
        check_token_text(pass, token, texts, json_array_get(tokens, i));
    }
}

static void encode_row(void *self, const json_t *row) {
    struct pass *pass = self;
    const json_t *a = json_object_get(row, "text"), *b = json_object_get(row, "pair");
    const char *texts[] = {json_string_value(a), json_string_value(b)};
    struct encoding e = {0};
    struct encoding_options options = {0};
    tokenizer_set_add_prefix_space(
        pass->t, json_is_true(json_object_get(row, "add_prefix_space")));
    SUPPORT_OK(encoding_encode(pass->t, pass->cache, texts[0], json_string_length(a),
                               texts[1], json_string_length(b), &options, &e, &err),
               err);
    check_encoding(pass, &e, row, texts);
    /* The quick way gives the same ids. */
    struct ids ids = {0};
    SUPPORT_OK(
        tokenizer_encode_pair(pass->t, pass->cache, texts[0], json_string_length(a),
                              texts[1], json_string_length(b), 0, &ids, &err),
        err);
    tokenizer_data_assert_ids(json_object_get(row, "ids"), ids.items, ids.count,
                              sizeof *ids.items, texts[0]);
    ids_free(&ids);
    encoding_free(&e);
}

static void single_texts_are_encoded_in_full(void **state) {
    (void)state;
    struct pass pass;
    setup(&pass);
    assert_int_equal(tokenizer_data_rows("roberta_encode", encode_row, &pass), 1530);
    teardown(&pass);
}

static void pairs_are_encoded_in_full(void **state) {
    (void)state;
    struct pass pass;
    setup(&pass);
    assert_int_equal(tokenizer_data_rows("roberta_pairs", encode_row, &pass), 120);
    teardown(&pass);
}

static enum truncation_strategy strategy_of(const char *name) {
    return !strcmp(name, "LongestFirst") ? TRUNCATION_LONGEST_FIRST
           : !strcmp(name, "OnlyFirst")  ? TRUNCATION_ONLY_FIRST
                                         : TRUNCATION_ONLY_SECOND;
}

/* The quick way has no error and no overflow, and cuts on the right only. */
static void check_quick(const struct pass *pass, const struct truncation *t,
                        const json_t *row) {
    const json_t *a = json_object_get(row, "a"), *b = json_object_get(row, "b");
    if (t->strategy != TRUNCATION_LONGEST_FIRST || t->direction != DIRECTION_RIGHT)
        return;
    struct ids ids = {0};
    SUPPORT_OK(tokenizer_encode_pair(pass->t, pass->cache, json_string_value(a),
                                     json_string_length(a), json_string_value(b),
                                     json_string_length(b), t->max_length, &ids, &err),
               err);
    tokenizer_data_assert_ids(json_object_get(row, "ids"), ids.items, ids.count,
                              sizeof *ids.items, json_string_value(a));
    ids_free(&ids);
}

static void truncation_row(void *self, const json_t *row) {
    struct pass *pass = self;
    const json_t *a = json_object_get(row, "a"), *b = json_object_get(row, "b");
    const json_t *error = json_object_get(row, "error");
    const char *direction = json_string_value(json_object_get(row, "direction"));
    struct truncation t = {
        .max_length = (size_t)json_integer_value(json_object_get(row, "max_length")),
        .strategy = strategy_of(json_string_value(json_object_get(row, "strategy"))),
        .direction = !strcmp(direction, "left") ? DIRECTION_LEFT : DIRECTION_RIGHT,
        .stride = (size_t)json_integer_value(json_object_get(row, "stride"))};
    struct encoding_options options = {.truncation = &t};
    struct encoding e = {0};
    enum status status =
        encoding_encode(pass->t, pass->cache, json_string_value(a), json_string_length(a),
                        json_string_value(b), json_string_length(b), &options, &e, &err);
    if (error) {
        assert_int_equal(status, ERR_USAGE);
        pass->errors++;
    } else {
        SUPPORT_OK(status, err);
        const json_t *overflow = json_object_get(row, "overflow");
        tokenizer_data_assert_ids(json_object_get(row, "ids"), &e.tokens->id, e.count,
                                  sizeof *e.tokens, json_string_value(a));
        assert_int_equal(e.overflow_count, json_array_size(overflow));
        for (size_t i = 0; i < e.overflow_count; i++)
            tokenizer_data_assert_ids(json_array_get(overflow, i),
                                      &e.overflow[i].tokens->id, e.overflow[i].count,
                                      sizeof *e.tokens, json_string_value(a));
        check_quick(pass, &t, row);
    }
    encoding_free(&e);
}

static void truncation_follows_the_full_rule(void **state) {
    (void)state;
    struct pass pass;
    setup(&pass);
    assert_int_equal(tokenizer_data_rows("roberta_truncation", truncation_row, &pass),
                     1690);
    assert_int_equal(pass.errors, 508);
    teardown(&pass);
}

static void padding_row(void *self, const json_t *row) {
    struct pass *pass = self;
    const json_t *texts = json_object_get(row, "batch");
    const json_t *options = json_object_get(row, "options");
    const char *direction = json_string_value(json_object_get(options, "direction"));
    struct padding padding = {
        .direction =
            direction && !strcmp(direction, "left") ? DIRECTION_LEFT : DIRECTION_RIGHT,
        .length = (size_t)json_integer_value(json_object_get(options, "maxLength")),
        .multiple_of =
            (size_t)json_integer_value(json_object_get(options, "padToMultipleOf")),
        .id = 1};
    struct encoding batch[8] = {0};
    struct encoding_options none = {0};
    size_t count = json_array_size(texts);
    for (size_t i = 0; i < count; i++) {
        const json_t *text = json_array_get(texts, i);
        SUPPORT_OK(
            encoding_encode(pass->t, pass->cache, json_string_value(text),
                            json_string_length(text), NULL, 0, &none, &batch[i], &err),
            err);
    }
    SUPPORT_OK(encoding_pad(batch, count, &padding, &err), err);
    for (size_t i = 0; i < count; i++) {
        const json_t *attention = json_array_get(json_object_get(row, "attention"), i);
        const json_t *special = json_array_get(json_object_get(row, "special_mask"), i);
        tokenizer_data_assert_ids(json_array_get(json_object_get(row, "ids"), i),
                                  &batch[i].tokens->id, batch[i].count,
                                  sizeof *batch[i].tokens, "padding");
        for (size_t j = 0; j < batch[i].count; j++) {
            assert_int_equal(batch[i].tokens[j].attention, number_at(attention, j));
            assert_int_equal(batch[i].tokens[j].special, number_at(special, j));
        }
        encoding_free(&batch[i]);
    }
}

static void padding_fills_to_the_asked_length(void **state) {
    (void)state;
    struct pass pass;
    setup(&pass);
    assert_int_equal(tokenizer_data_rows("roberta_padding", padding_row, &pass), 7);
    teardown(&pass);
}

static void overflow_is_padded_too_and_type_ids_are_those_asked_for(void **state) {
    (void)state;
    struct pass pass;
    setup(&pass);
    struct truncation t = {.max_length = 6};
    struct encoding_options options = {.truncation = &t};
    struct padding padding = {.length = 8, .id = 1, .type_id = 7};
    struct encoding e = {0};
    SUPPORT_OK(encoding_encode(pass.t, pass.cache, "one two three four five six seven",
                               33, NULL, 0, &options, &e, &err),
               err);
    SUPPORT_OK(encoding_pad(&e, 1, &padding, &err), err);
    assert_int_equal(e.overflow_count, 1);
    assert_int_equal(e.count, 8);
    assert_int_equal(e.overflow[0].count, 8);
    assert_int_equal(e.overflow[0].tokens[7].id, 1);
    assert_int_equal(e.overflow[0].tokens[7].type_id, 7);
    assert_int_equal(e.overflow[0].tokens[7].word_id, -1);
    encoding_free(&e);
    teardown(&pass);
}

static void without_special_tokens_offsets_are_still_trimmed(void **state) {
    (void)state;
    struct pass pass;
    setup(&pass);
    struct encoding_options options = {.no_special_tokens = true};
    struct encoding e = {0};
    SUPPORT_OK(
        encoding_encode(pass.t, NULL, "one two", 7, " three", 6, &options, &e, &err),
        err);
    assert_int_equal(e.count, 3);
    assert_int_equal(e.tokens[1].start, 4);
    assert_int_equal(e.tokens[2].start, 1);
    assert_int_equal(e.tokens[2].sequence_id, 1);
    encoding_free(&e);
    teardown(&pass);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_texts_are_encoded_in_full),
        cmocka_unit_test(pairs_are_encoded_in_full),
        cmocka_unit_test(truncation_follows_the_full_rule),
        cmocka_unit_test(padding_fills_to_the_asked_length),
        cmocka_unit_test(overflow_is_padded_too_and_type_ids_are_those_asked_for),
        cmocka_unit_test(without_special_tokens_offsets_are_still_trimmed),
    };
    return cmocka_run_group_tests_name("encoding", tests, NULL, NULL);
}
