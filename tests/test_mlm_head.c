/* test_mlm_head - the MLM head against plain loops in double precision. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pretrain/mlm_head.h"
#include "tests/support.h"

enum { D = 12, V = 37 };

struct bench {
    struct config config;
    struct device *device;
    struct parameters parameters;
    struct parameter *words;
    struct mlm_head *head;
    struct arena arena;
    int64_t rows;
    float *hidden, *dhidden;
    int32_t *labels;
};

static double draw(uint32_t what, uint32_t i) {
    float pair[2];
    const struct rng_block b = rng_draw(rng_stream(5, RNG_TEST, what, 0), i, 0, 0, 0);
    rng_normal(b.word[0], b.word[1], pair);
    return pair[0];
}

static void open_bench(struct bench *b, int64_t rows, int64_t vocab_size) {
    struct error err;
    *b = (struct bench){.rows = rows};
    config_default(&b->config);
    b->config.hidden_size = D;
    b->config.vocab_size = vocab_size;
    SUPPORT_OK(device_open(&b->device, 2, NULL, &err), err);
    b->words = parameters_add(&b->parameters,
                              (struct parameter_spec){.init = PARAMETER_EMBEDDING},
                              vocab_size, D, "words");
    SUPPORT_OK(
        mlm_head_declare(&b->head, &b->config, b->device, &b->parameters, b->words, &err),
        err);
    SUPPORT_OK(parameters_allocate(&b->parameters, true, &err), err);
    parameters_settle_all(&b->parameters);
    for (size_t i = 0; i < b->parameters.total; i++) {
        /* Cheap numbers in [-0.7, 0.7): there can be millions. */
        b->parameters.value[i] =
            1.4F * rng_uniform((uint32_t)i * 2654435761U ^ (uint32_t)i >> 7) - 0.7F;
        b->parameters.gradient[i] = 0.25F; /* gradients are added to what is there */
    }
    mlm_head_layout(b->head, &b->arena, rows, true);
    const size_t bytes = b->arena.used;
    SUPPORT_OK(arena_open(&b->arena, bytes, &err), err);
    mlm_head_layout(b->head, &b->arena, rows, true);
    b->hidden = calloc((size_t)(rows * D), sizeof *b->hidden);
    b->dhidden = calloc((size_t)(rows * D), sizeof *b->dhidden);
    b->labels = calloc((size_t)rows, sizeof *b->labels);
    for (uint32_t i = 0; i < rows * D; i++)
        b->hidden[i] = (float)draw(2, i);
    for (uint32_t i = 0; i < rows; i++)
        b->labels[i] = (int32_t)(i * 7 % (uint32_t)vocab_size);
}

static void close_bench(struct bench *b) {
    struct error err;
    SUPPORT_OK(device_check(b->device, &err), err);
    mlm_head_free(b->head);
    parameters_free(&b->parameters);
    arena_close(&b->arena);
    device_close(b->device);
    free(b->hidden);
    free(b->dhidden);
    free(b->labels);
}

/* ---- the same in plain loops ---- */

static const float *value(const struct bench *b, const char *name) {
    return parameters_find(&b->parameters, name)->value;
}

static double gelu(double x) { return 0.5 * x * (1 + erf(x / sqrt(2))); }

/* logits[V] of one row of hidden states. */
static void plain_logits(const struct bench *b, const double *x, double *logits) {
    const float *w = value(b, "lm_head.dense.weight"),
                *c = value(b, "lm_head.dense.bias");
    const float *g = value(b, "lm_head.layer_norm.weight"),
                *s = value(b, "lm_head.layer_norm.bias"),
                *bias = value(b, "lm_head.bias");
    double y[D], mean = 0, square = 0;
    for (int i = 0; i < D; i++) {
        y[i] = c[i];
        for (int k = 0; k < D; k++)
            y[i] += x[k] * w[i * D + k];
        y[i] = gelu(y[i]);
        mean += y[i] / D;
    }
    for (int i = 0; i < D; i++)
        square += (y[i] - mean) * (y[i] - mean) / D;
    for (int i = 0; i < D; i++)
        y[i] =
            (y[i] - mean) / sqrt(square + b->config.arrangement.norm_eps) * g[i] + s[i];
    for (int64_t v = 0; v < b->config.vocab_size; v++) {
        logits[v] = bias[v];
        for (int i = 0; i < D; i++)
            logits[v] += y[i] * b->words->value[v * D + i];
    }
}

static double plain_row_loss(const struct bench *b, const double *x, int32_t label) {
    double logits[V], sum = 0;
    plain_logits(b, x, logits);
    for (int64_t v = 0; v < b->config.vocab_size; v++)
        sum += exp(logits[v]);
    return log(sum) - logits[label];
}

/* The loss with `step` added to hidden state `which` (-1 = none). */
static double plain_loss(const struct bench *b, int64_t which, double step) {
    double loss = 0;
    for (int64_t r = 0; r < b->rows; r++) {
        double x[D];
        for (int i = 0; i < D; i++)
            x[i] = b->hidden[r * D + i] + (r * D + i == which ? step : 0);
        loss += plain_row_loss(b, x, b->labels[r]);
    }
    return loss;
}

