/* test_schedule - learning rates at the corners of each kind. */
#include <math.h>
#include <string.h>

#include "encoder/schedule.h"
#include "tests/support.h"

static const struct row {
    const char *kind;
    int64_t warmup, max, step;
    double share; /* of the peak */
} rows[] = {
    {"linear", 5, 20, 1, 0.2},
    {"linear", 5, 20, 5, 1},
    {"linear", 5, 20, 6, 14.0 / 15},
    {"linear", 5, 20, 20, 0},
    {"linear", 5, 20, 25, 0},
    {"linear", 0, 4, 1, 0.75},
    {"linear", 4, 4, 4, 1},
    {"constant", 2, 10, 1, 0.5},
    {"constant", 2, 10, 10, 1},
    {"cosine", 0, 8, 4, 0.5},
    {"cosine", 2, 10, 10, 0},
    {"cosine", 2, 10, 2, 1},
    {"inverse_sqrt", 4, 100, 16, 0.5},
    {"inverse_sqrt", 0, 100, 25, 0.2},
    {"polynomial", 0, 4, 2, 0.25},
    {"polynomial", 0, 4, 4, 0},
};

static void rates_at_the_corners(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct schedule s = {rows[i].kind, 0.003, rows[i].warmup, rows[i].max};
        assert_true(fabs(schedule_rate(&s, rows[i].step) - 0.003 * rows[i].share) <
                    1e-15);
    }
}

static void the_option_text_names_every_kind(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_non_null(strstr(schedule_kinds, rows[i].kind));
    assert_true(strncmp(schedule_kinds, "linear|", 7) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_at_the_corners),
        cmocka_unit_test(the_option_text_names_every_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
