/* test_finetune - whole fine-tunings of a tiny random model on an invented task. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json_file.h"
#include "encoder/config.h"
#include "finetune/finetune.h"
#include "tests/letters.h"
#include "tests/support.h"

static bool same_files(const char *a, const char *b, const char *name) {
    char path_a[PATH_BYTES], path_b[PATH_BYTES];
    struct error err;
    uint64_t size_a, size_b;
    uint32_t crc_a, crc_b;
    SUPPORT_OK(file_join(path_a, a, name, &err), err);
    SUPPORT_OK(file_join(path_b, b, name, &err), err);
    SUPPORT_OK(file_checksum(path_a, &size_a, &crc_a, &err), err);
    SUPPORT_OK(file_checksum(path_b, &size_b, &crc_b, &err), err);
    return size_a == size_b && crc_a == crc_b;
}

static json_t *read_results(const char *output) {
    char path[PATH_BYTES];
    struct error err;
    json_t *object;
    SUPPORT_OK(file_join(path, output, "eval_results.json", &err), err);
    SUPPORT_OK(json_file_read(&object, path, &err), err);
    return object;
}

static void a_separable_task_is_learnt_and_the_model_saved(void **state) {
    (void)state;
    const struct letters_course course = {0};
    struct finetune_result r;
    struct letters_heard heard = {0};
    struct error err;
    const char *output = support_path("learnt");
    SUPPORT_OK(letters_run(letters_model(), output, letters_task(&course), &r, &heard,
                           &err, NULL),
               err);
    assert_int_equal(r.num_splits, 1);
    assert_int_equal(r.train_rows, LETTERS_TRAIN_ROWS);
    assert_int_equal(r.max_steps, 4 * 12); /* 90 rows are 12 steps of 8 */
    assert_int_equal(r.splits[0].rows, LETTERS_DEV_ROWS);
    assert_true(fabs(r.splits[0].majority.combined - 22.0 / 32) < 1e-12);
    assert_true(r.splits[0].score.combined > 0.95);
    assert_non_null(strstr(heard.text, "letters: 90 training rows, 48 steps of 8"));

    json_t *json = read_results(output);
    assert_true(json_real_value(json_object_get(json, "eval_accuracy")) ==
                r.splits[0].score.combined);
    assert_int_equal(json_integer_value(json_object_get(json, "eval_samples")),
                     LETTERS_DEV_ROWS);
    assert_string_equal(json_string_value(json_object_get(json, "eval_split")), "dev");
    json_decref(json);
    struct config config;
    SUPPORT_OK(config_read(&config, output, &err), err);
    assert_int_equal(config.num_labels, 2);
    assert_string_equal(config.labels[0].name, "early");
    assert_string_equal(config.labels[1].name, "late");
    assert_string_equal(config.finetuning_task, "letters");
    static const char *const files[] = {"model.safetensors", "vocab.json",
                                        "merges.txt",        "tokenizer.json",
                                        "metrics.jsonl",     "run_config.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[PATH_BYTES];
        SUPPORT_OK(file_join(path, output, files[i], &err), err);
        assert_true(file_exists(path));
    }
}

/* Batches of 8 go through in parts of two or three sequences, by length. */
static void parts_of_a_batch_learn_what_the_batch_learns(void **state) {
    (void)state;
    const struct letters_course course = {0};
    static const char *const words[2][7] = {
        {"--dtype", "f32", "--max-steps", "6", NULL},
        {"--dtype", "f32", "--max-steps", "6", "--max-tokens", "24", NULL}};
    struct finetune_result r[2];
    struct letters_heard heard = {0};
    struct error err;
    for (int i = 0; i < 2; i++)
        SUPPORT_OK(letters_run(letters_model(), support_path(i ? "in-parts" : "at-once"),
                               letters_task(&course), &r[i], &heard, &err, words[i]),
                   err);
    assert_true(fabs(r[0].splits[0].loss - r[1].splits[0].loss) < 1e-5);
}

/* The best model's directory scores what the run said: trained for no more than a step
 * of rate 0 from there, the first evaluation is the same. */
static void the_saved_model_is_the_best_one(void **state) {
    (void)state;
    const struct letters_course course = {0};
    struct finetune_result first, again;
    struct letters_heard learning = {0}, heard = {0};
    struct error err;
    const char *words[] = {"--learning-rate", "0", "--max-steps", "1", NULL};
    const char *output = support_path("best");
    /* A rate that wrecks the model after its best: the last is not the best. */
    const char *wreck[] = {
        "--learning-rate", "0.02", "--num-train-epochs", "6", "--eval-steps", "3", NULL};
    SUPPORT_OK(letters_run(letters_model(), output, letters_task(&course), &first,
                           &learning, &err, wreck),
               err);
    SUPPORT_OK(letters_run(output, support_path("best-again"), letters_task(&course),
                           &again, &heard, &err, words),
               err);
    assert_true(first.splits[0].score.combined == again.splits[0].score.combined);
    assert_true(fabs(first.splits[0].loss - again.splits[0].loss) < 1e-12);
    assert_null(strstr(heard.text, "starts new"));
}

