/* test_norm_batch - the norms with statistics over a batch, in training: every step of
 * sites that a reference ran in double precision, rows that are no tokens, buffers saved
 * and restored.
 *
 * tests/data/norms/<name>.safetensors holds 12 steps of one site, <name>.json its
 * settings. Bound: 1e-5 of the largest entry of each tensor. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_file.h"
#include "base/rng.h"
#include "encoder/norm.h"
#include "encoder/safetensors.h"
#include "tests/support.h"

enum { MOST = 16 * 16 };

struct site {
    struct config config;
    struct parameters parameters;
    struct team team;
    struct norm norm;
    struct arena arena;
};

static void site_open(struct site *s, const char *kind, const char *settings, int heads,
                      int64_t width, int64_t max_rows) {
    struct error err;
    struct arena measure = {0};
    memset(s, 0, sizeof *s);
    config_default(&s->config);
    s->config.hidden_size = width;
    s->config.num_attention_heads = heads;
    SUPPORT_OK(config_set_switch(&s->config, "norm", kind, &err), err);
    SUPPORT_OK(config_set_switch(&s->config, "norm_stat", settings, &err), err);
    SUPPORT_OK(norm_check_settings(&s->config, &err), err);
    s->team.threads = 2;
    norm_declare(&s->norm, norm_main(&s->config.arrangement, false), width, &s->team,
                 &s->parameters, "site");
    SUPPORT_OK(parameters_allocate(&s->parameters, true, &err), err);
    parameters_initialise(&s->parameters, &s->config, 1);
    norm_layout(&s->norm, &measure, max_rows);
    SUPPORT_OK(arena_open(&s->arena, measure.used, &err), err);
    norm_layout(&s->norm, &s->arena, max_rows);
}

static void site_close(struct site *s) {
    arena_close(&s->arena);
    parameters_free(&s->parameters);
    team_close(&s->team);
}

/* ---- Golden steps. ---- */

/* What a golden file calls a setting. */
static const struct {
    const char *key, *setting;
} names[] = {
    {"warmup", "warmup"},
    {"window", "window"},
    {"groups", "groups"},
    {"alpha_forward", "momentum"},
    {"alpha_backward", "momentum_backward"},
    {"compensation_after", "compensation_after"},
};

/* The files, and what they have from the batch in `momentum`'s place: PyTorch states the
 * share that the batch gets. */
static const struct {
    const char *file, *kind;
} files[] = {
    {"batch", "bn"}, {"batch_penalty", "bn"}, {"power", "pn"}, {"unified", "un"}};

struct golden {
    json_t *settings;
    struct safetensors file;
    int64_t steps, rows, width;
};

static double number(const struct golden *g, const char *key, double fallback) {
    const json_t *value = json_object_get(g->settings, key);
    return value ? json_number_value(value) : fallback;
}

static void golden_open(struct golden *g, const char *name) {
    struct error err;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "tests/data/norms/%s.json", name);
    SUPPORT_OK(json_file_read(&g->settings, path, &err), err);
    snprintf(path, sizeof path, "tests/data/norms/%s.safetensors", name);
    SUPPORT_OK(safetensors_open(&g->file, path, &err), err);
    g->steps = (int64_t)number(g, "steps", 0);
    g->rows = (int64_t)number(g, "rows", 0);
    g->width = (int64_t)number(g, "channels", 0);
    assert_true(g->steps > 0 && g->rows * g->width <= MOST);
}

static void golden_close(struct golden *g) {
    json_decref(g->settings);
    safetensors_close(&g->file);
}

/* All of a tensor as doubles; the caller frees. NULL when the file has none. */
static double *values_of(const struct golden *g, const char *name) {
    struct error err;
    const struct safetensor *t = safetensors_find(&g->file, name);
    double *values = t ? calloc(t->count, sizeof *values) : NULL;
    if (t && !strcmp(t->dtype, "I64"))
        for (size_t i = 0; i < t->count; i++) {
            int64_t integer;
            memcpy(&integer, (const char *)t->data + 8 * i, sizeof integer);
            values[i] = (double)integer;
        }
    else if (t)
        SUPPORT_OK(safetensors_to_f64(&g->file, t, values, &err), err);
    return values;
}

