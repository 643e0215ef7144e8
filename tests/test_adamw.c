/* test_adamw - the update against its formula in double precision. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "encoder/adamw.h"
#include "tests/support.h"

enum { ROWS = 3 };
static const int64_t counts[ROWS] = {1000, 7, 333};
static const struct adamw rule = {0.01, 0.9, 0.98, 1e-6, 0.1};

static float draw(uint32_t row, int64_t i, uint32_t step) {
    const struct rng r = rng_stream(1, RNG_TEST, row, step);
    return rng_uniform(rng_draw(r, (uint32_t)i, 0, 0, 0).word[0]) - 0.5f;
}

/* Two rows decay, the short one does not. */
static void open_rows(struct parameters *p) {
    struct error err;
    *p = (struct parameters){0};
    for (int i = 0; i < ROWS; i++)
        parameters_add(p, (struct parameter_spec){.decay = i != 1}, counts[i], 0, "row%d",
                       i);
    SUPPORT_OK(parameters_allocate(p, true, &err), err);
    for (int i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < counts[i]; j++)
            p->rows[i]->value[j] = draw((uint32_t)i, j, 0);
}

static void set_gradients(struct parameters *p, uint32_t step) {
    for (int i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < counts[i]; j++)
            p->rows[i]->gradient[j] = draw((uint32_t)i, j, step);
}

static void updates_follow_the_formula(void **state) {
    (void)state;
    struct parameters p;
    static double w[ROWS][1000], m[ROWS][1000], v[ROWS][1000];
    memset(m, 0, sizeof m), memset(v, 0, sizeof v);
    open_rows(&p);
    for (int i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < counts[i]; j++)
            w[i][j] = (double)p.rows[i]->value[j];
    for (uint32_t t = 1; t <= 4; t++) {
        set_gradients(&p, t);
        adamw_update(&p, &rule, 0.25, t, 2);
        for (int i = 0; i < ROWS; i++)
            for (int64_t j = 0; j < counts[i]; j++) {
                const double g = 0.25 * (double)draw((uint32_t)i, j, t);
                m[i][j] = 0.9 * m[i][j] + 0.1 * g;
                v[i][j] = 0.98 * v[i][j] + 0.02 * g * g;
                const double root = sqrt(v[i][j] / (1 - pow(0.98, t))) + 1e-6;
                w[i][j] -= 0.01 * (m[i][j] / (1 - pow(0.9, t)) / root +
                                   (i != 1 ? 0.1 * w[i][j] : 0));
                assert_true(fabs(w[i][j] - (double)p.rows[i]->value[j]) < 2e-6);
                assert_true(p.rows[i]->gradient[j] == 0);
            }
    }
    parameters_free(&p);
}

static void the_norm_is_of_all_gradients_scaled(void **state) {
    (void)state;
    struct parameters p;
    double sum = 0;
    open_rows(&p);
    set_gradients(&p, 1);
    for (int i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < counts[i]; j++)
            sum += pow((double)draw((uint32_t)i, j, 1), 2);
    assert_true(fabs(adamw_gradient_norm(&p, 3, 2) - 3 * sqrt(sum)) < 1e-12);
    p.rows[2]->gradient[332] = INFINITY;
    assert_true(isinf(adamw_gradient_norm(&p, 1, 1)));
    p.rows[2]->gradient[331] = NAN;
    assert_true(isnan(adamw_gradient_norm(&p, 1, 1)));
    parameters_free(&p);
}

static void the_threads_do_not_change_a_bit(void **state) {
    (void)state;
    struct parameters one, three;
    open_rows(&one), open_rows(&three);
    for (uint32_t t = 1; t <= 3; t++) {
        set_gradients(&one, t), set_gradients(&three, t);
        assert_true(adamw_gradient_norm(&one, 1, 1) == adamw_gradient_norm(&three, 1, 3));
        adamw_update(&one, &rule, 1, t, 1);
        adamw_update(&three, &rule, 1, t, 3);
    }
    assert_memory_equal(one.value, three.value, one.total * sizeof *one.value);
    parameters_free(&one), parameters_free(&three);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_follow_the_formula),
        cmocka_unit_test(the_norm_is_of_all_gradients_scaled),
        cmocka_unit_test(the_threads_do_not_change_a_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
