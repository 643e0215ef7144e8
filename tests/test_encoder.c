/* test_encoder - what must hold without a reference: identities between arrangements,
 * batches cut differently, rows left out, limits, and the same bits twice. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encoder/encoder.h"
#include "tests/support.h"

enum { WIDTH = 32, VOCAB = 50, MOST = 700 };

struct model {
    struct config config;
    struct device *device;
    struct parameters parameters;
    struct encoder *encoder;
    struct arena arena;
};

/* Three layers. Values depend on the parameter's name only; gains and scales are 1 and
 * biases 0, as at the start of a training, unless `shaken`. */
static void fill(struct model *m, bool shaken) {
    parameters_initialise(&m->parameters, &m->config, 1);
    for (int i = 0; i < m->parameters.count; i++) {
        struct parameter *row = m->parameters.rows[i];
        if (row->init == PARAMETER_LINEAR || row->init == PARAMETER_EMBEDDING)
            for (size_t j = 0; j < row->count; j++)
                row->value[j] *= 10;
        const struct rng r = rng_stream(9, RNG_TEST, (uint32_t)i, 0);
        for (size_t j = 0; shaken && j < row->count; j++)
            row->value[j] +=
                0.2f * rng_uniform(rng_draw(r, (uint32_t)j, 0, 0, 0).word[0]) - 0.1f;
    }
}

static void open_with(struct model *m, const char *arch, const char *switches,
                      struct limits limits, bool train, double dropout) {
    struct error err;
    struct arena measure = {0};
    *m = (struct model){0};
    config_default(&m->config);
    m->config.num_hidden_layers = 3;
    m->config.hidden_size = WIDTH;
    m->config.num_attention_heads = 4;
    m->config.intermediate_size = 48;
    m->config.vocab_size = VOCAB;
    m->config.hidden_dropout_prob = m->config.attention_probs_dropout_prob = dropout;
    SUPPORT_OK(config_set_arch(&m->config, arch, &err), err);
    SUPPORT_OK(config_set_switches(&m->config, switches, &err), err);
    SUPPORT_OK(config_check(&m->config, &err), err);
    SUPPORT_OK(device_open(&m->device, 2, NULL, &err), err);
    SUPPORT_OK(encoder_declare(&m->encoder, &m->config, m->device, &m->parameters, &err),
               err);
    SUPPORT_OK(parameters_allocate(&m->parameters, train, &err), err);
    fill(m, false);
    encoder_layout(m->encoder, &measure, limits, train);
    SUPPORT_OK(arena_open(&m->arena, measure.used, &err), err);
    encoder_layout(m->encoder, &m->arena, limits, train);
}

static const struct limits roomy = {MOST, 16, MOST, MOST};

static void open_model(struct model *m, const char *arch, const char *switches) {
    open_with(m, arch, switches, roomy, true, 0);
}

static void close_model(struct model *m) {
    arena_close(&m->arena);
    encoder_free(m->encoder);
    parameters_free(&m->parameters);
    device_close(m->device);
}

/* ---- Batches. ---- */

struct tokens {
    int32_t ids[MOST], starts[17], rows[MOST];
    uint32_t numbers[16];
    struct batch batch;
};

/* Sequences first .. first + count - 1 of an endless list; the head reads every
 * `stride`th row of each sequence. */
static struct batch *batch_of(struct tokens *t, uint32_t first, int count, int stride) {
    static const int lengths[] = {9, 3, 17, 1, 12, 6};
    int32_t n = 0, read = 0;
    for (int s = 0; s < count; s++) {
        const uint32_t number = first + (uint32_t)s;
        t->numbers[s] = number;
        t->starts[s] = n;
        for (int i = 0; i < lengths[number % 6]; i++, n++) {
            t->ids[n] = (int32_t)((number * 31 + (uint32_t)i * 7) % (VOCAB - 2) + 2);
            if (i % stride == 0)
                t->rows[read++] = n;
        }
    }
    t->starts[count] = n;
    t->batch = (struct batch){count, n, t->ids, t->starts, t->numbers, t->rows, read};
    return &t->batch;
}

static const struct pass train = {.train = true, .seed = 2, .step = 5};

static struct tensor forward(struct model *m, const struct batch *b, struct pass pass) {
    struct error err;
    struct tensor output;
    SUPPORT_OK(encoder_forward(m->encoder, b, pass, &output, &err), err);
    return output;
}

