/* test_parameters - the registry: places in the blocks, and the initial values. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "encoder/adamw.h"
#include "encoder/config.h"
#include "encoder/parameters.h"
#include "tests/support.h"

static struct config config;

static int defaults(void **state) {
    (void)state;
    config_default(&config);
    return 0;
}

static void rows_are_aligned_unless_they_adjoin(void **state) {
    (void)state;
    struct error err;
    struct parameters p = {0};
    const struct parameter_spec plain = {0}, adjoining = {.adjoins = true};
    parameters_add(&p, plain, 3, 7, "a.%d", 1);
    parameters_add(&p, adjoining, 3, 7, "a.2");
    parameters_add(&p, plain, 5, 0, "b");
    SUPPORT_OK(parameters_allocate(&p, true, &err), err);
    assert_ptr_equal(p.rows[1]->value, p.rows[0]->value + 21);
    assert_ptr_equal(p.rows[1]->gradient, p.rows[0]->gradient + 21);
    assert_int_equal(p.rows[2]->offset, 48);
    assert_int_equal(p.total, 64);
    assert_int_equal(parameters_number(&p), 47);
    assert_int_equal(p.rows[2]->rank, 1);
    assert_ptr_equal(parameters_find(&p, "a.1"), p.rows[0]);
    assert_null(parameters_find(&p, "a"));
    p.rows[2]->gradient[4] = 3;
    parameters_clear_gradients(&p);
    assert_true(p.rows[2]->gradient[4] == 0);
    parameters_free(&p);
}

static void only_values_exist_outside_training(void **state) {
    (void)state;
    struct error err;
    struct parameters p = {0};
    parameters_add(&p, (struct parameter_spec){0}, 3, 0, "a");
    SUPPORT_OK(parameters_allocate(&p, false, &err), err);
    assert_non_null(p.rows[0]->value);
    assert_null(p.rows[0]->gradient);
    parameters_free(&p);
}

/* A product writes it once after every update and adds from then on; whoever adds parts
 * of it first gets zeros. */
static void a_stale_gradient_is_written_or_cleared_never_read(void **state) {
    (void)state;
    struct error err;
    struct parameters p = {0};
    const struct adamw rule = {1e-3, 0.9, 0.98, 1e-6, 0};
    parameters_add(&p, (struct parameter_spec){.is_product = true}, 2, 3, "product");
    parameters_add(&p, (struct parameter_spec){0}, 3, 0, "sum");
    SUPPORT_OK(parameters_allocate(&p, true, &err), err);
    struct parameter *product = p.rows[0], *sum = p.rows[1];
    assert_false(parameters_adds(product)); /* the first of all */
    assert_true(parameters_adds(product));
    product->gradient[5] = sum->gradient[2] = 3;
    adamw_update(&p, &rule, 1, 1, 1);
    assert_true(sum->gradient[2] == 0);
    assert_true(parameters_adds(sum));
    assert_true(adamw_gradient_norm(&p, 1, 1) == 0);
    assert_true(product->gradient[5] == 0);
    product->gradient[5] = 3;
    adamw_update(&p, &rule, 1, 2, 1);
    parameters_settle(product);
    assert_true(product->gradient[5] == 0 && parameters_adds(product));
    adamw_update(&p, &rule, 1, 3, 1);
    assert_false(parameters_adds(product));
    parameters_free(&p);
}

/* A block of 200 x 300 of this name and rule. */
static struct parameter *drawn(struct parameters *p, enum parameter_init init,
                               double gain, const char *name, uint64_t seed) {
    struct error err;
    const struct parameter_spec spec = {.init = init, .gain = gain, .zero_row = 1};
    *p = (struct parameters){0};
    parameters_add(p, spec, 200, 300, "%s", name);
    SUPPORT_OK(parameters_allocate(p, false, &err), err);
    parameters_initialise(p, &config, seed);
    return p->rows[0];
}

struct moments {
    double mean, deviation, most;
};

