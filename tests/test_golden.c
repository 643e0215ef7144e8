/* test_golden - encoders of a folder against the outputs, losses, gradients and training
 * steps that a reference computed in double precision.
 *
 * usage: test_golden [DIR]; DIR holds folders as tests/data/encoder does, which is the
 * default. Where no losses are expected the outputs are those of evaluation mode. A line
 * a folder: the worst difference of outputs and of gradients, each relative to the
 * largest entry of its tensor. The bounds are 1e-5 and 1e-4; where weights multiply
 * rounding errors so that a plain encoder of that precision is off by more than half of
 * that, all are wider by as much. The same with operands in bf16, where the bounds are
 * 2e-2 for outputs, 1e-2 for losses and 6e-2 for gradients. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"
#include "encoder/adamw.h"
#include "encoder/checkpoint.h"
#include "encoder/encoder.h"
#include "encoder/safetensors.h"
#include "encoder/schedule.h"
#include "finetune/head.h"
#include "pretrain/mlm_head.h"
#include "tests/processor.h"
#include "tests/reference.h"
#include "tests/support.h"

/* ---- A model of a folder. ---- */

struct model {
    struct config config;
    struct device *device;
    struct parameters parameters;
    struct encoder *encoder;
    struct mlm_head *mlm;
    struct head *classifier; /* NULL: the folder's weights have none */
    struct arena arena;
    struct safetensors expected;
    struct pass pass; /* {0}: evaluation mode, outputs only */
};

enum { MOST = 4096 }; /* tokens of a golden batch */

/* Relative bounds of a type. A key's bias has gradient zero in exact arithmetic: what is
 * left of it is measured against the model's largest gradient. */
struct bounds {
    const char *name;
    double outputs, losses, gradients, key_bias;
};
static const struct bounds bounds_of[] = {
    [DTYPE_F32] = {"f32", 1e-5, 1e-5, 1e-4, 1e-6},
    [DTYPE_BF16] = {"bf16", 2e-2, 1e-2, 6e-2, 1e-2},
};

/* Training, so that everything for backward is kept; the golden rate of dropout is 0. */
static const struct pass training = {.train = true, .seed = 1, .step = 1};

static void layout(struct model *m, struct arena *arena) {
    encoder_layout(m->encoder, arena, (struct limits){MOST, MOST, MOST, MOST}, true);
    mlm_head_layout(m->mlm, arena, MOST, true);
    if (m->classifier)
        head_layout(m->classifier, arena, MOST, true);
}

static void model_open(struct model *m, const char *folder, enum dtype dtype,
                       bool with_classifier) {
    struct error err;
    *m = (struct model){0};
    SUPPORT_OK(config_read(&m->config, folder, &err), err);
    SUPPORT_OK(device_open(&m->device, 2, NULL, &err), err);
    SUPPORT_OK(device_set_dtype(m->device, dtype, &err), err);
    SUPPORT_OK(encoder_declare(&m->encoder, &m->config, m->device, &m->parameters, &err),
               err);
    SUPPORT_OK(mlm_head_declare(&m->mlm, &m->config, m->device, &m->parameters,
                                encoder_word_embeddings(m->encoder), &err),
               err);
    if (with_classifier)
        SUPPORT_OK(
            head_declare(&m->classifier, &m->config, m->device, &m->parameters, &err),
            err);
    SUPPORT_OK(parameters_allocate(&m->parameters, true, &err), err);
    SUPPORT_OK(
        checkpoint_read_parameters(folder, &m->config, &m->parameters, 0, NULL, &err),
        err);
    struct arena measure = {0};
    layout(m, &measure);
    SUPPORT_OK(arena_open(&m->arena, measure.used, &err), err);
    layout(m, &m->arena);
    SUPPORT_OK(
        safetensors_open(&m->expected, support_in(folder, "expected.safetensors"), &err),
        err);
    if (!with_classifier || safetensors_find(&m->expected, "mlm_loss"))
        m->pass = training;
}

