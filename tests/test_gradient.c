/* test_gradient - every arrangement of the table, and all switches at once, against the
 * double-precision reference: outputs, and gradients by finite differences, with dropout
 * on and sequences of mixed lengths.
 *
 * Bounds: outputs 2e-5 of the largest; a gradient 1e-4 of the largest entry of its tensor
 * plus 2e-6 of the model's (a key's bias has gradient zero in exact arithmetic). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encoder/encoder.h"
#include "encoder/norm.h"
#include "tests/processor.h"
#include "tests/reference.h"
#include "tests/support.h"

enum { SAMPLES = 3 }; /* entries of each parameter that are checked */

/* Lengths 7, 1, 12, 4; the head reads some rows only, none of the third sequence. */
static int32_t ids[] = {0, 5, 6, 7, 8, 9, 2, 2, 0, 11, 12, 13,
                        5, 5, 5, 3, 4, 6, 7, 2, 0, 30, 29, 2};
static const int32_t starts[] = {0, 7, 8, 20, 24};
static const uint32_t numbers[] = {3, 0, 70000, 9};
static const int32_t some_rows[] = {0, 3, 4, 7, 20, 22};
static int32_t all_rows[24];
enum { TOKENS = 24, WIDTH = 16 };

static const struct batch some = {4, TOKENS, ids, starts, numbers, some_rows, 6};
static const struct batch all = {4, TOKENS, ids, starts, numbers, all_rows, TOKENS};
static const struct pass train = {.train = true, .seed = 7, .step = 3};
static const struct pass frozen = {
    .train = true, .seed = 7, .step = 3, .freeze_statistics = true};

/* A norm that remembers gradients gives the exact one when it forgets at once and has
 * seen the batch as often as there are sites below one another. */
enum { REPEATS = 7 };

/* Rows beside the table: what no preset combines. Read as option text. */
static const struct {
    const char *name, *arch, *switches;
} mixtures[] = {
    {"everything", "postln",
     "pre_norm=1 mid_norm=both out_norm=both head_scale=pre_proj resid_gain=both "
     "resid_alpha=1.3 bottom_skip=1 dual_stream=0.7 dual_out=0.6 final_norm=1 "
     "final_eps=1e-6"},
    {"everything_post_proj_rms", "postln",
     "pre_norm=1 mid_norm=both out_norm=both head_scale=post_proj resid_gain=both "
     "resid_alpha=0.8 bottom_skip=1 dual_stream=1.2 final_norm=1 norm=rms norm_aux=rms"},
    {"no_affine", "preln", "norm_affine=none embed_norm=0"},
    {"gain_only", "postln", "norm_affine=gain norm_aux=rms"},
    {"post_proj_without_norm", "preln", "head_scale=post_proj resid_gain=both"},
    {"centred_norms", "normformer", "norm=rms stream_center=after_dropout"},
    {"narrow_head_scale", "precrms",
     "head_scale=pre_proj mid_norm=both norm_affine=both"},
    {"narrow_gains", "precrms", "resid_gain=both bottom_skip=1 resid_alpha=1.2"},
    {"batch_post", "postln", "norm=bn norm_penalty=0.3,0.2"},
    {"batch_penalty", "preln", "norm=bn norm_affine=gain norm_penalty=0.3,0.2"},
    {"power_dual", "residual_dual", "norm=pn norm_stat=groups=0"},
    {"unified_bottom", "b2t", "norm=un norm_affine=none"},
};

struct model {
    struct config config;
    struct device *device;
    struct parameters parameters;
    struct encoder *encoder;
    struct arena arena;
    const struct pass *pass;
};

/* Values that leave no gradient small: gains about 1, weights about 0.3. */
static void fill(struct parameters *p) {
    for (int i = 0; i < p->count; i++) {
        struct parameter *row = p->rows[i];
        const struct rng r = rng_stream(5, RNG_TEST, (uint32_t)i, 0);
        for (size_t j = 0; row->is_buffer && j < row->count; j++)
            row->value[j] = row->init == PARAMETER_ONE;
        for (size_t j = 0; !row->is_buffer && j < row->count; j++) {
            const struct rng_block b = rng_draw(r, (uint32_t)j, 0, 0, 0);
            float normal[2];
            rng_normal(b.word[0], b.word[1], normal);
            row->value[j] = 0.3f * normal[0] + (row->init == PARAMETER_ONE);
        }
    }
}

