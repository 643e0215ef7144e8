/* test_reach - tokens that merges reach: by the rule and by encoding each. */
#include "tokenizer/reach.h"

#include <stdlib.h>
#include <string.h>

#include "tests/tokenizer_data.h"
#include "tokenizer/parts.h"

static struct error err;

static int compare(struct vocab *v, const struct bpe *b) {
    int reached = 0;
    bool *quick = calloc((size_t)v->size + 1, 1);
    assert_non_null(quick);
    for (int32_t id = 0; id < v->size; id++)
        v->entries[id].reachable = false;
    SUPPORT_OK(reach_mark(v, b, &err), err);
    for (int32_t id = 0; id < v->size; id++) {
        quick[id] = v->entries[id].reachable;
        v->entries[id].reachable = false;
    }
    SUPPORT_OK(reach_mark_by_encoding(v, b, &err), err);
    for (int32_t id = 0; id < v->size; id++) {
        if (quick[id] != v->entries[id].reachable)
            fail_msg("'%s': %d by the rule", v->text.data + v->entries[id].text,
                     quick[id]);
        reached += quick[id];
    }
    free(quick);
    return reached;
}

static void gpt2_is_reached_but_for_its_end_token(void **state) {
    (void)state;
    struct tokenizer *t = tokenizer_data_gpt2();
    assert_int_equal(compare(&t->vocab, &t->bpe), 50256);
    tokenizer_free(t);
}

/* Random merges over three bytes, each making a new token from earlier ones: proper, yet
 * many are not reached. */
static void random_merges_are_judged_alike(void **state) {
    (void)state;
    unsigned seed = 7;
    int tokens = 0, reached = 0;
    for (int round = 0; round < 300; round++) {
        struct vocab v = {0};
        struct bpe b;
        for (int i = 0; i < 3; i++)
            SUPPORT_OK(vocab_add(&v, &"abc"[i], 1, i, &err), err);
        bpe_init(&b, &v);
        for (int i = 0; i < 20; i++) {
            char text[4096];
            const char *sides[2];
            for (int side = 0; side < 2; side++) {
                seed = seed * 1103515245u + 12345;
                size_t length;
                sides[side] =
                    vocab_text(&v, (int32_t)((seed >> 16) % (unsigned)v.size), &length);
            }
            if (strlen(sides[0]) + strlen(sides[1]) >= 200)
                continue;
            snprintf(text, sizeof text, "%s%s", sides[0], sides[1]);
            if (vocab_find(&v, text, strlen(text)) >= 0)
                continue;
            char left[256], right[256];
            snprintf(left, sizeof left, "%s", sides[0]);
            snprintf(right, sizeof right, "%s", sides[1]);
            SUPPORT_OK(vocab_add(&v, text, strlen(text), v.size, &err), err);
            SUPPORT_OK(
                bpe_add_merge(&b, &v, left, strlen(left), right, strlen(right), &err),
                err);
        }
        tokens += v.size;
        reached += compare(&v, &b);
        bpe_free(&b);
        vocab_free(&v);
    }
    assert_in_range(reached, tokens / 4, tokens - tokens / 20);
}

static void merges_in_an_impossible_order_are_encoded(void **state) {
    (void)state;
    static const char *const tokens[] = {"a", "b", "ab", "abb", "bb"};
    struct vocab v = {0};
    struct bpe b;
    for (int i = 0; i < 5; i++)
        SUPPORT_OK(vocab_add(&v, tokens[i], strlen(tokens[i]), i, &err), err);
    bpe_init(&b, &v);
    SUPPORT_OK(bpe_add_merge(&b, &v, "ab", 2, "b", 1, &err), err);
    SUPPORT_OK(bpe_add_merge(&b, &v, "b", 1, "b", 1, &err), err);
    SUPPORT_OK(bpe_add_merge(&b, &v, "a", 1, "b", 1, &err), err);
    assert_int_equal(compare(&v, &b), 4); /* "abb" becomes a bb */
    assert_false(v.entries[3].reachable);
    bpe_free(&b);
    vocab_free(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_is_reached_but_for_its_end_token),
        cmocka_unit_test(random_merges_are_judged_alike),
        cmocka_unit_test(merges_in_an_impossible_order_are_encoded),
    };
    return cmocka_run_group_tests_name("reach", tests, NULL, NULL);
}