static void model_close(struct model *m) {
    safetensors_close(&m->expected);
    arena_close(&m->arena);
    if (m->classifier)
        head_free(m->classifier);
    mlm_head_free(m->mlm);
    encoder_free(m->encoder);
    parameters_free(&m->parameters);
    device_close(m->device);
}

struct golden_batch { /* without the padding */
    int32_t ids[MOST], starts[MOST + 1], masked[MOST], labels[MOST], first[MOST],
        every[MOST];
    uint32_t numbers[MOST];
    int64_t place[MOST]; /* of each token in the padded (B, S) */
    int64_t num_sequences, num_tokens, num_masked;
};

static const struct safetensor *find(const struct model *m, const char *name,
                                     const char *suffix) {
    char full[256];
    snprintf(full, sizeof full, "%s%s", name, suffix);
    const struct safetensor *t = safetensors_find(&m->expected, full);
    if (!t)
        fail_msg("expected.safetensors lacks %s", full);
    return t;
}

static int64_t integer(const struct safetensor *t, int64_t i) {
    int64_t value;
    assert_string_equal(t->dtype, "I64");
    memcpy(&value, (const char *)t->data + i * 8, sizeof value);
    return value;
}

/* The tensors of step ".3", or those without a suffix. */
static void read_batch(const struct model *m, const char *suffix,
                       struct golden_batch *b) {
    const struct safetensor *ids = find(m, "input_ids", suffix),
                            *mask = find(m, "attention_mask", suffix),
                            *labels = find(m, "mlm_labels", suffix);
    *b = (struct golden_batch){.num_sequences = ids->shape[0]};
    assert_true(ids->count <= MOST);
    for (int64_t i = 0; i < (int64_t)ids->count; i++) {
        const int64_t n = b->num_tokens, sequence = i / ids->shape[1];
        if (i % ids->shape[1] == 0)
            b->first[sequence] = b->starts[sequence] = (int32_t)n;
        if (!integer(mask, i))
            continue;
        b->ids[n] = (int32_t)integer(ids, i);
        b->place[n] = i;
        b->every[n] = (int32_t)n;
        if (integer(labels, i) >= 0) {
            b->labels[b->num_masked] = (int32_t)integer(labels, i);
            b->masked[b->num_masked++] = (int32_t)n;
        }
        b->starts[sequence + 1] = (int32_t)++b->num_tokens;
    }
    for (int64_t i = 0; i < b->num_sequences; i++)
        b->numbers[i] = (uint32_t)i;
}

static struct batch batch_of(const struct golden_batch *b, const int32_t *rows,
                             int64_t count) {
    return (struct batch){b->num_sequences, b->num_tokens, b->ids, b->starts,
                          b->numbers,       rows,          count};
}

static struct tensor run_encoder(struct model *m, const struct batch *batch) {
    struct error err;
    struct tensor output;
    SUPPORT_OK(encoder_forward(m->encoder, batch, m->pass, &output, &err), err);
    return output;
}

/* ---- Comparing. ---- */

static double *doubles(const struct model *m, const struct safetensor *t) {
    struct error err;
    double *values = malloc((t->count + 1) * sizeof *values);
    assert_non_null(values);
    SUPPORT_OK(safetensors_to_f64(&m->expected, t, values, &err), err);
    return values;
}

/* Largest |scale found - expected| over the largest |expected|. NaN counts as infinite.
 */
static double difference(const float *found, double scale, const double *expected,
                         int64_t count, double *largest) {
    double most = 0;
    *largest = 0;
    for (int64_t i = 0; i < count; i++) {
        const double d = fabs(scale * (double)found[i] - expected[i]);
        most = d <= most ? most : isnan(d) ? INFINITY : d;
        *largest = fmax(*largest, fabs(expected[i]));
    }
    return most;
}

static double compare(const struct model *m, const char *name, const float *found,
                      int64_t count) {
    const struct safetensor *t = find(m, name, "");
    double *expected = doubles(m, t), largest;
    assert_int_equal(t->count, count);
    const double d = difference(found, 1, expected, count, &largest);
    free(expected);
    return d / largest;
}

