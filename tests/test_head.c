/* test_head - the classification head against plain loops in double precision. */
#include <math.h>
#include <string.h>

#include "finetune/head.h"
#include "tests/support.h"

enum { ROWS = 5, WIDTH = 12, MOST_LABELS = 3 };
enum { SEED = 7, STEP = 3 };

struct bench {
    struct config config;
    struct device *device;
    struct parameters parameters;
    struct head *head;
    struct arena arena;
    float hidden[ROWS * WIDTH], dropped[ROWS * WIDTH], dhidden[ROWS * WIDTH];
    uint32_t numbers[ROWS];
    float labels[ROWS];
    struct error err;
};

static float draw(uint32_t what, uint32_t i) {
    struct rng stream = rng_stream(SEED, RNG_TEST, what, 0);
    float pair[2];
    struct rng_block block = rng_draw(stream, i, 0, 0, 0);
    rng_normal(block.word[0], block.word[1], pair);
    return pair[0];
}

static void open_bench(struct bench *b, int num_labels, double hidden_dropout,
                       double classifier_dropout) {
    *b = (struct bench){0};
    config_default(&b->config);
    b->config.hidden_size = WIDTH;
    b->config.num_labels = num_labels;
    b->config.hidden_dropout_prob = hidden_dropout;
    b->config.classifier_dropout = classifier_dropout;
    assert_int_equal(device_open(&b->device, 1, NULL, &b->err), OK);
    assert_int_equal(
        head_declare(&b->head, &b->config, b->device, &b->parameters, &b->err), OK);
    assert_int_equal(parameters_allocate(&b->parameters, true, &b->err), OK);
    for (size_t i = 0; i < b->parameters.total; i++)
        b->parameters.value[i] = 0.3F * draw(1, (uint32_t)i);
    head_layout(b->head, &b->arena, ROWS, true);
    size_t bytes = b->arena.used;
    assert_int_equal(arena_open(&b->arena, bytes, &b->err), OK);
    head_layout(b->head, &b->arena, ROWS, true);
    for (uint32_t i = 0; i < ROWS * WIDTH; i++)
        b->hidden[i] = draw(2, i);
    for (uint32_t i = 0; i < ROWS; i++) {
        b->numbers[i] = 10 + i;
        b->labels[i] = num_labels == 1 ? draw(3, i) : (float)(i % (uint32_t)num_labels);
    }
}

static void close_bench(struct bench *b) {
    assert_int_equal(device_check(b->device, &b->err), OK);
    head_free(b->head);
    parameters_free(&b->parameters);
    arena_close(&b->arena);
    device_close(b->device);
}

static struct tensor forward(struct bench *b, bool train) {
    const struct pass pass = {.train = train, .seed = SEED, .step = STEP};
    memcpy(b->dropped, b->hidden, sizeof b->hidden);
    return head_forward(b->head, tensor_f32(b->dropped, ROWS, WIDTH), pass, b->numbers);
}

/* 0 or 1 / (1 - rate) for every channel of a dropout site. */
static void site_mask(const struct bench *b, uint32_t site, float rate, float *mask) {
    const uint32_t tokens[ROWS] = {0};
    for (int i = 0; i < ROWS * WIDTH; i++)
        mask[i] = 1;
    dropout_apply(tensor_f32(mask, ROWS, WIDTH), rate,
                  rng_stream(SEED, RNG_DROPOUT, site, STEP),
                  (struct row_names){b->numbers, tokens}, 1);
}

static const float *value(const struct bench *b, const char *name) {
    return parameters_find(&b->parameters, name)->value;
}

/* One row's outputs; masks NULL = evaluation. */
static void plain_outputs(const struct bench *b, int row, const float *mask_in,
                          const float *mask_pooled, double out[MOST_LABELS]) {
    const float *w1 = value(b, "classifier.dense.weight"),
                *b1 = value(b, "classifier.dense.bias"),
                *w2 = value(b, "classifier.out_proj.weight"),
                *b2 = value(b, "classifier.out_proj.bias");
    double pooled[WIDTH];
    for (int o = 0; o < WIDTH; o++) {
        double sum = (double)b1[o];
        for (int i = 0; i < WIDTH; i++)
            sum += (double)w1[o * WIDTH + i] * (double)b->hidden[row * WIDTH + i] *
                   (mask_in ? (double)mask_in[row * WIDTH + i] : 1);
        pooled[o] = tanh(sum) * (mask_pooled ? (double)mask_pooled[row * WIDTH + o] : 1);
    }
    for (int c = 0; c < b->config.num_labels; c++) {
        out[c] = (double)b2[c];
        for (int i = 0; i < WIDTH; i++)
            out[c] += (double)w2[c * WIDTH + i] * pooled[i];
    }
}

static double plain_loss(const struct bench *b, const float *mask_in,
                         const float *mask_pooled) {
    double loss = 0;
    for (int row = 0; row < ROWS; row++) {
        double out[MOST_LABELS], sum = 0;
        plain_outputs(b, row, mask_in, mask_pooled, out);
        if (b->config.num_labels == 1) {
            loss += pow(out[0] - (double)b->labels[row], 2);
            continue;
        }
        for (int c = 0; c < b->config.num_labels; c++)
            sum += exp(out[c]);
        loss += log(sum) - out[(int)b->labels[row]];
    }
    return loss;
}

