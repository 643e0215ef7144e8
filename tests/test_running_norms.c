/* test_running_norms - whole trainings with norms that have running statistics: they go
 * on to the bit, they are saved, logged, and kept or moved by a fine-tuning. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "encoder/checkpoint.h"
#include "encoder/safetensors.h"
#include "tests/capture.h"
#include "tests/letters.h"
#include "tests/pretrain_data.h"
#include "tests/small_run.h"
#include "tests/support.h"

static struct error err;

static const struct row {
    const char *arch, *norm_stat;
    const char *logged; /* in metrics.jsonl */
    const char *buffer; /* that a batch moves */
} rows[] = {
    {"rbn", "momentum=0.9", "\"norm_tid_mean\": ", "running_mean"},
    {"pn", "warmup=3", NULL, "running_phi"},
    {"un", "warmup=3,compensation_after=6,filter=1",
     "\"norm_skipped\": ", "running_square"},
};
enum { ROWS = sizeof rows / sizeof *rows };

static char *text_path, *outputs[ROWS];

static int write_text(void **state) {
    (void)state;
    char *text = pretrain_data_text(400, 1);
    text_path = strdup(support_write("text.txt", text));
    free(text);
    return 0;
}

static int free_paths(void **state) {
    (void)state;
    free(text_path);
    for (int i = 0; i < ROWS; i++)
        free(outputs[i]);
    return 0;
}

/* Twelve steps of two micro-batches, a checkpoint every four. */
static void pretrain(const struct row *row, const char *output, const char *resume) {
    const char *words[] = {"--train",
                           text_path,
                           "--valid",
                           text_path,
                           "--output",
                           output,
                           "--arch",
                           row->arch,
                           "--norm-stat",
                           row->norm_stat,
                           "--resume",
                           resume,
                           "--per-device-train-batch-size",
                           "3",
                           "--gradient-accumulation-steps",
                           "2",
                           "--max-steps",
                           "12",
                           "--warmup-steps",
                           "2",
                           "--save-steps",
                           "4",
                           "--save-total-limit",
                           "5",
                           NULL};
    small_run(words);
}

static void assert_same(struct buffer *a, struct buffer b) {
    assert_int_equal(a->length, b.length);
    assert_memory_equal(a->data, b.data, b.length);
    buffer_free(a);
    buffer_free(&b);
}

static void a_resumed_run_ends_with_the_same_bits(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        outputs[i] = strdup(support_path(rows[i].arch));
        pretrain(&rows[i], outputs[i], "never");
        struct buffer model = support_read(support_in(outputs[i], "model.safetensors")),
                      log = support_read(support_in(outputs[i], "metrics.jsonl"));
        pretrain(&rows[i], outputs[i], support_in(outputs[i], "checkpoint-4"));
        assert_same(&model, support_read(support_in(outputs[i], "model.safetensors")));
        assert_same(&log, support_read(support_in(outputs[i], "metrics.jsonl")));
    }
}

static void what_the_norms_tell_is_logged(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        struct buffer log = support_read(support_in(outputs[i], "metrics.jsonl"));
        assert_true(rows[i].logged ? strstr(log.data, rows[i].logged) != NULL
                                   : strstr(log.data, "\"norm_") == NULL);
        assert_null(strstr(log.data, "null"));
        buffer_free(&log);
    }
}

/* The named tensor of a model; the caller frees. */
static float *tensor_of(const char *directory, const char *name, size_t *count) {
    struct safetensors s;
    SUPPORT_OK(safetensors_open(&s, support_in(directory, "model.safetensors"), &err),
               err);
    const struct safetensor *t = safetensors_find(&s, name);
    if (!t)
        fail_msg("%s lacks %s", directory, name);
    float *values = calloc(t->count, sizeof *values);
    SUPPORT_OK(safetensors_to_f32(&s, t, values, &err), err);
    *count = t->count;
    safetensors_close(&s);
    return values;
}

static float *buffer_of(const struct row *row, const char *directory, size_t *count) {
    char name[128];
    snprintf(name, sizeof name, "roberta.encoder.layer.1.intermediate.LayerNorm.%s",
             row->buffer);
    return tensor_of(directory, name, count);
}

/* Micro-batches move them: 12 steps of 2. */
static void a_checkpoint_holds_statistics_and_counters(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        size_t count;
        float *buffer = buffer_of(&rows[i], outputs[i], &count);
        assert_int_equal(count, 16);
        assert_true(buffer[3] != 0 && buffer[3] != 1);
        free(buffer);
        if (i == 0)
            continue;
        float *steps = tensor_of(outputs[i], "roberta.LayerNorm.running_steps", &count);
        assert_true(count == 1 && *steps == 24);
        free(steps);
    }
}

/* The same number as for Pre-LN: 2 layers of 16 and 32 channels, 2,000 tokens. */
static void statistics_are_no_parameters(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        const char *words[] = {"inspect", outputs[i], NULL};
        struct captured c = capture(checkpoint_command, "", words);
        assert_non_null(strstr(c.out.data, "\nparameters                     39376\n"));
        captured_free(&c);
    }
}

static void a_fine_tuning_keeps_or_moves_them_as_asked(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++)
        for (int update = 0; update < 2; update++) {
            const struct letters_course course = {0};
            struct finetune_result result;
            struct letters_heard heard = {0};
            size_t count;
            char name[64];
            const char *words[] = {"--max-steps", "3", "--norm-statistics",
                                   update ? "update" : "freeze", NULL};
            snprintf(name, sizeof name, "%s-%s", rows[i].arch, words[3]);
            const char *output = support_path(name);
            SUPPORT_OK(letters_run(outputs[i], output, letters_task(&course), &result,
                                   &heard, &err, words),
                       err);
            assert_true(isfinite(result.splits[0].loss));
            float *before = buffer_of(&rows[i], outputs[i], &count),
                  *after = buffer_of(&rows[i], output, &count);
            assert_int_equal(memcmp(before, after, count * sizeof *after) != 0, update);
            free(before);
            free(after);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_run_ends_with_the_same_bits),
        cmocka_unit_test(what_the_norms_tell_is_logged),
        cmocka_unit_test(a_checkpoint_holds_statistics_and_counters),
        cmocka_unit_test(statistics_are_no_parameters),
        cmocka_unit_test(a_fine_tuning_keeps_or_moves_them_as_asked),
    };
    return cmocka_run_group_tests(tests, write_text, free_paths);
}
