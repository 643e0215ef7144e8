/* test_arena - measuring equals handing out; sizes that overflow are errors. */
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "tests/support.h"

struct layout {
    float *weights;
    char *flags;
    double *none, *sums;
};

static void lay_out(struct layout *l, struct arena *arena) {
    l->weights = ARENA_TAKE(arena, float, 1000);
    l->flags = ARENA_TAKE(arena, char, 3);
    l->none = ARENA_TAKE(arena, double, 0);
    l->sums = ARENA_TAKE(arena, double, 17);
}

static void what_was_measured_is_handed_out(void **state) {
    (void)state;
    struct arena measure = {0}, arena;
    struct layout l;
    struct error err;
    lay_out(&l, &measure);
    assert_null(l.weights);
    assert_null(l.sums);
    assert_int_equal(measure.used, 4032 + 64 + 0 + 192);
    SUPPORT_OK(arena_open(&arena, measure.used, &err), err);
    lay_out(&l, &arena);
    assert_int_equal(arena.used, measure.used);
    assert_int_equal((uintptr_t)l.weights % ARENA_ALIGNMENT, 0);
    assert_int_equal((uintptr_t)l.flags % ARENA_ALIGNMENT, 0);
    assert_int_equal((uintptr_t)l.sums % ARENA_ALIGNMENT, 0);
    assert_ptr_equal(l.flags, (char *)l.weights + 4032);
    for (int i = 0; i < 17; i++)
        assert_true(l.sums[i] == 0);
    l.sums[16] = 1; /* the last byte is ours */
    arena_close(&arena);
    assert_null(arena.base);
    arena_close(&arena); /* twice is fine */
}

static void an_empty_arena_opens(void **state) {
    (void)state;
    struct arena arena;
    struct error err;
    SUPPORT_OK(arena_open(&arena, 0, &err), err);
    assert_non_null(arena_take(&arena, 0, 8));
    arena_close(&arena);
}

static void sizes_that_overflow_are_remembered(void **state) {
    (void)state;
    struct arena measure = {0}, arena;
    struct error err;
    assert_null(arena_take(&measure, SIZE_MAX / 2, 4));
    assert_int_equal(measure.used, SIZE_MAX);
    assert_null(arena_take(&measure, 1, 64));
    assert_int_equal(measure.used, SIZE_MAX);
    assert_int_equal(arena_open(&arena, measure.used, &err), ERR_MEMORY);
    support_assert_error(&err, ERR_MEMORY, "the sizes asked for overflow");

    measure = (struct arena){0};
    arena_take(&measure, SIZE_MAX - 200, 1);
    arena_take(&measure, 1000, 1);
    assert_int_equal(measure.used, SIZE_MAX);
}

static void more_memory_than_there_is_is_an_error(void **state) {
    (void)state;
    struct arena arena;
    struct error err;
    assert_int_equal(arena_open(&arena, (size_t)1 << 60, &err), ERR_MEMORY);
    support_assert_error(&err, ERR_MEMORY, "out of memory: 1152921504606.8 MB asked for");
    arena_close(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_measured_is_handed_out),
        cmocka_unit_test(an_empty_arena_opens),
        cmocka_unit_test(sizes_that_overflow_are_remembered),
        cmocka_unit_test(more_memory_than_there_is_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
