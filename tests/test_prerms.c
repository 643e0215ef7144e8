/* test_prerms - Pre-RMSNorm and Pre-CRMSNorm: conversion of Pre-LN models, and training
 * from scratch as Pre-LN trains. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_file.h"
#include "encoder/checkpoint.h"
#include "encoder/safetensors.h"
#include "tests/capture.h"
#include "tests/pretrain_data.h"
#include "tests/small_run.h"
#include "tests/support.h"
#include "tests/whole_model.h"

static struct error err;

/* ---- Conversion. ---- */

#define BARE "embed_norm=0"
static const struct conversion {
    const char *arch, *switches, *to, *center;
    double dropout;
} conversions[] = {
    {"preln", BARE, "prerms", "auto", 0},
    {"preln", BARE, "prerms", "auto", 0.1},
    {"preln", BARE, "prerms", "writers", 0.1},
    {"preln", "", "prerms", "auto", 0.1}, /* with a norm after the embeddings */
    {"preln", "norm_affine=gain", "prerms", "auto", 0},
    {"preln", "norm_affine=none final_eps=1e-3", "prerms", "after_dropout", 0},
    {"normformer", BARE, "prerms", "auto", 0},
    {"normformer_fairseq", BARE, "prerms", "auto", 0},
    {"magneto", "", "prerms", "auto", 0},
    {"peri", "", "prerms", "auto", 0.1},
    {"preln", BARE " bottom_skip=1 resid_alpha=1.3", "prerms", "writers", 0},
    {"preln", BARE, "precrms", "auto", 0},
    {"preln", BARE, "precrms", "auto", 0.1},
    {"preln", BARE " norm_affine=none", "precrms", "auto", 0},
    {"magneto", BARE " head_scale=pre_proj", "precrms", "writers", 0},
};

static struct captured convert(const char *from, const char *to, const char *target,
                               const char *center) {
    const char *words[] = {"convert",         "--to", target, "--output", to,
                           "--stream-center", center, from,   NULL};
    return capture(checkpoint_command, "", words);
}

static void a_converted_model_gives_the_same_logits(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof conversions / sizeof *conversions; i++) {
        static struct whole_model before, after;
        const struct conversion *x = &conversions[i];
        char name[2][32];
        snprintf(name[0], sizeof *name, "from%zu", i);
        snprintf(name[1], sizeof *name, "to%zu", i);
        const char *from = whole_model_write(name[0], x->arch, x->switches, x->dropout);
        const char *to = support_path(name[1]);
        struct captured c = convert(from, to, x->to, x->center);
        if (c.code != 0)
            fail_msg("%s %s: exit code %d: %s", x->arch, x->switches, c.code, c.err.data);
        whole_model_run(&before, from);
        whole_model_run(&after, to);
        const double d = whole_model_difference(&before, &after);
        if (!(d < 1e-5))
            fail_msg("%s %s to %s: logits differ by %g", x->arch, x->switches, x->to, d);
        assert_string_equal(after.config.arch, x->to);
        assert_int_equal(config_stream_size(&after.config),
                         strcmp(x->to, "precrms") ? 16 : 15);
        /* dropout goes, and is told to, where matrices are centred */
        const bool by_writers =
            after.config.arrangement.stream_center == STREAM_CENTER_WRITERS;
        assert_true(after.config.hidden_dropout_prob == (by_writers ? 0 : x->dropout));
        assert_int_equal(strstr(c.err.data, "becomes 0") != NULL,
                         by_writers && x->dropout > 0);
        captured_free(&c);
    }
}

static const struct refusal {
    const char *arch, *switches, *to, *center;
    int code;
    const char *sentence;
} refusals[] = {
    {"postln", "", "prerms", "auto", 7, "*cannot become prerms: post_norm=1*"},
    {"rms", "", "prerms", "auto", 7, "*norm is not ln*"},
    {"bn", "", "precrms", "auto", 7, "*cannot become precrms: norm is not ln*"},
    {"preln", "final_norm=0", "prerms", "auto", 7, "*final_norm=0*"},
    {"normformer_res", "", "prerms", "auto", 7, "*resid_gain*"},
    {"preln", "", "precrms", "auto", 7, "*embed_norm=1*"},
    {"peri", BARE, "precrms", "auto", 7, "*out_norm*"},
    {"peri", BARE, "prerms", "writers", 2, "*need after_dropout*"},
    {"preln", BARE, "precrms", "after_dropout", 2, "*precrms needs writers*"},
    {"preln", BARE, "postln", "auto", 2, "*--to*"},
};

static void what_has_no_such_form_gets_the_reason(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *x = &refusals[i];
        char name[32];
        snprintf(name, sizeof name, "refused%zu", i);
        const char *from = whole_model_write(name, x->arch, x->switches, 0);
        const char *to = support_path("refused-to");
        struct captured c = convert(from, to, x->to, x->center);
        struct error found = {.status = (enum status)x->code};
        snprintf(found.text, sizeof found.text, "%s", c.err.data);
        assert_int_equal(c.code, x->code);
        support_assert_error(&found, (enum status)x->code, x->sentence);
        assert_false(file_exists(to));
        captured_free(&c);
    }
}