static void regression_learns_the_raw_score(void **state) {
    (void)state;
    const struct letters_course course = {0};
    struct task task = letters_task(&course);
    struct finetune_result r;
    struct letters_heard heard = {0};
    struct error err;
    const char *output = support_path("score");
    const char *words[] = {"--num-train-epochs", "30", "--learning-rate", "0.005", NULL};
    task.labels = NULL;
    task.num_labels = 1;
    SUPPORT_OK(letters_run(letters_model(), output, task, &r, &heard, &err, words), err);
    assert_true(isnan(r.splits[0].majority.combined));
    assert_true(r.splits[0].score.combined > 0.8);
    assert_true(r.splits[0].loss < 0.5); /* of scores from 0 to 5 */
    json_t *json = read_results(output);
    assert_true(json_is_null(json_object_get(json, "majority_pearson")));
    json_decref(json);
}

static void a_second_dev_set_gets_its_own_keys(void **state) {
    (void)state;
    const struct letters_course course = {0};
    struct task task = letters_task(&course);
    struct finetune_result r;
    struct letters_heard heard = {0};
    struct error err;
    const char *words[] = {"--max-steps", "2", NULL};
    static const char *const two[] = {"dev_matched", "dev_mismatched", NULL};
    task.eval_splits = two;
    task.is_pair = true;
    const char *output = support_path("two");
    SUPPORT_OK(letters_run(letters_model(), output, task, &r, &heard, &err, words), err);
    assert_int_equal(r.num_splits, 2);
    assert_string_equal(r.splits[1].split, "dev_mismatched");
    json_t *json = read_results(output);
    assert_true(json_is_real(json_object_get(json, "eval_accuracy_mm")));
    assert_true(json_is_real(json_object_get(json, "eval_loss_mm")));
    json_decref(json);
}

static void two_runs_give_the_same_bytes(void **state) {
    (void)state;
    const struct letters_course course = {0};
    struct finetune_result r;
    struct letters_heard heard = {0};
    struct error err;
    const char *words[] = {"--max-steps", "10", "--eval-steps", "5", NULL};
    const char *other_seed[] = {"--max-steps", "10", "--seed", "43", NULL};
    const char *model = letters_model(), *a = support_path("same-a"),
               *b = support_path("same-b"), *c = support_path("same-c");
    SUPPORT_OK(letters_run(model, a, letters_task(&course), &r, &heard, &err, words),
               err);
    SUPPORT_OK(letters_run(model, b, letters_task(&course), &r, &heard, &err, words),
               err);
    SUPPORT_OK(letters_run(model, c, letters_task(&course), &r, &heard, &err, other_seed),
               err);
    assert_true(same_files(a, b, "model.safetensors"));
    assert_true(same_files(a, b, "metrics.jsonl"));
    assert_false(same_files(a, c, "model.safetensors"));
}

static void accumulation_equals_the_big_batch(void **state) {
    (void)state;
    const struct letters_course course = {0};
    struct finetune_result whole, parts;
    struct letters_heard heard = {0};
    struct error err;
    const char *model = letters_model();
    const char *big[] = {"--max-steps", "6", "--classifier-dropout", "0.1", NULL};
    const char *small[] = {"--max-steps",
                           "6",
                           "--classifier-dropout",
                           "0.1",
                           "--per-device-train-batch-size",
                           "3",
                           "--gradient-accumulation-steps",
                           "3",
                           NULL};
    struct task task = letters_task(&course);
    task.batch_size = 9;
    SUPPORT_OK(letters_run(model, support_path("big"), task, &whole, &heard, &err, big),
               err);
    SUPPORT_OK(
        letters_run(model, support_path("small"), task, &parts, &heard, &err, small),
        err);
    assert_true(fabs(whole.splits[0].loss - parts.splits[0].loss) < 1e-5);
}

static void a_killed_run_resumes_to_the_same_bytes(void **state) {
    (void)state;
    int scored = 0;
    const struct letters_course course = {0}, killed = {.fail_at = 4, .scored = &scored};
    struct finetune_result whole, resumed;
    struct letters_heard heard = {0};
    struct error err;
    const char *model = letters_model();
    const char *words[] = {"--max-steps",
                           "14",
                           "--eval-steps",
                           "4",
                           "--save-steps",
                           "3",
                           "--logging-steps",
                           "2",
                           "--resume",
                           "auto",
                           NULL};
    const char *a = support_path("whole"), *b = support_path("resumed");
    SUPPORT_OK(letters_run(model, a, letters_task(&course), &whole, &heard, &err, words),
               err);
    assert_int_equal(
        letters_run(model, b, letters_task(&killed), &resumed, &heard, &err, words),
        ERR_FAILED);
    assert_non_null(strstr(err.text, "killed"));
    SUPPORT_OK(
        letters_run(model, b, letters_task(&course), &resumed, &heard, &err, words), err);
    assert_true(same_files(a, b, "model.safetensors"));
    assert_true(same_files(a, b, "metrics.jsonl"));
    assert_int_equal(whole.best_step, resumed.best_step);
    assert_true(whole.splits[0].score.combined == resumed.splits[0].score.combined);
    /* And a run that has ended says the same once more. */
    SUPPORT_OK(
        letters_run(model, b, letters_task(&course), &resumed, &heard, &err, words), err);
    assert_true(whole.splits[0].loss == resumed.splits[0].loss);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_separable_task_is_learnt_and_the_model_saved),
        cmocka_unit_test(parts_of_a_batch_learn_what_the_batch_learns),
        cmocka_unit_test(the_saved_model_is_the_best_one),
        cmocka_unit_test(regression_learns_the_raw_score),
        cmocka_unit_test(a_second_dev_set_gets_its_own_keys),
        cmocka_unit_test(two_runs_give_the_same_bytes),
        cmocka_unit_test(accumulation_equals_the_big_batch),
        cmocka_unit_test(a_killed_run_resumes_to_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