static float *copy_of(struct tensor t) {
    const size_t bytes = (size_t)(t.rows * t.columns) * sizeof(float);
    float *copy = malloc(bytes + 1);
    assert_non_null(copy);
    memcpy(copy, t.data, bytes);
    return copy;
}

/* Gradient of sum_i sin(row's name, i) output: the same for a row in any batch. */
static void run_backward(struct model *m, const struct batch *b) {
    struct tensor output = forward(m, b, train);
    for (int64_t i = 0; i < output.rows; i++) {
        int64_t s = 0;
        while (b->output_rows[i] >= b->starts[s + 1])
            s++;
        for (int64_t c = 0; c < output.columns; c++)
            tensor_floats(output)[i * output.columns + c] =
                (float)sin(b->sequence_numbers[s] * 100.0 +
                           (b->output_rows[i] - b->starts[s]) * 3.0 + (double)c);
    }
    encoder_backward(m->encoder, b, train, output);
}

static double largest_difference(const float *a, const float *b, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = support_worse(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

static double largest(const float *a, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs((double)a[i]));
    return most;
}

/* ---- Identities between arrangements. ---- */

static void assert_same_output(const char *arch, const char *switches,
                               const char *other_arch, const char *other_switches) {
    static struct tokens t;
    struct model a, b;
    open_model(&a, arch, switches);
    open_model(&b, other_arch, other_switches);
    const struct batch *batch = batch_of(&t, 0, 6, 1);
    float *first = copy_of(forward(&a, batch, train));
    const float *second = tensor_floats(forward(&b, batch, train));
    assert_true(largest(first, (size_t)batch->num_tokens * WIDTH) > 0.5);
    assert_true(largest_difference(first, second, (size_t)batch->num_tokens * WIDTH) <
                2e-6);
    free(first);
    close_model(&a);
    close_model(&b);
}

static void scales_of_one_change_nothing(void **state) {
    (void)state;
    assert_same_output("preln", "", "preln", "head_scale=pre_proj resid_gain=both");
    assert_same_output("preln", "", "preln", "head_scale=post_proj");
    assert_same_output("postln", "", "postln", "resid_gain=ffn");
    assert_same_output("normformer", "", "normformer_res", "");
}

static void switches_at_rest_give_post_ln(void **state) {
    (void)state;
    assert_same_output("deepnorm", "resid_alpha=1 init_gain=1", "postln",
                       "init=xavier_normal");
}

/* ResiDual without the main stream is the norm of all branches' sum: rows of mean 0. */
static void a_dual_stream_alone_ends_in_its_norm(void **state) {
    (void)state;
    static struct tokens t;
    struct model m;
    open_model(&m, "residual_dual", "dual_out=0");
    const struct tensor y = forward(&m, batch_of(&t, 0, 6, 1), train);
    for (int64_t i = 0; i < y.rows; i++) {
        double sum = 0, square = 0;
        for (int64_t c = 0; c < WIDTH; c++) {
            sum += (double)tensor_floats(y)[i * WIDTH + c];
            square += pow((double)tensor_floats(y)[i * WIDTH + c], 2);
        }
        assert_true(fabs(sum) < 1e-4 && fabs(square / WIDTH - 1) < 1e-3);
    }
    close_model(&m);
}

/* out_norm behind the head scales: y depends on them only up to a common factor. */
static void post_proj_scales_have_no_gradient_along_themselves(void **state) {
    (void)state;
    static struct tokens t;
    struct model m;
    open_model(&m, "normformer_fairseq", "");
    fill(&m, true);
    run_backward(&m, batch_of(&t, 0, 6, 1));
    for (int i = 0; i < m.parameters.count; i++) {
        const struct parameter *row = m.parameters.rows[i];
        if (!strstr(row->name, "head_scale"))
            continue;
        double along = 0;
        for (size_t j = 0; j < row->count; j++)
            along += (double)row->value[j] * (double)row->gradient[j];
        assert_true(fabs(along) < 2e-4 * largest(row->gradient, row->count));
        assert_true(largest(row->gradient, row->count) > 1e-3);
    }
    close_model(&m);
}

/* ---- Batches cut differently. ---- */

static const char *const archs[] = {"postln", "normformer_fairseq", "b2t",
                                    "residual_dual"};

/* Relative difference of the gradients of one batch and of its three parts. */
static double difference_by_parts(const char *arch, double dropout) {
    static struct tokens t;
    struct model whole, parts;
    open_with(&whole, arch, "", roomy, true, dropout);
    open_with(&parts, arch, "", roomy, true, dropout);
    run_backward(&whole, batch_of(&t, 0, 6, 2));
    run_backward(&parts, batch_of(&t, 0, 1, 2));
    run_backward(&parts, batch_of(&t, 1, 4, 2));
    run_backward(&parts, batch_of(&t, 5, 1, 2));
    const size_t total = whole.parameters.total;
    const double d =
        largest_difference(whole.parameters.gradient, parts.parameters.gradient, total) /
        largest(whole.parameters.gradient, total);
    close_model(&whole);
    close_model(&parts);
    return d;
}

/* Norms over a batch see another batch in each part, which is meant: their statistics are
 * a micro-batch's. All others treat a row by itself. */
static void micro_batches_add_up_to_the_big_batch(void **state) {
    (void)state;
    for (const struct preset *p = config_presets; p->name; p++) {
        struct config c;
        struct error err;
        config_default(&c);
        SUPPORT_OK(config_set_arch(&c, p->name, &err), err);
        const double d =
            difference_by_parts(p->name, c.arrangement.norm->implies_channel ? 0 : 0.1);
        if (c.arrangement.norm->buffers ? d < 1e-2 : d > 5e-6)
            fail_msg("%s: gradients differ by %g", p->name, d);
    }
}

static void rows_that_nobody_reads_change_no_number(void **state) {
    (void)state;
    static struct tokens t, all;
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        struct model m;
        open_with(&m, archs[i], "", roomy, true, 0.1);
        const struct batch *some = batch_of(&t, 0, 6, 5),
                           *every = batch_of(&all, 0, 6, 1);
        float *picked = copy_of(forward(&m, some, train));
        const float *whole = tensor_floats(forward(&m, every, train));
        for (int64_t n = 0; n < some->num_output_rows; n++)
            assert_true(largest_difference(picked + n * WIDTH,
                                           whole + some->output_rows[n] * WIDTH,
                                           WIDTH) < 5e-6);
        free(picked);
        close_model(&m);
    }
}