/* The mean must really be taken out: the same weights without the centring differ. */
static void without_the_centring_the_logits_differ(void **state) {
    (void)state;
    static struct whole_model before, after;
    const char *from = whole_model_write("raw", "preln", BARE, 0);
    const char *to = support_path("raw-to");
    struct captured c = convert(from, to, "prerms", "after_dropout");
    assert_int_equal(c.code, 0);
    captured_free(&c);
    SUPPORT_OK(config_read(&after.config, to, &err), err);
    after.config.arrangement.stream_center = STREAM_CENTER_NONE;
    SUPPORT_OK(config_write(&after.config, to, "MaskedLM", &err), err);
    whole_model_run(&before, from);
    whole_model_run(&after, to);
    assert_true(whole_model_difference(&before, &after) > 1e-2);
}

/* ---- From scratch. ---- */

static char *text_path;

static int write_text(void **state) {
    (void)state;
    char *text = pretrain_data_text(300, 1);
    text_path = strdup(support_write("text.txt", text));
    free(text);
    return 0;
}

static int free_text(void **state) {
    (void)state;
    free(text_path);
    return 0;
}

enum { STEPS = 8 };

/* Trains and reads the loss of each step. */
static void train(double losses[STEPS], const char *name, const char *arch,
                  const char *affine, const char *dropout, const char *init) {
    const char *output = support_path(name);
    const char *words[] = {"--train",
                           text_path,
                           "--output",
                           output,
                           "--arch",
                           arch,
                           "--norm-affine",
                           affine,
                           "--hidden-dropout-prob",
                           dropout,
                           "--init",
                           init,
                           "--seed",
                           "3",
                           "--per-device-train-batch-size",
                           "4",
                           "--max-steps",
                           "8",
                           "--warmup-steps",
                           "0",
                           "--learning-rate",
                           "0.02",
                           "--embed-norm",
                           "0",
                           "--dtype",
                           "f32",
                           NULL};
    small_run(words);
    struct buffer log = support_read(support_in(output, "metrics.jsonl"));
    char *at = log.data;
    for (int i = 0; i < STEPS; i++) {
        at = strstr(at, "\"loss\": ");
        assert_non_null(at);
        losses[i] = strtod(at += 8, NULL);
    }
    buffer_free(&log);
}

/* The same functions with the same freedom: the same losses, step by step. */
static void prerms_trains_as_preln_does(void **state) {
    (void)state;
    static const char *const rates[] = {"0", "0.1"};
    for (int i = 0; i < 2; i++) {
        double plain[STEPS], centred[STEPS];
        char name[2][32];
        snprintf(name[0], sizeof *name, "preln%s", rates[i]);
        snprintf(name[1], sizeof *name, "prerms%s", rates[i]);
        train(plain, name[0], "preln", "gain", rates[i], "normal");
        train(centred, name[1], "prerms", "gain", rates[i], "normal");
        assert_true(plain[STEPS - 1] < plain[0] - 0.1);
        for (int step = 0; step < STEPS; step++)
            if (!(fabs(plain[step] - centred[step]) < 1e-4 * plain[step]))
                fail_msg("dropout %s, step %d: %.7f and %.7f", rates[i], step + 1,
                         plain[step], centred[step]);
    }
}

/* It starts as the same function; updates then take other ways. */
static void precrms_starts_as_preln_does(void **state) {
    (void)state;
    static const char *const rules[] = {"normal", "xavier_uniform", "torch_linear"};
    for (int i = 0; i < 3; i++) {
        double plain[STEPS], narrow[STEPS];
        char name[2][32];
        snprintf(name[0], sizeof *name, "plain-%d", i);
        snprintf(name[1], sizeof *name, "narrow-%d", i);
        train(plain, name[0], "preln", "none", "0", rules[i]);
        train(narrow, name[1], "precrms", "none", "0", rules[i]);
        assert_true(fabs(plain[0] - narrow[0]) < 1e-5 * plain[0]);
        assert_true(narrow[STEPS - 1] < narrow[0] - 0.1);
    }
}

static void output_matrices_stay_centred(void **state) {
    (void)state;
    static const char *const names[] = {"roberta.encoder.layer.1.output.dense.weight",
                                        "roberta.encoder.layer.0.attention.output.dense."
                                        "bias"};
    struct safetensors s;
    const char *path = support_in(support_path("prerms0"), "model.safetensors");
    SUPPORT_OK(safetensors_open(&s, path, &err), err);
    for (int i = 0; i < 2; i++) {
        const struct safetensor *t = safetensors_find(&s, names[i]);
        float values[16 * 32];
        assert_non_null(t);
        SUPPORT_OK(safetensors_to_f32(&s, t, values, &err), err);
        const int columns = t->rank == 2 ? 32 : 1;
        for (int c = 0; c < columns; c++) {
            double sum = 0, most = 0;
            for (int r = 0; r < 16; r++) {
                sum += (double)values[r * columns + c];
                most = fmax(most, fabs((double)values[r * columns + c]));
            }
            assert_true(most > 0 && fabs(sum) < 1e-6 * 16 * most);
        }
    }
    safetensors_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_converted_model_gives_the_same_logits),
        cmocka_unit_test(what_has_no_such_form_gets_the_reason),
        cmocka_unit_test(without_the_centring_the_logits_differ),
        cmocka_unit_test(prerms_trains_as_preln_does),
        cmocka_unit_test(precrms_starts_as_preln_does),
        cmocka_unit_test(output_matrices_stay_centred),
    };
    return cmocka_run_group_tests(tests, write_text, free_text);
}