static void open_golden_site(struct site *s, const struct golden *g, const char *kind) {
    struct error err;
    char settings[256] = "", penalty[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t used = strlen(settings);
        if (json_object_get(g->settings, names[i].key))
            snprintf(settings + used, sizeof settings - used, "%s=%g,", names[i].setting,
                     number(g, names[i].key, 0));
    }
    const double momentum = number(g, "momentum", -1);
    if (momentum >= 0)
        snprintf(settings + strlen(settings), sizeof settings - strlen(settings),
                 "momentum=%.17g", strcmp(kind, "bn") ? momentum : 1 - momentum);
    site_open(s, kind, settings, 4, g->width, g->rows);
    snprintf(penalty, sizeof penalty, "%.17g,%.17g", number(g, "penalty_mean", 0),
             number(g, "penalty_var", 0));
    SUPPORT_OK(config_set_switch(&s->config, "norm_penalty", penalty, &err), err);
    double *gain = values_of(g, "gain"), *bias = values_of(g, "bias");
    for (int64_t c = 0; c < g->width; c++) {
        s->norm.weight->value[c] = (float)gain[c];
        s->norm.bias->value[c] = (float)bias[c];
    }
    free(gain);
    free(bias);
}

/* Real rows first, as the encoder has them: order[i] is the file's row of our row i. */
static int64_t sort_rows(const struct golden *g, int64_t step, int64_t order[16]) {
    double *is_real = values_of(g, "is_real");
    int64_t count = 0, real = 0;
    for (int wanted = 1; wanted >= 0; wanted--) {
        for (int64_t r = 0; r < g->rows; r++)
            if ((is_real[step * g->rows + r] != 0) == wanted)
                order[count++] = r;
        real = wanted ? count : real;
    }
    free(is_real);
    return real;
}

static void take_rows(const struct golden *g, const char *name, int64_t step,
                      const int64_t order[16], float *out) {
    double *values = values_of(g, name);
    for (int64_t i = 0; i < g->rows * g->width; i++)
        out[i] = (float)
            values[(step * g->rows + order[i / g->width]) * g->width + i % g->width];
    free(values);
}

/* `count` numbers of `name` from number `first` on; row r of them is ours at order[r]. */
static void check(const struct golden *g, const char *file, const char *name,
                  int64_t step, const float *found, int64_t rows,
                  const int64_t order[16]) {
    double *expected = values_of(g, name), largest = 0, most = 0;
    if (!expected)
        fail_msg("%s lacks %s", file, name);
    const double *first = expected + step * rows * g->width;
    for (int64_t i = 0; i < rows * g->width; i++) {
        const int64_t row = order ? order[i / g->width] : i / g->width;
        const double d = fabs((double)found[i] - first[row * g->width + i % g->width]);
        most = support_worse(most, d);
        largest = fmax(largest, fabs(first[i]));
    }
    free(expected);
    if (!(most <= 1e-5 * largest))
        fail_msg("%s, step %d: %s differs by %g of %g", file, (int)step + 1, name, most,
                 largest);
}

/* Buffers of one number a channel, those that the file has. */
static void check_buffers(const struct golden *g, const char *file, const struct site *s,
                          int64_t step) {
    int checked = 0;
    for (int i = 0; s->norm.kind->buffers[i].name; i++) {
        const char *name = s->norm.kind->buffers[i].name;
        if (!safetensors_find(&g->file, name))
            continue;
        check(g, file, name, step, s->norm.buffers[i]->value, 1, NULL);
        checked++;
    }
    assert_true(checked >= 2);
}

static void check_penalty(const struct golden *g, const struct site *s, int64_t step) {
    double *expected = values_of(g, "penalty");
    for (int i = 0; expected && s->norm.kind->figures[i]; i++)
        if (!strcmp(s->norm.kind->figures[i], "norm_penalty"))
            assert_true(fabs(s->norm.figures[i] - expected[step]) <=
                        1e-5 * fabs(expected[step]) + 1e-12);
    free(expected);
}

