/* test_word_cache - what is cached never changes an answer. */
#include "tokenizer/word_cache.h"

#include <stdlib.h>

#include "tests/tokenizer_data.h"
#include "tokenizer/parts.h"

static struct error err;

static void words_come_back_with_their_ids(void **state) {
    (void)state;
    static const int32_t ids[] = {5, 0, 7, (1 << 24) - 1, 9, 11};
    static const char word[] = "a longer word than fifteen bytes";
    const unsigned char *text = (const unsigned char *)word;
    for (size_t count = 0; count <= 6; count++) {
        struct word_cache c;
        SUPPORT_OK(word_cache_open(&c, 8, &err), err);
        for (size_t length = count ? count : 1; length < sizeof word; length++) {
            int32_t back[sizeof word];
            size_t found;
            assert_false(word_cache_find(&c, text, length, back, &found));
            assert_true(word_cache_add(&c, text, length, ids, count));
            assert_true(word_cache_find(&c, text, length, back, &found));
            assert_int_equal(found, count);
            assert_memory_equal(back, ids, count * sizeof *ids);
        }
        word_cache_close(&c);
    }
}

static void a_key_is_the_same_however_it_is_read(void **state) {
    (void)state;
    unsigned char text[32];
    for (int i = 0; i < 32; i++)
        text[i] = (unsigned char)(255 - i);
    for (size_t length = 1; length <= WORD_KEY_BYTES; length++) {
        struct word_key a = word_key_of(text, length), b = word_key_of_16(text, length);
        assert_true(a.low == b.low && a.high == b.high);
        assert_int_equal(a.high >> 56, length);
    }
}

static void a_full_store_says_so_and_is_empty_when_cleared(void **state) {
    (void)state;
    struct word_cache c;
    int32_t ids[32] = {0}, back[32];
    unsigned char word[24] = {0};
    size_t count;
    SUPPORT_OK(word_cache_open(&c, 3, &err), err);
    bool full = false;
    for (int i = 0; i < 100 && !full; i++) {
        word[0] = (unsigned char)i;
        full = !word_cache_add(&c, word, sizeof word, ids, 10);
    }
    assert_true(full);
    word_cache_clear(&c);
    word[0] = 0;
    assert_false(word_cache_find(&c, word, sizeof word, back, &count));
    assert_true(word_cache_add(&c, word, sizeof word, ids, 10));
    assert_true(word_cache_find(&c, word, sizeof word, back, &count));
    word_cache_close(&c);
}

/* A tokenizer whose caches hold 16 short words and few long ones. */
static void encode_line(void *self, const json_t *row) {
    struct words_state *state = ((void **)self)[1];
    const struct words *words = ((void **)self)[0];
    const json_t *text = json_object_get(row, "text");
    struct ids ids = {0};
    SUPPORT_OK(words_encode(words, state, (const unsigned char *)json_string_value(text),
                            json_string_length(text), &ids, &err),
               err);
    tokenizer_data_assert_ids(json_object_get(row, "ids"), ids.items, ids.count,
                              sizeof *ids.items, json_string_value(text));
    ids_free(&ids);
}

static void no_cache_path_or_size_changes_an_id(void **state) {
    (void)state;
    struct tokenizer *t = tokenizer_data_gpt2();
    struct words words = {&t->bpe, &t->vocab};
    struct words_state none = {0};
    void *without[] = {&words, &none};
    tokenizer_data_rows("gpt2_lines", encode_line, without);
    words_close(&none);
    for (int path = 0; path <= (int)split_best_path(); path++)
        for (unsigned log2_buckets = 3; log2_buckets <= 16; log2_buckets += 13) {
            struct words_state own;
            SUPPORT_OK(words_open(&own, &words, log2_buckets, &err), err);
            own.path = (enum split_path)path;
            void *with[] = {&words, &own};
            /* Twice: what is new, then what is known. */
            for (int round = 0; round < 2; round++)
                assert_int_equal(tokenizer_data_rows("gpt2_lines", encode_line, with),
                                 3322);
            words_close(&own);
        }
    tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_come_back_with_their_ids),
        cmocka_unit_test(a_key_is_the_same_however_it_is_read),
        cmocka_unit_test(a_full_store_says_so_and_is_empty_when_cleared),
        cmocka_unit_test(no_cache_path_or_size_changes_an_id),
    };
    return cmocka_run_group_tests_name("word_cache", tests, NULL, NULL);
}
