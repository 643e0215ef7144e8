/* test_norm - the kinds of the table: every one's backward is the slope of its forward,
 * inputs are left alone; values of the kinds that treat a row by itself. What those with
 * statistics over a batch do in training is in test_norm_batch. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "encoder/norm.h"
#include "tests/support.h"

enum { ROWS = 37, WIDTH = 50 };

struct site {
    struct config config;
    struct team team;
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

/* A kind with buffers is asked with the statistics that they start with. */
static const struct norm_rows rows = {.real = ROWS};

static void site_open(struct site *s, const struct norm_kind *kind,
                      enum norm_affine affine, float offset) {
    struct error err;
    struct arena measure = {0};
    memset(s, 0, sizeof *s);
    config_default(&s->config);
    s->config.hidden_size = WIDTH;
    s->config.num_attention_heads = 5;
    s->config.arrangement.norm = kind;
    s->config.arrangement.norm_affine = affine;
    SUPPORT_OK(norm_check_settings(&s->config, &err), err);
    s->team.threads = 2;
    norm_declare(&s->norm, norm_main(&s->config.arrangement, false), WIDTH, &s->team,
                 &s->parameters, "site");
    SUPPORT_OK(parameters_allocate(&s->parameters, true, &err), err);
    parameters_initialise(&s->parameters, &s->config, 1);
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
    team_close(&s->team);
}

/* Normalised value before gain of element (row, c), in double. */
static double normalised(const struct site *s, int row, int c) {
    const float *x = s->x + row * WIDTH;
    double sum = 0, square = 0;
    for (int i = 0; i < WIDTH; i++)
        sum += (double)x[i];
    const double mean = s->norm.kind == &norm_ln ? sum / WIDTH : 0;
    for (int i = 0; i < WIDTH; i++)
        square += ((double)x[i] - mean) * ((double)x[i] - mean) / WIDTH;
    if (s->norm.kind == &norm_crms) /* with the channel that is left out */
        square = (square * WIDTH + sum * sum) / (WIDTH + 1);
    return ((double)x[c] - mean) / sqrt(square + 1e-5);
}

static const struct norm_kind *const of_rows[] = {&norm_ln, &norm_rms, &norm_crms, NULL};

/* x far from 0 beside its deviation is what residual streams without a post norm are. */
static void values_follow_the_formula_also_far_from_zero(void **state) {
    (void)state;
    static struct site s;
    for (const struct norm_kind *const *kind = of_rows; *kind; kind++)
        for (float offset = 0; offset <= 100; offset += 50) {
            site_open(&s, *kind, AFFINE_BOTH, offset);
            norm_forward(&s.norm, view(s.y), view(s.x), rows);
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
        if (norm_is_none(*kind))
            continue;
        site_open(&s, *kind, AFFINE_BOTH, 0.5f);
        memcpy(before, s.x, sizeof before);
        norm_forward(&s.norm, view(s.y), view(s.x), rows);
        norm_backward(&s.norm, view(s.dx), view(s.dy), view(s.x), rows);
        assert_memory_equal(s.x, before, sizeof before);
        site_close(&s);
    }
}

/* y does not change along xh (up to eps), nor under a common amount in LayerNorm: so dx
 * has no part along either. */