static void check_step(const struct golden *g, const char *file, struct site *s,
                       int64_t step) {
    float x[MOST], y[MOST], d[MOST];
    int64_t order[16];
    const struct norm_rows rows = {sort_rows(g, step, order), true, 1};
    const struct tensor tx = tensor_f32(x, g->rows, g->width),
                        ty = tensor_f32(y, g->rows, g->width),
                        td = tensor_f32(d, g->rows, g->width);
    take_rows(g, "x", step, order, x);
    take_rows(g, "dy", step, order, d);
    parameters_clear_gradients(&s->parameters);
    norm_forward(&s->norm, ty, tx, rows);
    norm_backward(&s->norm, td, td, tx, rows);
    check(g, file, "y", step, y, g->rows, order);
    check(g, file, "dx", step, d, g->rows, order);
    check(g, file, "dgain", step, s->norm.weight->gradient, 1, NULL);
    check(g, file, "dbias", step, s->norm.bias->gradient, 1, NULL);
    check_buffers(g, file, s, step);
    check_penalty(g, s, step);
}

static void check_evaluation(const struct golden *g, const char *file, struct site *s) {
    float x[MOST], y[MOST];
    int64_t order[16];
    sort_rows(g, g->steps - 1, order);
    take_rows(g, "x", g->steps - 1, order, x);
    norm_forward(&s->norm, tensor_f32(y, g->rows, g->width),
                 tensor_f32(x, g->rows, g->width), (struct norm_rows){.real = g->rows});
    check(g, file, "eval_y_of_last_x", 0, y, g->rows, order);
}

static void every_golden_step_is_reproduced(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct golden g;
        struct site s;
        golden_open(&g, files[i].file);
        open_golden_site(&s, &g, files[i].kind);
        for (int64_t step = 0; step < g.steps; step++)
            check_step(&g, files[i].file, &s, step);
        check_evaluation(&g, files[i].file, &s);
        site_close(&s);
        golden_close(&g);
    }
}

/* ---- Without a reference. ---- */

enum { ROWS = 13, WIDTH = 12 };

static void fill(float *x, int count, uint32_t site) {
    const struct rng r = rng_stream(3, RNG_TEST, site, 0);
    for (int i = 0; i < count; i++)
        x[i] = 2 * rng_uniform(rng_draw(r, (uint32_t)i, 0, 0, 0).word[0]) - 1;
}

/* A step on the rows that belong to its number; y and dx are left in the arrays. */
static void run_step(struct site *s, uint32_t number, int64_t real, float *y, float *dx) {
    static float x[ROWS * WIDTH];
    const struct norm_rows rows = {real, true, 7};
    fill(x, ROWS * WIDTH, 2 * number);
    fill(dx, ROWS * WIDTH, 2 * number + 1);
    memset(dx + real * WIDTH, 0, (size_t)((ROWS - real) * WIDTH) * sizeof *dx);
    const struct tensor tx = tensor_f32(x, ROWS, WIDTH), d = tensor_f32(dx, ROWS, WIDTH);
    norm_forward(&s->norm, tensor_f32(y, ROWS, WIDTH), tx, rows);
    norm_backward(&s->norm, d, d, tx, rows);
}

static const struct {
    const char *kind, *settings;
} kinds[] = {{"bn", ""},
             {"pn", "warmup=3"},
             {"pn", "warmup=3,groups=0,bwd_scale=1"},
             {"un", "warmup=3,compensation_after=4"},
             {"un", "warmup=3,filter=1,compensation_after=4"}};