/* Rows of (B, S, D) that are real. */
static double compare_hidden(const struct model *m, const struct golden_batch *b,
                             struct tensor output) {
    double *expected = doubles(m, find(m, "sequence_output", "")), most = 0, top = 0;
    for (int64_t n = 0; n < b->num_tokens; n++) {
        double largest;
        const double d =
            difference(tensor_floats(output) + n * output.columns, 1,
                       expected + b->place[n] * output.columns, output.columns, &largest);
        most = fmax(most, d);
        top = fmax(top, largest);
    }
    free(expected);
    return most / top;
}

struct worst { /* relative differences found */
    double outputs, losses, gradients, key_bias;
};

static void worse(double *worst, double found) { *worst = support_worse(*worst, found); }

/* Gradients of the summed loss, divided by `targets`, against "grad_<loss>.<name>". Rows
 * that the loss does not reach must be 0. */
static void compare_gradients(const struct model *m, const char *loss, int64_t targets,
                              struct worst *w) {
    parameters_settle_all(&m->parameters);
    const double scale = 1.0 / (double)targets;
    double worst_key = 0, top = 0;
    for (int i = 0; i < m->parameters.count; i++) {
        const struct parameter *row = m->parameters.rows[i];
        char name[256];
        double largest;
        snprintf(name, sizeof name, "grad_%s.%s", loss, row->name);
        const struct safetensor *t = safetensors_find(&m->expected, name);
        double *expected = t ? doubles(m, t) : calloc(row->count, sizeof *expected);
        assert_non_null(expected);
        const double d =
            difference(row->gradient, scale, expected, (int64_t)row->count, &largest);
        free(expected);
        if (strstr(row->name, "key.bias"))
            worse(&worst_key, d);
        else if (d > 0)
            worse(&w->gradients, largest > 0 ? d / largest : INFINITY);
        worse(&top, largest);
    }
    worse(&w->key_bias, worst_key / top);
}

enum { ORDERS = 8 }; /* in which the plain encoder sums */

/* How far a plain encoder that rounds to `dtype` is from the expected hidden states, the
 * worst of several orders of its sums in f32: weights can be such that every product
 * multiplies rounding errors. */
static double plain_rounding(const struct model *m, const struct golden_batch *b,
                             enum dtype dtype) {
    const struct batch all = batch_of(b, b->every, b->num_tokens);
    const int64_t width = m->config.hidden_size, count = b->num_tokens * width;
    double worst = 0, *hidden = calloc((size_t)count, sizeof *hidden);
    float *rounded = calloc((size_t)count, sizeof *rounded);
    struct reference r;
    assert_true(hidden && rounded);
    reference_open(&r, &m->config, &m->parameters);
    r.bf16 = dtype == DTYPE_BF16;
    for (int order = 1; order <= (r.bf16 ? 1 : ORDERS); order++) {
        r.single = r.bf16 ? 0 : order;
        reference_forward(&r, &all, (struct pass){0}, hidden);
        for (int64_t i = 0; i < count; i++)
            rounded[i] = (float)hidden[i];
        const struct tensor t = tensor_f32(rounded, b->num_tokens, width);
        worse(&worst, compare_hidden(m, b, t));
    }
    free(hidden);
    free(rounded);
    reference_close(&r);
    return worst;
}

/* ---- The two kinds of folder. ---- */

static void check_mlm(struct model *m, const struct golden_batch *b, struct worst *w) {
    const struct batch batch = batch_of(b, b->masked, b->num_masked);
    struct tensor hidden = run_encoder(m, &batch);
    const struct tensor logits = mlm_head_forward(m->mlm, hidden);
    worse(&w->outputs,
          compare(m, "mlm_logits", logits.data, logits.rows * logits.columns));
    if (!m->pass.train)
        return;
    parameters_clear_gradients(&m->parameters);
    const double loss = mlm_head_loss(m->mlm, hidden, b->labels, &hidden);
    worse(&w->losses,
          compare(m, "mlm_loss", (float[]){(float)(loss / (double)b->num_masked)}, 1));
    encoder_backward(m->encoder, &batch, m->pass, hidden);
    compare_gradients(m, "mlm", b->num_masked, w);
}

