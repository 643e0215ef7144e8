/* test_bpe - merges in any order against the reference, short and long words alike. */
#include "tokenizer/bpe.h"

#include <string.h>

#include "tests/tokenizer_data.h"
#include "tokenizer/parts.h"

static struct error err;

static void load_merges(struct vocab *v, struct bpe *b, const json_t *row) {
    const char *token;
    json_t *id, *merge;
    size_t index;
    json_object_foreach(json_object_get((json_t *)(uintptr_t)row, "vocab"), token, id)
        SUPPORT_OK(vocab_add(v, token, strlen(token), json_integer_value(id), &err), err);
    bpe_init(b, v);
    json_array_foreach(json_object_get(row, "merges"), index, merge) {
        const char *left = json_string_value(json_array_get(merge, 0));
        const char *right = json_string_value(json_array_get(merge, 1));
        SUPPORT_OK(bpe_add_merge(b, v, left, strlen(left), right, strlen(right), &err),
                   err);
    }
}

static void check_word(const struct bpe *b, const char *word, const json_t *expected) {
    struct bpe_scratch scratch = {0};
    SUPPORT_OK(bpe_word(b, &scratch, (const unsigned char *)word, strlen(word), &err),
               err);
    tokenizer_data_assert_ids(expected, scratch.ids, scratch.count, sizeof *scratch.ids,
                              word);
    size_t bytes = 0;
    for (size_t i = 0; i < scratch.count; i++)
        bytes += scratch.lengths[i];
    assert_int_equal(bytes, strlen(word));
    bpe_scratch_free(&scratch);
}

static void improper_row(void *self, const json_t *row) {
    struct vocab v = {0};
    struct bpe b;
    json_t *pair;
    size_t index;
    load_merges(&v, &b, row);
    json_array_foreach(json_object_get(row, "cases"), index, pair) {
        check_word(&b, json_string_value(json_array_get(pair, 0)),
                   json_array_get(pair, 1));
        ++*(int *)self;
    }
    bpe_free(&b);
    vocab_free(&v);
}

static void impossible_merge_orders_follow_the_reference(void **state) {
    (void)state;
    int cases = 0;
    assert_int_equal(tokenizer_data_rows("improper_merges", improper_row, &cases), 120);
    assert_int_equal(cases, 1440);
}

/* The rule as it is written: one merge at a time, lowest rank, leftmost. */
static size_t merge_naively(const struct bpe *b, int32_t *ids, size_t count) {
    for (;;) {
        size_t best = count;
        uint32_t least = BPE_NO_RANK;
        for (size_t i = 0; i + 1 < count; i++) {
            uint32_t rank = bpe_find_pair(b, ids[i], ids[i + 1]);
            if (rank < least) {
                least = rank;
                best = i;
            }
        }
        if (least == BPE_NO_RANK)
            return count;
        ids[best] = b->merges[least].result;
        memmove(ids + best + 1, ids + best + 2, (count - best - 2) * sizeof *ids);
        count--;
    }
}

static void long_row(void *self, const json_t *row) {
    struct vocab v = {0};
    struct bpe b;
    unsigned *seed = self;
    load_merges(&v, &b, row);
    for (size_t length = 20; length < 400; length = length * 3 / 2) {
        unsigned char word[400];
        int32_t ids[400];
        for (size_t i = 0; i < length; i++) {
            *seed = *seed * 1103515245u + 12345;
            word[i] = (unsigned char)('a' + (*seed >> 16) % 3);
            ids[i] = b.byte_id[word[i]];
        }
        struct bpe_scratch scratch = {0};
        SUPPORT_OK(bpe_word(&b, &scratch, word, length, &err), err);
        assert_int_equal(scratch.count, merge_naively(&b, ids, length));
        assert_memory_equal(scratch.ids, ids, scratch.count * sizeof *ids);
        bpe_scratch_free(&scratch);
    }
    bpe_free(&b);
    vocab_free(&v);
}

static void long_words_follow_the_rule_too(void **state) {
    (void)state;
    unsigned seed = 1;
    tokenizer_data_rows("improper_merges", long_row, &seed);
}