/* What the rounded rows hold must not matter, whatever the number of real ones. */
static void rows_that_are_no_tokens_change_nothing(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct site all, cut;
        site_open(&all, kinds[i].kind, kinds[i].settings, 3, WIDTH, ROWS);
        site_open(&cut, kinds[i].kind, kinds[i].settings, 3, WIDTH, ROWS);
        for (uint32_t step = 0; step < 8; step++) {
            const int64_t real = 4 + step % 5;
            static float y[2][ROWS * WIDTH], dx[2][ROWS * WIDTH], x[ROWS * WIDTH];
            run_step(&all, step, real, y[0], dx[0]);
            fill(x, ROWS * WIDTH, 2 * step);
            fill(dx[1], (int)real * WIDTH, 2 * step + 1);
            const struct tensor tx = tensor_f32(x, real, WIDTH),
                                d = tensor_f32(dx[1], real, WIDTH);
            const struct norm_rows rows = {real, true, 7};
            norm_forward(&cut.norm, tensor_f32(y[1], real, WIDTH), tx, rows);
            norm_backward(&cut.norm, d, d, tx, rows);
            const size_t bytes = (size_t)real * WIDTH * sizeof(float);
            assert_memory_equal(y[0], y[1], bytes);
            assert_memory_equal(dx[0], dx[1], bytes);
            for (int64_t j = real * WIDTH; j < ROWS * WIDTH; j++)
                assert_true(dx[0][j] == 0 && isfinite(y[0][j]));
        }
        assert_memory_equal(all.parameters.value, cut.parameters.value,
                            all.parameters.held * sizeof(float));
        site_close(&all);
        site_close(&cut);
    }
}

/* Everything that a step depends on is in the rows that a checkpoint saves. */
static void a_site_goes_on_from_its_saved_rows(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct site one, other;
        static float y[2][ROWS * WIDTH], dx[2][ROWS * WIDTH];
        site_open(&one, kinds[i].kind, kinds[i].settings, 3, WIDTH, ROWS);
        site_open(&other, kinds[i].kind, kinds[i].settings, 3, WIDTH, ROWS);
        for (uint32_t step = 0; step < 10; step++) {
            for (int r = 0; r < one.parameters.count; r++)
                memcpy(other.parameters.rows[r]->value, one.parameters.rows[r]->value,
                       one.parameters.rows[r]->count * sizeof(float));
            run_step(&one, step, ROWS - step % 3, y[0], dx[0]);
            run_step(&other, step, ROWS - step % 3, y[1], dx[1]);
            assert_memory_equal(y[0], y[1], sizeof y[0]);
            assert_memory_equal(dx[0], dx[1], sizeof dx[0]);
        }
        assert_memory_equal(one.parameters.value, other.parameters.value,
                            one.parameters.held * sizeof(float));
        site_close(&one);
        site_close(&other);
    }
}

static void running_statistics_stay_outside_training(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct site s;
        static float x[ROWS * WIDTH], y[ROWS * WIDTH], before[8 * WIDTH * 16];
        site_open(&s, kinds[i].kind, kinds[i].settings, 3, WIDTH, ROWS);
        run_step(&s, 0, ROWS, x, y);
        assert_true(s.parameters.held <= sizeof before / sizeof *before);
        memcpy(before, s.parameters.value, s.parameters.held * sizeof *before);
        fill(x, ROWS * WIDTH, 77);
        const struct tensor tx = tensor_f32(x, ROWS, WIDTH);
        norm_forward(&s.norm, tensor_f32(y, ROWS, WIDTH), tx,
                     (struct norm_rows){.real = ROWS});
        norm_backward(&s.norm, tx, tensor_f32(y, ROWS, WIDTH), tx,
                      (struct norm_rows){.real = ROWS});
        assert_memory_equal(before, s.parameters.value,
                            s.parameters.held * sizeof *before);
        site_close(&s);
    }
}

