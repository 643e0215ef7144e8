/* test_norm - the kinds of the table: values, what backward must be orthogonal to, and
 * inputs left alone. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "encoder/norm.h"
#include "tests/support.h"

enum { ROWS = 37, WIDTH = 50 };

struct site {
    struct parameters parameters;
    struct norm norm;
    struct arena arena;
    float x[ROWS * WIDTH], y[ROWS * WIDTH], dy[ROWS * WIDTH], dx[ROWS * WIDTH];
};

static void fill(float *x, int count, uint32_t site, float offset) {
    const struct rng r = rng_stream(1, RNG_TEST, site, 0);
    for (int i = 0; i < count; i++)
        x[i] = offset + 2 * rng_uniform(rng_draw(r, (uint32_t)i, 0, 0, 0).word[0]) - 1;
}

static struct tensor view(float *x) { return tensor_f32(x, ROWS, WIDTH); }

static void site_open(struct site *s, const struct norm_kind *kind,
                      enum norm_affine affine, float offset) {
    struct error err;
    struct arena measure = {0};
    memset(s, 0, sizeof *s);
    norm_declare(&s->norm, kind, affine, 1e-5, WIDTH, 2, &s->parameters, false, "site");
    SUPPORT_OK(parameters_allocate(&s->parameters, true, &err), err);
    norm_layout(&s->norm, &measure, ROWS);
    SUPPORT_OK(arena_open(&s->arena, measure.used, &err), err);
    norm_layout(&s->norm, &s->arena, ROWS);
    fill(s->x, ROWS * WIDTH, 0, offset);
    fill(s->dy, ROWS * WIDTH, 1, 0);
    if (s->norm.weight)
        fill(s->norm.weight->value, WIDTH, 2, 1);
    if (s->norm.bias)
        fill(s->norm.bias->value, WIDTH, 3, 0);
}

static void site_close(struct site *s) {
    arena_close(&s->arena);
    parameters_free(&s->parameters);
}

/* Normalised value before gain of element (row, c), in double. */
static double normalised(const struct site *s, int row, int c) {
    const float *x = s->x + row * WIDTH;
    double mean = 0, square = 0;
    for (int i = 0; s->norm.kind == &norm_ln && i < WIDTH; i++)
        mean += (double)x[i] / WIDTH;
    for (int i = 0; i < WIDTH; i++)
        square += ((double)x[i] - mean) * ((double)x[i] - mean) / WIDTH;
    return ((double)x[c] - mean) / sqrt(square + 1e-5);
}

/* x far from 0 beside its deviation is what residual streams without a post norm are. */
static void values_follow_the_formula_also_far_from_zero(void **state) {
    (void)state;
    static struct site s;
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        for (float offset = 0; offset <= 100; offset += 50) {
            site_open(&s, *kind, AFFINE_BOTH, offset);
            norm_forward(&s.norm, view(s.y), view(s.x));
            for (int i = 0; i < ROWS * WIDTH; i++) {
                const int c = i % WIDTH;
                const double expected =
                    normalised(&s, i / WIDTH, c) * (double)s.norm.weight->value[c] +
                    (double)s.norm.bias->value[c];
                assert_true(fabs((double)s.y[i] - expected) < 1e-6);
            }
            site_close(&s);
        }
}

static void the_input_is_left_alone(void **state) {
    (void)state;
    static struct site s;
    static float before[ROWS * WIDTH];
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++) {
        site_open(&s, *kind, AFFINE_BOTH, 0.5f);
        memcpy(before, s.x, sizeof before);
        norm_forward(&s.norm, view(s.y), view(s.x));
        norm_backward(&s.norm, view(s.dx), view(s.dy), view(s.x));
        assert_memory_equal(s.x, before, sizeof before);
        site_close(&s);
    }
}

/* y does not change along xh (up to eps), nor under a common amount in LayerNorm: so dx
 * has no part along either. */