/* The more letters, the more places where a word can be cut. */
static void words_merged_in_parts_follow_the_rule_too(void **state) {
    (void)state;
    struct tokenizer *t = tokenizer_data_gpt2();
    struct bpe_scratch scratch = {0};
    unsigned seed = 1;
    for (size_t length = 200; length <= 1600; length += 175) {
        unsigned char word[1600];
        int32_t ids[1600];
        unsigned letters = 1 + (unsigned)(length / 175) * 5;
        for (size_t i = 0; i < length; i++) {
            seed = seed * 1103515245u + 12345;
            word[i] = (unsigned char)('a' + (seed >> 16) % letters);
            ids[i] = t->bpe.byte_id[word[i]];
        }
        SUPPORT_OK(bpe_word(&t->bpe, &scratch, word, length, &err), err);
        assert_int_equal(scratch.count, merge_naively(&t->bpe, ids, length));
        assert_memory_equal(scratch.ids, ids, scratch.count * sizeof *ids);
        size_t bytes = 0;
        for (size_t i = 0; i < scratch.count; i++)
            bytes += scratch.lengths[i];
        assert_int_equal(bytes, length);
    }
    bpe_scratch_free(&scratch);
    tokenizer_free(t);
}

static void add(struct vocab *v, const char *token, int id) {
    SUPPORT_OK(vocab_add(v, token, strlen(token), id, &err), err);
}

static void the_last_of_repeated_merges_counts(void **state) {
    (void)state;
    struct vocab v = {0};
    struct bpe b;
    static const char *const tokens[] = {"a", "b", "c", "ab", "bc"};
    for (int i = 0; i < 5; i++)
        add(&v, tokens[i], i);
    bpe_init(&b, &v);
    SUPPORT_OK(bpe_add_merge(&b, &v, "a", 1, "b", 1, &err), err);
    SUPPORT_OK(bpe_add_merge(&b, &v, "b", 1, "c", 1, &err), err);
    SUPPORT_OK(bpe_add_merge(&b, &v, "a", 1, "b", 1, &err), err);
    json_t *expected = json_pack("[i,i]", 0, 4);
    check_word(&b, "abc", expected);
    json_decref(expected);
    bpe_free(&b);
    vocab_free(&v);
}

static void missing_bytes_vanish_or_become_unk(void **state) {
    (void)state;
    struct vocab v = {0};
    struct bpe b;
    add(&v, "a", 0);
    add(&v, "aa", 1);
    add(&v, "<unk>", 2);
    bpe_init(&b, &v);
    SUPPORT_OK(bpe_add_merge(&b, &v, "a", 1, "a", 1, &err), err);
    struct bpe_scratch s = {0};
    SUPPORT_OK(bpe_word(&b, &s, (const unsigned char *)"axxa", 4, &err), err);
    assert_int_equal(s.count, 1); /* the neighbours of what vanished merge */
    assert_int_equal(s.ids[0], 1);
    b.unk = 2;
    SUPPORT_OK(bpe_word(&b, &s, (const unsigned char *)"axxa", 4, &err), err);
    assert_int_equal(s.count, 4);
    assert_int_equal(s.ids[1], 2);
    b.fuse_unk = true;
    SUPPORT_OK(bpe_word(&b, &s, (const unsigned char *)"axxa", 4, &err), err);
    assert_int_equal(s.count, 3);
    assert_int_equal(s.lengths[1], 2);
    bpe_scratch_free(&s);
    bpe_free(&b);
    vocab_free(&v);
}

static void merges_of_unknown_tokens_are_refused(void **state) {
    (void)state;
    struct vocab v = {0};
    struct bpe b;
    add(&v, "a", 0);
    add(&v, "b", 1);
    bpe_init(&b, &v);
    support_assert_error(&err, bpe_add_merge(&b, &v, "a", 1, "c", 1, &err),
                         "expected tokens of the vocabulary, found 'c'");
    support_assert_error(&err, bpe_add_merge(&b, &v, "a", 1, "b", 1, &err),
                         "expected tokens of the vocabulary, found 'ab'");
    bpe_free(&b);
    vocab_free(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_merge_orders_follow_the_reference),
        cmocka_unit_test(long_words_follow_the_rule_too),
        cmocka_unit_test(words_merged_in_parts_follow_the_rule_too),
        cmocka_unit_test(the_last_of_repeated_merges_counts),
        cmocka_unit_test(missing_bytes_vanish_or_become_unk),
        cmocka_unit_test(merges_of_unknown_tokens_are_refused),
    };
    return cmocka_run_group_tests_name("bpe", tests, NULL, NULL);
}