static void model_open(struct model *m, const char *arch, const char *switches,
                       enum dtype dtype) {
    struct error err;
    struct arena measure = {0};
    const struct limits limits = {40, 6, 18, 40};
    *m = (struct model){.pass = &train};
    config_default(&m->config);
    m->config.num_hidden_layers = 2;
    m->config.hidden_size = WIDTH;
    m->config.num_attention_heads = 2;
    m->config.intermediate_size = 24;
    m->config.vocab_size = 31;
    m->config.max_position_embeddings = 20;
    m->config.hidden_dropout_prob = 0.2;
    m->config.attention_probs_dropout_prob = 0.15;
    SUPPORT_OK(config_set_arch(&m->config, arch, &err), err);
    SUPPORT_OK(config_set_switches(&m->config, switches, &err), err);
    if (m->config.arrangement.norm->implies_channel)
        m->config.hidden_dropout_prob = 0;
    SUPPORT_OK(config_check(&m->config, &err), err);
    double *stat = m->config.arrangement.norm_stat;
    if (!isnan(stat[NORM_MOMENTUM_BACKWARD]))
        stat[NORM_MOMENTUM_BACKWARD] = 0;
    SUPPORT_OK(device_open(&m->device, 2, NULL, &err), err);
    SUPPORT_OK(device_set_dtype(m->device, dtype, &err), err);
    SUPPORT_OK(encoder_declare(&m->encoder, &m->config, m->device, &m->parameters, &err),
               err);
    SUPPORT_OK(parameters_allocate(&m->parameters, true, &err), err);
    fill(&m->parameters);
    encoder_layout(m->encoder, &measure, limits, true);
    SUPPORT_OK(arena_open(&m->arena, measure.used, &err), err);
    encoder_layout(m->encoder, &m->arena, limits, true);
}

static void model_close(struct model *m) {
    arena_close(&m->arena);
    encoder_free(m->encoder);
    parameters_free(&m->parameters);
    device_close(m->device);
}

/* Of the largest entry; `top` of the largest of all gradients. */
struct tolerance {
    double outputs, gradients, top;
};

static const struct tolerance *tolerance_of(const struct model *m) {
    static const struct tolerance tolerances[] = {
        [DTYPE_F32] = {2e-5, 1e-4, 2e-6},
        [DTYPE_BF16] = {4e-2, 6e-2, 1e-2},
    };
    return &tolerances[device_dtype(m->device)];
}

/* The loss is the sum of output times these. */
static double weight_of(int64_t i) { return sin(1.7 * (double)i + 0.3); }

static int64_t count_of(const struct model *m, const struct batch *batch) {
    return batch->num_output_rows * config_stream_size(&m->config);
}

static double reference_loss(const struct model *m, const struct reference *r,
                             const struct batch *batch) {
    double output[TOKENS * WIDTH];
    double sum = reference_forward(r, batch, *m->pass, output);
    for (int64_t i = 0; i < count_of(m, batch); i++)
        sum += weight_of(i) * output[i];
    return sum;
}

static void check_outputs(const char *name, const struct model *m,
                          const struct reference *r, const struct batch *batch) {
    struct error err;
    struct tensor found;
    double expected[TOKENS * WIDTH], most = 0, largest = 0;
    SUPPORT_OK(encoder_forward(m->encoder, batch, *m->pass, &found, &err), err);
    reference_forward(r, batch, *m->pass, expected);
    for (int64_t i = 0; i < batch->num_output_rows * found.columns; i++) {
        const double d = fabs((double)tensor_floats(found)[i] - expected[i]);
        most = d > most || isnan(d) ? d : most;
        largest = fmax(largest, fabs(expected[i]));
    }
    if (!(most <= tolerance_of(m)->outputs * largest))
        fail_msg("%s: outputs differ by %g of %g", name, most, largest);
}

/* Gradients of one pass, after as many as the norms need. */
static void backward(struct model *m, const struct batch *batch) {
    struct error err;
    struct tensor output;
    const int repeats = m->config.arrangement.norm->buffers ? REPEATS : 1;
    for (int pass = 0; pass < repeats; pass++) {
        float doutput[TOKENS * WIDTH];
        for (int64_t i = 0; i < count_of(m, batch); i++)
            doutput[i] = (float)weight_of(i);
        parameters_clear_gradients(&m->parameters);
        SUPPORT_OK(encoder_forward(m->encoder, batch, *m->pass, &output, &err), err);
        encoder_backward(m->encoder, batch, *m->pass,
                         tensor_f32(doutput, batch->num_output_rows, output.columns));
    }
}