/* A sequence alone gives the bits that it gives among others of the same rounded size. */
static void a_small_batch_after_a_big_one_is_as_if_fresh(void **state) {
    (void)state;
    static struct tokens big, small;
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        struct model used, fresh;
        open_with(&used, archs[i], "", roomy, true, 0.1);
        open_with(&fresh, archs[i], "", roomy, true, 0.1);
        run_backward(&used, batch_of(&big, 0, 12, 2));
        parameters_clear_gradients(&used.parameters);
        run_backward(&used, batch_of(&small, 3, 3, 2));
        run_backward(&fresh, batch_of(&small, 3, 3, 2));
        assert_memory_equal(used.parameters.gradient, fresh.parameters.gradient,
                            used.parameters.total * sizeof(float));
        close_model(&used);
        close_model(&fresh);
    }
}

static void the_same_step_gives_the_same_bits(void **state) {
    (void)state;
    static struct tokens t;
    struct model a;
    open_with(&a, "normformer", "", roomy, true, 0.1);
    const size_t bytes = a.parameters.total * sizeof(float);
    run_backward(&a, batch_of(&t, 0, 12, 3));
    float *first =
        copy_of(tensor_f32(a.parameters.gradient, 1, (int64_t)a.parameters.total));
    for (int i = 0; i < 3; i++) {
        parameters_clear_gradients(&a.parameters);
        run_backward(&a, batch_of(&t, 0, 12, 3));
        assert_memory_equal(first, a.parameters.gradient, bytes);
    }
    free(first);
    close_model(&a);
}

static void an_encoder_laid_out_for_evaluation_gives_the_same_output(void **state) {
    (void)state;
    static struct tokens t;
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        for (int stride = 1; stride <= 4; stride += 3) {
            struct model trained, plain;
            open_with(&trained, archs[i], "", roomy, true, 0.1);
            open_with(&plain, archs[i], "", roomy, false, 0.1);
            assert_true(plain.arena.used < trained.arena.used);
            const struct batch *b = batch_of(&t, 0, 12, stride);
            const struct pass evaluation = {0};
            float *first = copy_of(forward(&trained, b, evaluation));
            assert_memory_equal(first, forward(&plain, b, evaluation).data,
                                (size_t)(b->num_output_rows * WIDTH) * sizeof(float));
            free(first);
            close_model(&trained);
            close_model(&plain);
        }
}