static void the_gradient_is_orthogonal_to_what_the_norm_removes(void **state) {
    (void)state;
    static struct site s;
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++) {
        site_open(&s, *kind, AFFINE_BOTH, 0.3f);
        norm_forward(&s.norm, view(s.y), view(s.x));
        norm_backward(&s.norm, view(s.dx), view(s.dy), view(s.x));
        for (int row = 0; row < ROWS; row++) {
            double along = 0, sum = 0;
            for (int c = 0; c < WIDTH; c++) {
                along += (double)s.dx[row * WIDTH + c] * normalised(&s, row, c);
                sum += (double)s.dx[row * WIDTH + c];
            }
            assert_true(fabs(along) < 1e-3);
            assert_true(*kind != &norm_ln || fabs(sum) < 1e-5);
        }
        site_close(&s);
    }
}

static void gradients_of_gain_and_bias_are_added_in_place_of_dy(void **state) {
    (void)state;
    static struct site s;
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++) {
        site_open(&s, *kind, AFFINE_BOTH, 0);
        norm_forward(&s.norm, view(s.y), view(s.x));
        static float kept[ROWS * WIDTH];
        memcpy(kept, s.dy, sizeof kept);
        for (int pass = 0; pass < 2; pass++) {
            memcpy(s.dy, kept, sizeof kept);
            norm_backward(&s.norm, view(s.dy), view(s.dy), view(s.x));
        }
        norm_backward(&s.norm, view(s.dx), view(kept), view(s.x));
        assert_memory_equal(s.dx, s.dy, sizeof s.dx);
        for (int c = 0; c < WIDTH; c++) {
            double gain = 0, bias = 0;
            for (int row = 0; row < ROWS; row++) {
                gain += (double)kept[row * WIDTH + c] * normalised(&s, row, c);
                bias += (double)kept[row * WIDTH + c];
            }
            assert_true(fabs((double)s.norm.weight->gradient[c] - 3 * gain) < 1e-4);
            assert_true(fabs((double)s.norm.bias->gradient[c] - 3 * bias) < 1e-4);
        }
        site_close(&s);
    }
}

static void an_affine_leaves_out_what_it_names(void **state) {
    (void)state;
    static struct site s;
    site_open(&s, &norm_ln, AFFINE_NONE, 0);
    assert_int_equal(s.parameters.count, 0);
    norm_forward(&s.norm, view(s.y), view(s.x));
    assert_true(fabs((double)s.y[7] - normalised(&s, 0, 7)) < 1e-6);
    site_close(&s);
    site_open(&s, &norm_rms, AFFINE_GAIN, 0);
    assert_int_equal(s.parameters.count, 1);
    assert_string_equal(s.parameters.rows[0]->name, "site.weight");
    assert_false(s.parameters.rows[0]->decay);
    site_close(&s);
}

static void a_row_of_one_value_gives_the_bias(void **state) {
    (void)state;
    static struct site s;
    site_open(&s, &norm_ln, AFFINE_BOTH, 0);
    for (int i = 0; i < ROWS * WIDTH; i++)
        s.x[i] = 1e6f;
    norm_forward(&s.norm, view(s.y), view(s.x));
    for (int i = 0; i < ROWS * WIDTH; i++)
        assert_true(s.y[i] == s.norm.bias->value[i % WIDTH]);
    site_close(&s);
}

static void kinds_are_found_by_name(void **state) {
    (void)state;
    assert_ptr_equal(norm_find("ln"), &norm_ln);
    assert_ptr_equal(norm_find("rms"), &norm_rms);
    assert_null(norm_find("l"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_follow_the_formula_also_far_from_zero),
        cmocka_unit_test(the_input_is_left_alone),
        cmocka_unit_test(the_gradient_is_orthogonal_to_what_the_norm_removes),
        cmocka_unit_test(gradients_of_gain_and_bias_are_added_in_place_of_dy),
        cmocka_unit_test(an_affine_leaves_out_what_it_names),
        cmocka_unit_test(a_row_of_one_value_gives_the_bias),
        cmocka_unit_test(kinds_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