static void check_classifier(struct model *m, const struct golden_batch *b,
                             struct worst *w) {
    const struct batch batch = batch_of(b, b->first, b->num_sequences);
    struct tensor hidden = run_encoder(m, &batch);
    const struct tensor logits = head_forward(m->classifier, hidden, m->pass, b->numbers);
    worse(&w->outputs,
          compare(m, "cls_logits", logits.data, logits.rows * logits.columns));
    if (!m->pass.train)
        return;
    const struct safetensor *ids = find(m, "cls_labels", "");
    float labels[MOST];
    for (int64_t i = 0; i < b->num_sequences; i++)
        labels[i] = (float)integer(ids, i);
    parameters_clear_gradients(&m->parameters);
    const double loss =
        head_loss(m->classifier, hidden, labels, m->pass, b->numbers, &hidden);
    worse(&w->losses,
          compare(m, "cls_loss", (float[]){(float)(loss / (double)b->num_sequences)}, 1));
    encoder_backward(m->encoder, &batch, m->pass, hidden);
    compare_gradients(m, "cls", b->num_sequences, w);
}

static bool is_within(const struct worst *w, const struct bounds *b) {
    return w->outputs <= b->outputs && w->losses <= b->losses &&
           w->gradients <= b->gradients && w->key_bias <= b->key_bias;
}

/* Where twice what a plain encoder is off by is more than the bound of outputs, all
 * bounds grow by as much. */
static void widen(struct bounds *b, double plain) {
    const double factor = fmax(1, 2 * plain / b->outputs);
    b->outputs *= factor;
    b->losses *= factor;
    b->gradients *= factor;
}

static struct worst check_outputs(const char *folder, enum dtype dtype,
                                  struct bounds *bounds) {
    static struct golden_batch b;
    struct model m;
    struct worst w = {0};
    model_open(&m, folder, dtype, true);
    read_batch(&m, "", &b);
    const struct batch all = batch_of(&b, b.every, b.num_tokens);
    w.outputs = compare_hidden(&m, &b, run_encoder(&m, &all));
    check_mlm(&m, &b, &w);
    check_classifier(&m, &b, &w);
    if (!is_within(&w, bounds))
        widen(bounds, plain_rounding(&m, &b, dtype));
    model_close(&m);
    return w;
}

struct recipe {
    struct adamw adamw;
    struct schedule schedule;
    double max_grad_norm;
};

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static struct recipe recipe_of(const json_t *o) {
    return (struct recipe){
        .adamw = {.beta1 = number(o, "adam_beta1"),
                  .beta2 = number(o, "adam_beta2"),
                  .epsilon = number(o, "adam_epsilon"),
                  .weight_decay = number(o, "weight_decay")},
        .schedule = {.kind = "linear",
                     .peak = number(o, "learning_rate"),
                     .warmup_steps = (int64_t)number(o, "warmup_steps"),
                     .max_steps = (int64_t)number(o, "max_steps")},
        .max_grad_norm = number(o, "max_grad_norm"),
    };
}

static double relative(double a, double b) { return fabs(a - b) / fmax(fabs(b), 1e-30); }

/* One update: "gradients" has the norm's difference. */
static void check_step(struct model *m, struct recipe *r, const json_t *expected,
                       int64_t step, struct worst *w) {
    static struct golden_batch b;
    char suffix[32];
    snprintf(suffix, sizeof suffix, ".%lld", (long long)step);
    read_batch(m, suffix, &b);
    const struct batch batch = batch_of(&b, b.masked, b.num_masked);
    struct tensor hidden = run_encoder(m, &batch);
    const double mean = 1 / (double)b.num_masked;
    const double loss = mean * mlm_head_loss(m->mlm, hidden, b.labels, &hidden);
    encoder_backward(m->encoder, &batch, m->pass, hidden);
    const double norm = adamw_gradient_norm(&m->parameters, mean, 2);
    const double clip = fmin(1, r->max_grad_norm / (norm + 1e-6));
    r->adamw.learning_rate = schedule_rate(&r->schedule, step);
    adamw_update(&m->parameters, &r->adamw, mean * clip, step, 2);
    worse(&w->losses, relative(loss, number(expected, "loss")));
    worse(&w->losses, fabs(r->adamw.learning_rate - number(expected, "learning_rate")) /
                          r->schedule.peak);
    worse(&w->gradients, relative(norm, number(expected, "grad_norm")));
}

