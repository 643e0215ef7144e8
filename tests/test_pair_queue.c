/* test_pair_queue - the order of pairs, above and below the counts that have lists. */
#include "tokenizer/pair_queue.h"

#include <stdlib.h>

#include "base/rng.h"
#include "tests/support.h"

static struct error error;

static int compare_pairs(const void *a, const void *b) {
    const struct pair *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    if (x->left != y->left)
        return x->left < y->left ? -1 : 1;
    return (x->right > y->right) - (x->right < y->right);
}

static void expect_pop(struct pair_queue *q, struct pair expected) {
    struct pair found;
    bool is_found;
    SUPPORT_OK(pair_queue_pop(q, &found, &is_found, &error), error);
    assert_true(is_found);
    assert_int_equal(found.count, expected.count);
    assert_int_equal(found.left, expected.left);
    assert_int_equal(found.right, expected.right);
    assert_int_equal(found.first, expected.first);
}

static void expect_empty(struct pair_queue *q) {
    struct pair found;
    bool is_found;
    SUPPORT_OK(pair_queue_pop(q, &found, &is_found, &error), error);
    assert_false(is_found);
}

/* Counts of all sizes, many of them equal. */
static struct pair random_pair(uint32_t number) {
    struct rng_block r = rng_draw(rng_stream(3, RNG_TEST, 0, 0), number, 0, 0, 0);
    uint64_t count = ((uint64_t)r.word[0] << 8 | 1) >> r.word[1] % 40;
    return (struct pair){count ? count : 1, number, 0, r.word[2] % 50, number, 0};
}

static void pairs_come_by_count_then_left_then_right(void **state) {
    (void)state;
    enum { PAIRS = 5000 };
    struct pair pairs[PAIRS];
    struct pair_queue q;
    SUPPORT_OK(pair_queue_open(&q, &error), error);
    for (uint32_t i = 0; i < PAIRS; i++) {
        pairs[i] = random_pair(i);
        SUPPORT_OK(pair_queue_push(&q, pairs[i], &error), error);
    }
    qsort(pairs, PAIRS, sizeof pairs[0], compare_pairs);
    for (int i = 0; i < PAIRS; i++)
        expect_pop(&q, pairs[i]);
    expect_empty(&q);
    pair_queue_close(&q);
}

static void what_is_pushed_between_pops_takes_its_place(void **state) {
    (void)state;
    struct pair_queue q;
    SUPPORT_OK(pair_queue_open(&q, &error), error);
    const struct pair a = {9, 1, 0, 5, 5, 0}, b = {9, 2, 0, 4, 9, 0},
                      c = {8, 3, 0, 1, 1, 0}, d = {9, 4, 0, 4, 8, 0};
    SUPPORT_OK(pair_queue_push(&q, a, &error), error);
    SUPPORT_OK(pair_queue_push(&q, c, &error), error);
    SUPPORT_OK(pair_queue_push(&q, b, &error), error);
    expect_pop(&q, b);
    SUPPORT_OK(pair_queue_push(&q, d, &error), error); /* at the present level */
    expect_pop(&q, d);
    expect_pop(&q, a);
    expect_pop(&q, c);
    SUPPORT_OK(pair_queue_push(&q, (struct pair){1, 5, 0, 0, 0, 0}, &error), error);
    expect_pop(&q, (struct pair){1, 5, 0, 0, 0, 0});
    expect_empty(&q);
    pair_queue_close(&q);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_come_by_count_then_left_then_right),
        cmocka_unit_test(what_is_pushed_between_pops_takes_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