static double run_loss(struct bench *b) {
    const struct tensor hidden = tensor_f32(b->hidden, b->rows, D);
    const struct tensor dhidden = tensor_f32(b->dhidden, b->rows, D);
    return mlm_head_loss(b->head, hidden, b->labels, &dhidden);
}

/* ---- tests ---- */

static void logits_are_those_of_plain_loops(void **state) {
    (void)state;
    struct bench b;
    open_bench(&b, 19, V);
    const struct tensor logits =
        mlm_head_forward(b.head, tensor_f32(b.hidden, b.rows, D));
    assert_int_equal(logits.rows, 19);
    assert_int_equal(logits.columns, V);
    for (int r = 0; r < 19; r++) {
        double x[D], expected[V];
        for (int i = 0; i < D; i++)
            x[i] = b.hidden[r * D + i];
        plain_logits(&b, x, expected);
        for (int v = 0; v < V; v++)
            assert_true(fabs(tensor_floats(logits)[r * V + v] - expected[v]) < 2e-5);
    }
    close_bench(&b);
}

static void loss_is_the_sum_over_rows(void **state) {
    (void)state;
    struct bench b;
    open_bench(&b, 19, V);
    const double expected = plain_loss(&b, -1, 0);
    assert_true(fabs(run_loss(&b) - expected) < 1e-4);
    const struct tensor hidden = tensor_f32(b.hidden, b.rows, D);
    assert_true(fabs(mlm_head_loss(b.head, hidden, b.labels, NULL) - expected) < 1e-4);
    close_bench(&b);
}

static void hidden_states_get_the_gradient(void **state) {
    (void)state;
    struct bench b;
    open_bench(&b, 19, V);
    run_loss(&b);
    for (int64_t i = 0; i < b.rows * D; i++) {
        const double slope = (plain_loss(&b, i, 1e-4) - plain_loss(&b, i, -1e-4)) / 2e-4;
        assert_true(fabs(b.dhidden[i] - slope) < 1e-4);
    }
    close_bench(&b);
}

/* Every row of the head and the tied word table. */
static void parameters_get_the_gradient_added(void **state) {
    (void)state;
    struct bench b;
    open_bench(&b, 19, V);
    run_loss(&b);
    for (int r = 0; r < b.parameters.count; r++) {
        struct parameter *p = b.parameters.rows[r];
        for (size_t i = 0; i < p->count; i += 1 + p->count / 40) {
            const float before = p->value[i];
            p->value[i] = before + 0x1p-8F;
            const double up = plain_loss(&b, -1, 0);
            p->value[i] = before - 0x1p-8F;
            const double slope = (up - plain_loss(&b, -1, 0)) / (2 * 0x1p-8);
            p->value[i] = before;
            const double error = fabs(p->gradient[i] - 0.25 - slope);
            if (error > 2e-3 * (1 + fabs(slope)))
                fail_msg("%s[%zu]: gradient %g, slope %g", p->name, i,
                         p->gradient[i] - 0.25, slope);
        }
    }
    close_bench(&b);
}

static void the_gradient_may_replace_the_hidden_states(void **state) {
    (void)state;
    struct bench b;
    open_bench(&b, 19, V);
    run_loss(&b);
    const struct tensor hidden = tensor_f32(b.hidden, b.rows, D);
    mlm_head_loss(b.head, hidden, b.labels, &hidden);
    assert_memory_equal(b.hidden, b.dhidden, sizeof(float) * 19 * D);
    close_bench(&b);
}

static void no_rows_give_nothing(void **state) {
    (void)state;
    struct bench b;
    open_bench(&b, 19, V);
    const struct tensor none = tensor_f32(b.hidden, 0, D);
    assert_true(mlm_head_loss(b.head, none, b.labels, &none) == 0.0);
    for (size_t i = 0; i < b.parameters.total; i++)
        assert_true(b.parameters.gradient[i] == 0.25F);
    close_bench(&b);
}

/* With a vocabulary for which the logit buffer holds 16 rows, 18 rows are worked on in
 * two pieces; each row's loss and gradient must be what it is alone. */
static void pieces_add_up(void **state) {
    (void)state;
    struct bench b;
    const int64_t large = MLM_HEAD_LOGIT_BYTES / 4 / 16;
    open_bench(&b, 18, large);
    assert_int_equal(mlm_head_logit_rows(b.head), 16);
    const double all = run_loss(&b);
    double sum = 0;
    for (int64_t r = 0; r < b.rows; r++) {
        float dx[D];
        const bool check = r % 8 == 1;
        const struct tensor d = tensor_f32(dx, 1, D);
        sum += mlm_head_loss(b.head, tensor_f32(b.hidden + r * D, 1, D), b.labels + r,
                             check ? &d : NULL);
        for (int i = 0; check && i < D; i++)
            assert_true(fabsf(dx[i] - b.dhidden[r * D + i]) < 1e-5F);
    }
    assert_true(fabs(all - sum) < 1e-5 * sum);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_plain_loops),
        cmocka_unit_test(loss_is_the_sum_over_rows),
        cmocka_unit_test(hidden_states_get_the_gradient),
        cmocka_unit_test(parameters_get_the_gradient_added),
        cmocka_unit_test(the_gradient_may_replace_the_hidden_states),
        cmocka_unit_test(no_rows_give_nothing),
        cmocka_unit_test(pieces_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