static void the_gradient_is_orthogonal_to_what_the_norm_removes(void **state) {
    (void)state;
    static struct site s;
    for (const struct norm_kind *const *kind = of_rows; *kind; kind++) {
        site_open(&s, *kind, AFFINE_BOTH, 0.3f);
        norm_forward(&s.norm, view(s.y), view(s.x), rows);
        norm_backward(&s.norm, view(s.dx), view(s.dy), view(s.x), rows);
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

static double loss_of(struct site *s) {
    double sum = 0;
    norm_forward(&s->norm, view(s->y), view(s->x), rows);
    for (int i = 0; i < ROWS * WIDTH; i++)
        sum += (double)s->dy[i] * (double)s->y[i];
    return sum;
}

static void check_slope(struct site *s, float *entry, float found) {
    const float h = 1e-2f, start = *entry;
    *entry = start + h;
    const double up = loss_of(s);
    *entry = start - h;
    const double slope = (up - loss_of(s)) / (2 * (double)h);
    *entry = start;
    if (!(fabs(slope - (double)found) < 2e-3 * (1 + fabs(slope))))
        fail_msg("%s: gradient %g, slope %g", s->norm.kind->name, (double)found, slope);
}

static void every_gradient_is_the_slope_of_the_forward(void **state) {
    (void)state;
    static struct site s;
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++) {
        if (norm_is_none(*kind))
            continue;
        site_open(&s, *kind, AFFINE_BOTH, 0.2f);
        norm_forward(&s.norm, view(s.y), view(s.x), rows);
        norm_backward(&s.norm, view(s.dx), view(s.dy), view(s.x), rows);
        for (int i = 3; i < ROWS * WIDTH; i += 101)
            check_slope(&s, &s.x[i], s.dx[i]);
        for (int c = 1; c < WIDTH; c += 7) {
            check_slope(&s, &s.norm.weight->value[c], s.norm.weight->gradient[c]);
            check_slope(&s, &s.norm.bias->value[c], s.norm.bias->gradient[c]);
        }
        site_close(&s);
    }
}

static void gradients_are_added_and_dx_may_stand_in_place_of_dy(void **state) {
    (void)state;
    static struct site s;
    static float once[2 * WIDTH];
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++) {
        if (norm_is_none(*kind))
            continue;
        site_open(&s, *kind, AFFINE_BOTH, 0);
        norm_forward(&s.norm, view(s.y), view(s.x), rows);
        norm_backward(&s.norm, view(s.dx), view(s.dy), view(s.x), rows);
        memcpy(once, s.norm.weight->gradient, WIDTH * sizeof *once);
        memcpy(once + WIDTH, s.norm.bias->gradient, WIDTH * sizeof *once);
        norm_backward(&s.norm, view(s.dy), view(s.dy), view(s.x), rows);
        assert_memory_equal(s.dx, s.dy, sizeof s.dx);
        for (int c = 0; c < WIDTH; c++) {
            assert_true(fabsf(s.norm.weight->gradient[c] - 2 * once[c]) < 1e-4f);
            assert_true(fabsf(s.norm.bias->gradient[c] - 2 * once[WIDTH + c]) < 1e-4f);
        }
        site_close(&s);
    }
}

static void an_affine_leaves_out_what_it_names(void **state) {
    (void)state;
    static struct site s;
    site_open(&s, &norm_ln, AFFINE_NONE, 0);
    assert_int_equal(s.parameters.count, 0);
    norm_forward(&s.norm, view(s.y), view(s.x), rows);
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
    norm_forward(&s.norm, view(s.y), view(s.x), rows);
    for (int i = 0; i < ROWS * WIDTH; i++)
        assert_true(s.y[i] == s.norm.bias->value[i % WIDTH]);
    site_close(&s);
}

static void a_site_of_no_norm_is_off(void **state) {
    (void)state;
    struct config c;
    struct parameters p = {0};
    struct team team = {.threads = 1};
    struct norm n;
    config_default(&c);
    c.arrangement.norm = &norm_none;
    norm_declare(&n, norm_main(&c.arrangement, false), WIDTH, &team, &p, "site");
    assert_null(n.kind);
    assert_int_equal(p.count, 0);
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
        cmocka_unit_test(every_gradient_is_the_slope_of_the_forward),
        cmocka_unit_test(gradients_are_added_and_dx_may_stand_in_place_of_dy),
        cmocka_unit_test(an_affine_leaves_out_what_it_names),
        cmocka_unit_test(a_row_of_one_value_gives_the_bias),
        cmocka_unit_test(a_site_of_no_norm_is_off),
        cmocka_unit_test(kinds_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