static struct moments moments_of(const struct parameter *row) {
    struct moments m = {0};
    for (size_t i = 0; i < row->count; i++)
        m.mean += (double)row->value[i] / (double)row->count;
    for (size_t i = 0; i < row->count; i++) {
        m.deviation += pow((double)row->value[i] - m.mean, 2) / (double)row->count;
        m.most = support_worse(m.most, fabs((double)row->value[i]));
    }
    m.deviation = sqrt(m.deviation);
    return m;
}

static void each_rule_has_its_deviation(void **state) {
    (void)state;
    static const struct {
        enum init_rule rule;
        double deviation;
        int is_uniform;
    } rules[] = {{INIT_RULE_NORMAL, 0.02, 0},
                 {INIT_RULE_XAVIER_NORMAL, 0.0632455532, 0},
                 {INIT_RULE_XAVIER_UNIFORM, 0.0632455532, 1},
                 {INIT_RULE_TORCH_LINEAR, 0.0333333333, 1}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct parameters p;
        config.arrangement.init = rules[i].rule;
        struct moments m = moments_of(drawn(&p, PARAMETER_LINEAR, 0.5, "w", 1));
        assert_true(fabs(m.deviation / (0.5 * rules[i].deviation) - 1) < 0.02);
        assert_true(fabs(m.mean) < 0.02 * m.deviation);
        assert_int_equal(m.most < 1.7321 * 0.5 * rules[i].deviation, rules[i].is_uniform);
        parameters_free(&p);
    }
}

static void embeddings_leave_their_pad_row_zero(void **state) {
    (void)state;
    struct parameters p;
    config.arrangement.init = INIT_RULE_TORCH_LINEAR; /* not for embeddings */
    const struct parameter *row = drawn(&p, PARAMETER_EMBEDDING, 7, "e", 1);
    for (int i = 0; i < 300; i++)
        assert_true(row->value[300 + i] == 0 && row->value[i] != 0);
    assert_true(fabs(moments_of(row).deviation / 0.02 - 1) < 0.02);
    parameters_free(&p);
}

static void values_depend_on_seed_and_name_only(void **state) {
    (void)state;
    struct parameters a, b, c, d;
    const size_t bytes = 60000 * sizeof(float);
    const float *first = drawn(&a, PARAMETER_LINEAR, 1, "one", 1)->value;
    assert_memory_equal(first, drawn(&b, PARAMETER_LINEAR, 1, "one", 1)->value, bytes);
    assert_memory_not_equal(first, drawn(&c, PARAMETER_LINEAR, 1, "two", 1)->value,
                            bytes);
    assert_memory_not_equal(first, drawn(&d, PARAMETER_LINEAR, 1, "one", 2)->value,
                            bytes);
    parameters_free(&a), parameters_free(&b), parameters_free(&c), parameters_free(&d);
}

/* The name's hash (FNV-1a) names the stream; a draw of four words gives four values. */
static void normal_values_are_those_of_the_generator(void **state) {
    (void)state;
    struct parameters p;
    const struct parameter *row = drawn(&p, PARAMETER_EMBEDDING, 1, "e", 7);
    const uint64_t hash = (0xcbf29ce484222325 ^ 'e') * 0x100000001b3;
    const struct rng r = rng_stream(7, RNG_INIT, (uint32_t)(hash >> 32), (uint32_t)hash);
    for (uint32_t i = 600; i < row->count; i += 2) {
        float pair[2];
        const struct rng_block b = rng_draw(r, i / 4, 0, 0, 0);
        rng_normal(b.word[i % 4], b.word[i % 4 + 1], pair);
        for (int j = 0; j < 2; j++) {
            const double expected =
                config.arrangement.initializer_range * (double)pair[j];
            assert_true(fabs((double)row->value[i + (uint32_t)j] - expected) <=
                        2e-7 * fabs(expected));
        }
    }
    parameters_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_aligned_unless_they_adjoin),
        cmocka_unit_test(only_values_exist_outside_training),
        cmocka_unit_test(a_stale_gradient_is_written_or_cleared_never_read),
        cmocka_unit_test_setup(each_rule_has_its_deviation, defaults),
        cmocka_unit_test_setup(embeddings_leave_their_pad_row_zero, defaults),
        cmocka_unit_test_setup(values_depend_on_seed_and_name_only, defaults),
        cmocka_unit_test_setup(normal_values_are_those_of_the_generator, defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
