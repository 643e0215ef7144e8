/* test_adamw - the update against its formula in double precision. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "encoder/adamw.h"
#include "encoder/scattered.h"
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

/* Three steps of two accumulated batches on a table of 300 rows, of which few are read:
 * moments of all rows decay. */
static void scattered_gradients_give_the_same_as_dense_ones(void **state) {
    (void)state;
    enum { TABLE = 300, WIDTH = 40 };
    struct error err;
    struct parameters two[2] = {0};
    for (int dense = 0; dense < 2; dense++) {
        struct parameters *p = &two[dense];
        parameters_add(p, (struct parameter_spec){.decay = true}, 9, 0, "first");
        struct parameter *table = parameters_add(
            p, (struct parameter_spec){.is_product = true, .scatters = true}, TABLE,
            WIDTH, "table");
        SUPPORT_OK(parameters_allocate(p, true, &err), err);
        for (uint32_t t = 1; t <= 3; t++) {
            memset(table->gradient, 1, table->count * sizeof(float)); /* stale */
            for (uint32_t batch = 0; batch < 2; batch++) {
                if (dense)
                    parameters_settle(table);
                else
                    scattered_settle(table);
                for (int64_t i = 0; i < 7; i++) {
                    const int64_t id = (i * 37 + t * 5 + batch) % TABLE;
                    scattered_mark(table, id);
                    for (int64_t c = 0; c < WIDTH; c++)
                        table->gradient[id * WIDTH + c] += draw(batch, i * WIDTH + c, t);
                }
            }
            assert_int_equal(table->is_scattered, !dense);
            const double norm = adamw_gradient_norm(p, 1, 2);
            assert_true(norm > 1 && norm < 30);
            adamw_update(p, &rule, 1 / norm, t, 2);
        }
    }
    for (size_t i = 0; i < two[0].total; i++) {
        assert_true(fabsf(two[0].value[i] - two[1].value[i]) < 1e-8f);
        assert_true(fabsf(two[0].exp_avg[i] - two[1].exp_avg[i]) < 1e-8f);
    }
    parameters_free(&two[0]), parameters_free(&two[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_follow_the_formula),
        cmocka_unit_test(the_norm_is_of_all_gradients_scaled),
        cmocka_unit_test(the_threads_do_not_change_a_bit),
        cmocka_unit_test(scattered_gradients_give_the_same_as_dense_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