static void outputs_equal_plain_loops(void **state) {
    (void)state;
    for (int labels = 1; labels <= MOST_LABELS; labels++) {
        struct bench b;
        open_bench(&b, labels, 0.4, 0.4); /* evaluation drops nothing */
        struct tensor outputs = forward(&b, false);
        assert_int_equal(outputs.columns, labels);
        for (int row = 0; row < ROWS; row++) {
            double expected[MOST_LABELS];
            plain_outputs(&b, row, NULL, NULL, expected);
            for (int c = 0; c < labels; c++)
                assert_true(fabs((double)tensor_floats(outputs)[row * labels + c] -
                                 expected[c]) < 2e-6);
        }
        close_bench(&b);
    }
}

/* (f(x + h) - f(x - h)) / 2h of the plain loops at one f32 number. */
static double slope(const struct bench *b, float *x, const float *mask_in,
                    const float *mask_pooled) {
    const float old = *x, h = 1.0F / 1024;
    *x = old + h;
    const double above = *x, up = plain_loss(b, mask_in, mask_pooled);
    *x = old - h;
    const double below = *x, down = plain_loss(b, mask_in, mask_pooled);
    *x = old;
    return (up - down) / (above - below);
}

static void check_gradients(int labels, double rate) {
    struct bench b;
    float mask_in[ROWS * WIDTH], mask_pooled[ROWS * WIDTH];
    open_bench(&b, labels, 0.0, rate);
    site_mask(&b, DROPOUT_SITE_HEADS, (float)rate, mask_in);
    site_mask(&b, DROPOUT_SITE_HEADS + 1, (float)rate, mask_pooled);
    forward(&b, true);
    const struct tensor dhidden = tensor_f32(b.dhidden, ROWS, WIDTH);
    double loss = head_loss(b.head, tensor_f32(b.dropped, ROWS, WIDTH), b.labels,
                            (struct pass){.train = true, .seed = SEED, .step = STEP},
                            b.numbers, &dhidden);
    assert_true(fabs(loss - plain_loss(&b, mask_in, mask_pooled)) < 1e-5 * loss);
    for (int i = 0; i < ROWS * WIDTH; i++)
        assert_true(fabs((double)b.dhidden[i] -
                         slope(&b, &b.hidden[i], mask_in, mask_pooled)) < 2e-5);
    for (int r = 0; r < b.parameters.count; r++)
        for (size_t i = 0; i < b.parameters.rows[r]->count; i++)
            assert_true(fabs((double)b.parameters.rows[r]->gradient[i] -
                             slope(&b, &b.parameters.rows[r]->value[i], mask_in,
                                   mask_pooled)) < 2e-5);
    close_bench(&b);
}

static void gradients_equal_finite_differences(void **state) {
    (void)state;
    static const struct {
        int labels;
        double rate;
    } cases[] = {{3, 0}, {2, 0.25}, {1, 0}, {1, 0.1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_gradients(cases[i].labels, cases[i].rate);
}

static void gradients_are_added_to_what_is_there(void **state) {
    (void)state;
    struct bench b;
    open_bench(&b, 2, 0, 0);
    const struct pass pass = {.train = true, .seed = SEED, .step = STEP};
    const struct tensor dhidden = tensor_f32(b.dhidden, ROWS, WIDTH);
    const float *gradient =
        parameters_find(&b.parameters, "classifier.dense.weight")->gradient;
    float once = 0;
    for (int round = 1; round <= 2; round++) {
        forward(&b, true);
        head_loss(b.head, tensor_f32(b.dropped, ROWS, WIDTH), b.labels, pass, b.numbers,
                  &dhidden);
        if (round == 1)
            once = gradient[5];
    }
    assert_true(fabsf(gradient[5] - 2 * once) < 1e-6F && once != 0);
    close_bench(&b);
}

static void classifier_dropout_falls_back_to_the_hidden_one(void **state) {
    (void)state;
    struct bench a, b;
    open_bench(&a, 2, 0.5, (double)NAN);
    open_bench(&b, 2, 0.1, 0.5);
    struct tensor x = forward(&a, true), y = forward(&b, true);
    assert_memory_equal(x.data, y.data, sizeof(float) * ROWS * 2);
    struct tensor z = forward(&b, false);
    assert_memory_not_equal(x.data, z.data, sizeof(float) * ROWS * 2);
    close_bench(&a);
    close_bench(&b);
}

/* A sequence's dropout follows its number in the global batch, not its row. */
static void dropout_is_named_by_sequence_number(void **state) {
    (void)state;
    struct bench a, b;
    open_bench(&a, 2, 0, 0.5);
    open_bench(&b, 2, 0, 0.5);
    for (int row = 0; row < ROWS; row++) {
        memcpy(b.hidden + row * WIDTH, a.hidden + (ROWS - 1 - row) * WIDTH,
               WIDTH * sizeof(float));
        b.numbers[row] = a.numbers[ROWS - 1 - row];
    }
    const float *x = tensor_floats(forward(&a, true)),
                *y = tensor_floats(forward(&b, true));
    for (int row = 0; row < ROWS; row++)
        for (int c = 0; c < 2; c++)
            assert_true(fabsf(x[row * 2 + c] - y[(ROWS - 1 - row) * 2 + c]) < 1e-6F);
    close_bench(&a);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_equal_plain_loops),
        cmocka_unit_test(gradients_equal_finite_differences),
        cmocka_unit_test(gradients_are_added_to_what_is_there),
        cmocka_unit_test(classifier_dropout_falls_back_to_the_hidden_one),
        cmocka_unit_test(dropout_is_named_by_sequence_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