static double largest_gradient(const struct parameter *row) {
    double largest = 0;
    for (size_t i = 0; i < row->count; i++)
        largest = fmax(largest, fabs((double)row->gradient[i]));
    return largest;
}

/* Central difference of the reference's loss at one entry. */
static double slope(const struct model *m, struct reference *r, const struct batch *batch,
                    double *entry) {
    const double start = *entry, h = reference_is_exact(r) ? 1e-5 : 1e-3;
    *entry = start + h;
    const double up = reference_loss(m, r, batch);
    *entry = start - h;
    const double down = reference_loss(m, r, batch);
    *entry = start;
    return (up - down) / (2 * h);
}

static void check_parameter(const char *name, const struct model *m, struct reference *r,
                            const struct batch *batch, int i, double top) {
    const struct parameter *row = m->parameters.rows[i];
    const struct tolerance *t = tolerance_of(m);
    const double bound = t->gradients * largest_gradient(row) +
                         (reference_is_exact(r) ? t->top : t->top + 1e-2) * top;
    const struct rng draws = rng_stream(11, RNG_TEST, (uint32_t)i, 0);
    for (uint32_t sample = 0; sample < SAMPLES; sample++) {
        const uint32_t j =
            rng_below(rng_draw(draws, sample, 0, 0, 0).word[0], (uint32_t)row->count);
        const double expected = slope(m, r, batch, &r->values[i][j]);
        const double found = (double)row->gradient[j];
        if (!(fabs(found - expected) <= bound))
            fail_msg("%s: gradient of %s[%u] is %.9g, finite differences give %.9g", name,
                     row->name, j, found, expected);
    }
}

static void check_gradients(const char *name, struct model *m, struct reference *r,
                            const struct batch *batch) {
    double top = 0;
    check_outputs(name, m, r, batch);
    backward(m, batch);
    reference_take_buffers(r);
    for (int i = 0; i < m->parameters.count; i++)
        if (!m->parameters.rows[i]->is_buffer)
            top = fmax(top, largest_gradient(m->parameters.rows[i]));
    assert_true(top > 0.1);
    for (int i = 0; i < m->parameters.count; i++)
        if (!m->parameters.rows[i]->is_buffer)
            check_parameter(name, m, r, batch, i, top);
}

static void check_model(const char *name, const char *arch, const char *switches,
                        enum dtype dtype) {
    struct model m;
    struct reference r;
    model_open(&m, arch, switches, dtype);
    reference_open(&r, &m.config, &m.parameters);
    check_outputs(name, &m, &r, &all);
    check_gradients(name, &m, &r, &some);
    m.pass = &frozen;
    if (m.config.arrangement.norm->buffers)
        check_gradients(name, &m, &r, &some);
    reference_close(&r);
    model_close(&m);
}

static void check_presets(enum dtype dtype) {
    for (const struct preset *p = config_presets; p->name; p++)
        check_model(p->name, p->name, "", dtype);
}

static void check_mixtures(enum dtype dtype) {
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++)
        check_model(mixtures[i].name, mixtures[i].arch, mixtures[i].switches, dtype);
}

static void every_arrangement_has_the_reference_gradient(void **state) {
    (void)state;
    check_presets(DTYPE_F32);
}

static void all_switches_at_once_have_the_reference_gradient(void **state) {
    (void)state;
    check_mixtures(DTYPE_F32);
}

static void gradients_in_bf16_are_near_the_reference(void **state) {
    (void)state;
    processor_need_bf16();
    check_presets(DTYPE_BF16);
    check_mixtures(DTYPE_BF16);
}

/* Every row read: no layer leaves rows out. */
static void reading_all_rows_has_the_reference_gradient(void **state) {
    (void)state;
    struct model m;
    struct reference r;
    model_open(&m, mixtures[0].arch, mixtures[0].switches, DTYPE_F32);
    reference_open(&r, &m.config, &m.parameters);
    check_gradients("all rows", &m, &r, &all);
    reference_close(&r);
    model_close(&m);
}

int main(void) {
    for (int32_t i = 0; i < TOKENS; i++)
        all_rows[i] = i;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_arrangement_has_the_reference_gradient),
        cmocka_unit_test(all_switches_at_once_have_the_reference_gradient),
        cmocka_unit_test(gradients_in_bf16_are_near_the_reference),
        cmocka_unit_test(reading_all_rows_has_the_reference_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