static void no_rows_to_read_is_fine(void **state) {
    (void)state;
    static struct tokens t;
    struct model m;
    open_model(&m, "postln", "");
    struct batch b = *batch_of(&t, 0, 3, 1);
    b.num_output_rows = 0;
    assert_int_equal(forward(&m, &b, train).rows, 0);
    encoder_backward(m.encoder, &b, train, tensor_f32(NULL, 0, WIDTH));
    assert_true(largest(m.parameters.gradient, m.parameters.total) == 0);
    close_model(&m);
}

/* ---- Limits. ---- */

static enum status try_length(struct model *m, int32_t length, struct error *err) {
    static int32_t ids[MOST], rows[] = {0};
    const int32_t starts[] = {0, length};
    const uint32_t numbers[] = {0};
    const struct batch b = {1, length, ids, starts, numbers, rows, 1};
    struct tensor output;
    return encoder_forward(m->encoder, &b, (struct pass){0}, &output, err);
}

static void a_table_of_514_positions_holds_512_tokens(void **state) {
    (void)state;
    struct error err;
    struct model m;
    open_model(&m, "postln", "");
    SUPPORT_OK(try_length(&m, 512, &err), err);
    assert_int_equal(try_length(&m, 513, &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "*513 tokens*512*");
    assert_int_equal(try_length(&m, 514, &err), ERR_INPUT);
    close_model(&m);
}

static void bad_batches_are_refused(void **state) {
    (void)state;
    static struct tokens t;
    struct error err;
    struct tensor output;
    struct model m;
    const struct limits tight = {40, 4, 20, 9};
    open_with(&m, "postln", "", tight, false, 0);
    const struct pass pass = {0};
    struct batch b = *batch_of(&t, 0, 3, 4);
    t.ids[5] = VOCAB;
    assert_int_equal(encoder_forward(m.encoder, &b, pass, &output, &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "token 5 of the batch has id 50*");
    t.ids[5] = -1;
    assert_int_equal(encoder_forward(m.encoder, &b, pass, &output, &err), ERR_INPUT);
    t.ids[5] = 3;
    t.rows[2] = t.rows[1];
    assert_int_equal(encoder_forward(m.encoder, &b, pass, &output, &err), ERR_INPUT);
    b = *batch_of(&t, 0, 3, 1);
    assert_int_equal(encoder_forward(m.encoder, &b, pass, &output, &err), ERR_INPUT);
    b = *batch_of(&t, 0, 5, 9);
    assert_int_equal(encoder_forward(m.encoder, &b, pass, &output, &err), ERR_INPUT);
    b = *batch_of(&t, 0, 3, 4);
    b.num_tokens--;
    assert_int_equal(encoder_forward(m.encoder, &b, pass, &output, &err), ERR_INPUT);
    b.num_tokens++;
    SUPPORT_OK(encoder_forward(m.encoder, &b, pass, &output, &err), err);
    close_model(&m);
}

static void the_pad_token_gets_no_gradient_of_a_look_up(void **state) {
    (void)state;
    static struct tokens t;
    struct model m;
    open_model(&m, "postln", "");
    const struct batch *b = batch_of(&t, 0, 3, 1);
    t.ids[4] = 1;
    run_backward(&m, b);
    const float *row = encoder_word_embeddings(m.encoder)->gradient + WIDTH;
    assert_true(largest(row, WIDTH) == 0);
    assert_true(largest(row + 2 * WIDTH, WIDTH) > 0);
    close_model(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales_of_one_change_nothing),
        cmocka_unit_test(switches_at_rest_give_post_ln),
        cmocka_unit_test(a_dual_stream_alone_ends_in_its_norm),
        cmocka_unit_test(post_proj_scales_have_no_gradient_along_themselves),
        cmocka_unit_test(micro_batches_add_up_to_the_big_batch),
        cmocka_unit_test(rows_that_nobody_reads_change_no_number),
        cmocka_unit_test(a_small_batch_after_a_big_one_is_as_if_fresh),
        cmocka_unit_test(the_same_step_gives_the_same_bits),
        cmocka_unit_test(an_encoder_laid_out_for_evaluation_gives_the_same_output),
        cmocka_unit_test(no_rows_to_read_is_fine),
        cmocka_unit_test(a_table_of_514_positions_holds_512_tokens),
        cmocka_unit_test(bad_batches_are_refused),
        cmocka_unit_test(the_pad_token_gets_no_gradient_of_a_look_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