/* Final weights; a key's bias wanders on rounding noise and is compared absolutely. */
static double compare_weights(const struct model *m) {
    double worst = 0;
    for (int i = 0; i < m->parameters.count; i++) {
        const struct parameter *row = m->parameters.rows[i];
        double *expected = doubles(m, find(m, "final.", row->name)), largest;
        const double d =
            difference(row->value, 1, expected, (int64_t)row->count, &largest);
        free(expected);
        worst = fmax(worst, strstr(row->name, "key.bias") ? d : d / largest);
    }
    return worst;
}

/* Weights after all steps, in f32: AdamW makes steps of full size out of the smallest
 * gradients, whose signs in bf16 are chance. */
static struct worst check_trajectory(const char *folder, const char *path,
                                     enum dtype dtype) {
    struct error err;
    struct model m;
    struct worst w = {0};
    json_t *trajectory;
    SUPPORT_OK(json_file_read(&trajectory, path, &err), err);
    model_open(&m, folder, dtype, false);
    const json_t *steps = json_object_get(trajectory, "steps");
    struct recipe recipe = recipe_of(json_object_get(trajectory, "optimizer"));
    for (size_t i = 0; i < json_array_size(steps); i++)
        check_step(&m, &recipe, json_array_get(steps, i), (int64_t)i + 1, &w);
    if (dtype == DTYPE_F32)
        worse(&w.gradients, compare_weights(&m));
    model_close(&m);
    json_decref(trajectory);
    return w;
}

/* ---- All of them. ---- */

static const char *directory = "tests/data/encoder";

/* True when the folder is within the type's bounds. */
static bool check_folder(const char *name, enum dtype dtype) {
    char folder[PATH_BYTES], path[PATH_BYTES];
    struct bounds bounds = bounds_of[dtype];
    strcpy(folder, support_in(directory, name));
    strcpy(path, support_in(folder, "trajectory.json"));
    const struct worst w = file_exists(path) ? check_trajectory(folder, path, dtype)
                                             : check_outputs(folder, dtype, &bounds);
    const bool fits = is_within(&w, &bounds);
    printf("%-24s %-4s outputs %.1e  losses %.1e  gradients %.1e  key biases %.1e  %s\n",
           name, bounds.name, w.outputs, w.losses, w.gradients, w.key_bias,
           fits ? "ok" : "OUT OF TOLERANCE");
    if (bounds.outputs > bounds_of[dtype].outputs)
        printf("%-24s a plain encoder is off by %.1e there\n", "", bounds.outputs / 2);
    return fits;
}

static int is_folder_with_config(const struct dirent *entry) {
    return entry->d_name[0] != '.' &&
           file_exists(support_in(support_in(directory, entry->d_name), "config.json"));
}

static void check_folders(enum dtype dtype) {
    struct dirent **entries;
    int failed = 0;
    const int count = scandir(directory, &entries, is_folder_with_config, alphasort);
    if (count <= 0)
        fail_msg("%s: no folder with a config.json", directory);
    for (int i = 0; i < count; i++) {
        failed += !check_folder(entries[i]->d_name, dtype);
        free(entries[i]);
    }
    free(entries);
    assert_int_equal(failed, 0);
}

static void every_folder_is_within_tolerance_in_f32(void **state) {
    (void)state;
    check_folders(DTYPE_F32);
}

static void every_folder_is_within_tolerance_in_bf16(void **state) {
    (void)state;
    processor_need_bf16();
    check_folders(DTYPE_BF16);
}

int main(int argc, char **argv) {
    if (argc > 1)
        directory = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_folder_is_within_tolerance_in_f32),
        cmocka_unit_test(every_folder_is_within_tolerance_in_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