/* A batch a hundred times the others is kept out of the window, and counted. */
static void the_filter_leaves_an_outlier_out(void **state) {
    (void)state;
    for (int filter = 0; filter < 2; filter++) {
        struct site s;
        static float x[ROWS * WIDTH], y[ROWS * WIDTH];
        site_open(&s, "un", filter ? "warmup=0,filter=1" : "warmup=0,filter=0", 3, WIDTH,
                  ROWS);
        for (uint32_t step = 0; step < 12; step++) {
            fill(x, ROWS * WIDTH, step);
            for (int i = 0; step == 9 && i < ROWS * WIDTH; i++)
                x[i] *= 100;
            const struct norm_rows rows = {ROWS, true, 1};
            norm_forward(&s.norm, tensor_f32(y, ROWS, WIDTH), tensor_f32(x, ROWS, WIDTH),
                         rows);
            if (step == 9)
                assert_true(s.norm.figures[0] == filter);
        }
        const float skips = s.norm.buffers[5]->value[0];
        const float run = s.norm.buffers[0]->value[0];
        assert_true(filter ? skips >= 1 : skips == 0);
        assert_true(filter ? run > 100 : run < 100); /* q itself is taken once */
        site_close(&s);
    }
}

/* Against the statistics of before the step, whatever the momentum. */
static void the_discrepancy_is_what_an_evaluation_would_have_met(void **state) {
    (void)state;
    struct site s;
    static float x[ROWS * WIDTH], y[ROWS * WIDTH];
    site_open(&s, "bn", "momentum=0.25", 3, WIDTH, ROWS);
    double expected[2] = {0};
    for (int c = 0; c < WIDTH; c++) {
        s.norm.buffers[0]->value[c] = 0.125f * (float)c;
        s.norm.buffers[1]->value[c] = 1 + 0.25f * (float)c;
    }
    fill(x, ROWS * WIDTH, 0);
    for (int c = 0; c < WIDTH; c++) {
        double mean = 0, var = 0;
        for (int r = 0; r < ROWS; r++)
            mean += (double)x[r * WIDTH + c] / ROWS;
        for (int r = 0; r < ROWS; r++)
            var += ((double)x[r * WIDTH + c] - mean) * ((double)x[r * WIDTH + c] - mean) /
                   ROWS;
        expected[0] += fabs(0.125 * c - mean) / sqrt(var) / WIDTH;
        expected[1] += fabs(sqrt((1 + 0.25 * c) / var) - 1) / WIDTH;
    }
    norm_forward(&s.norm, tensor_f32(y, ROWS, WIDTH), tensor_f32(x, ROWS, WIDTH),
                 (struct norm_rows){ROWS, true, 1});
    for (int i = 0; i < 2; i++)
        assert_true(fabs(s.norm.figures[i] - expected[i]) < 1e-5 * expected[i]);
    site_close(&s);
}

/* E's recursion is a contraction also where a batch is far from the running square. */
static void a_wild_batch_does_not_blow_up_what_power_norm_remembers(void **state) {
    (void)state;
    struct site s;
    static float x[ROWS * WIDTH], d[ROWS * WIDTH];
    site_open(&s, "pn", "warmup=0,groups=0", 3, WIDTH, ROWS);
    for (uint32_t step = 0; step < 40; step++) {
        const struct tensor tx = tensor_f32(x, ROWS, WIDTH),
                            td = tensor_f32(d, ROWS, WIDTH);
        const struct norm_rows rows = {ROWS, true, 1};
        fill(x, ROWS * WIDTH, step);
        fill(d, ROWS * WIDTH, step + 100);
        for (int i = 0; i < ROWS * WIDTH; i++)
            x[i] *= powf(2, (float)step);
        norm_forward(&s.norm, td, tx, rows);
        fill(d, ROWS * WIDTH, step + 100);
        norm_backward(&s.norm, td, td, tx, rows);
    }
    for (int c = 0; c < WIDTH; c++)
        assert_true(fabsf(s.norm.buffers[1]->value[c]) < 100);
    site_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_golden_step_is_reproduced),
        cmocka_unit_test(rows_that_are_no_tokens_change_nothing),
        cmocka_unit_test(a_site_goes_on_from_its_saved_rows),
        cmocka_unit_test(running_statistics_stay_outside_training),
        cmocka_unit_test(the_filter_leaves_an_outlier_out),
        cmocka_unit_test(the_discrepancy_is_what_an_evaluation_would_have_met),
        cmocka_unit_test(a_wild_batch_does_not_blow_up_what_power_norm_remembers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
