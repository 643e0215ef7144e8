/* test_trainer - the loop: updates, evaluation, best, folder rules, resume, NaN, signals.
 */
#include "encoder/trainer.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/json_file.h"
#include "tests/fake_job.h"
#include "tests/support.h"

static struct error err;

static void assert_same_file(const char *a, const char *b, const char *name) {
    struct buffer x = support_read(support_in(a, name)),
                  y = support_read(support_in(b, name));
    if (x.length != y.length || memcmp(x.data, y.data, x.length))
        fail_msg("%s differs between %s and %s", name, a, b);
    buffer_free(&x);
    buffer_free(&y);
}

static void assert_same_run(const char *a, const char *b) {
    static const char *const names[] = {
        "model.safetensors",
        "config.json",
        "trainer_state.json",
        "metrics.jsonl",
        "checkpoint-40/model.safetensors",
        "checkpoint-40/optimizer.safetensors",
        "checkpoint-40/trainer_state.json",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_same_file(a, b, names[i]);
}

/* The whole run, uninterrupted. */
static const char *reference(void) {
    static const char *output;
    if (!output) {
        struct fake_job f;
        output = support_new_path();
        fake_job_open(&f, output);
        SUPPORT_OK(fake_job_run(&f, &err), err);
        fake_job_close(&f);
    }
    return output;
}

static void a_run_leaves_model_state_logs_and_two_checkpoints(void **state) {
    (void)state;
    const char *output = reference();
    assert_true(file_exists(support_in(output, "model.safetensors")));
    assert_true(file_exists(support_in(output, "checkpoint-40/optimizer.safetensors")));
    assert_true(file_exists(support_in(output, "checkpoint-35")));
    assert_false(file_exists(support_in(output, "checkpoint-30")));
    json_t *trained;
    SUPPORT_OK(json_file_read(&trained, support_in(output, "trainer_state.json"), &err),
               err);
    assert_int_equal(json_integer_value(json_object_get(trained, "global_step")), 40);
    json_t *history = json_object_get(trained, "log_history");
    assert_int_equal(json_array_size(history), 14 + 4); /* every 3, the last; every 10 */
    json_t *first = json_array_get(history, 0);
    assert_int_equal(json_integer_value(json_object_get(first, "step")), 3);
    assert_int_equal(json_integer_value(json_object_get(first, "num_input_tokens_seen")),
                     120);
    json_decref(trained);
}

/* One update by hand: the summed gradients of both micro-batches over all their targets,
 * clipped, then Adam's first step: the sign of the gradient times the rate. */
static void a_step_is_the_mean_over_all_micro_batches(void **state) {
    (void)state;
    struct fake_job split, whole;
    fake_job_open(&split, support_new_path());
    fake_job_open(&whole, support_new_path());
    split.options.max_steps = whole.options.max_steps = 1;
    split.options.max_grad_norm = whole.options.max_grad_norm = 0;
    split.targets[0] = 5, split.targets[1] = 0;
    whole.options.accumulation = 1;
    whole.targets[0] =
        1; /* gradients are sums: a fifth of them over a fifth of targets */
    SUPPORT_OK(fake_job_run(&split, &err), err);
    SUPPORT_OK(fake_job_run(&whole, &err), err);
    assert_true(fabs(split.result.train_loss - whole.result.train_loss) < 1e-6);
    for (int r = 0; r < split.parameters.count; r++)
        for (size_t i = 0; i < split.parameters.rows[r]->count; i++)
            assert_true(fabsf(split.parameters.rows[r]->value[i] -
                              whole.parameters.rows[r]->value[i]) < 1e-6f);
    fake_job_close(&split);
    fake_job_close(&whole);
}

static void clipping_bounds_the_gradient(void **state) {
    (void)state;
    struct fake_job f;
    fake_job_open(&f, support_new_path());
    f.options.max_steps = 1;
    f.options.max_grad_norm = 1e-3;
    f.options.adamw.epsilon = 1; /* so that the size of a gradient matters */
    float before = f.parameters.rows[0]->value[0];
    SUPPORT_OK(fake_job_run(&f, &err), err);
    float moved = fabsf(f.parameters.rows[0]->value[0] - before);
    assert_true(moved > 0 && moved < 0.0125f * 1.1e-3f);
    fake_job_close(&f);
}

static void a_step_without_targets_changes_nothing(void **state) {
    (void)state;
    struct fake_job f;
    fake_job_open(&f, support_new_path());
    float before = f.parameters.rows[0]->value[0];
    f.targets[0] = f.targets[1] = 0;
    SUPPORT_OK(fake_job_run(&f, &err), err);
    assert_true(f.parameters.rows[0]->value[0] == before);
    assert_int_equal(f.result.step, 40);
    struct buffer log = support_read(support_in(f.options.output, "metrics.jsonl"));
    assert_non_null(strstr(log.data, "\"loss\": null"));
    assert_null(strstr(log.data, "nan"));
    buffer_free(&log);
    fake_job_close(&f);
}

static double u_shape(int64_t step) { return fabs((double)step - 20); }
static double falls_to_nan(int64_t step) { return step >= 30 ? NAN : (double)-step; }
static double always_nan(int64_t step) { return step ? NAN : 0; }

static void the_best_evaluation_is_kept_and_becomes_the_model(void **state) {
    (void)state;
    static const struct {
        double (*score)(int64_t);
        bool higher;
        int64_t best;
    } rows[] = {{u_shape, false, 20},
                {u_shape, true, 40},
                {falls_to_nan, false, 20},
                {always_nan, false, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fake_job f;
        fake_job_open(&f, support_new_path());
        f.score = rows[i].score;
        f.options.keep_best = true;
        f.options.higher_is_better = rows[i].higher;
        SUPPORT_OK(fake_job_run(&f, &err), err);
        assert_int_equal(f.result.best_step, rows[i].best);
        char best[64];
        snprintf(best, sizeof best, "checkpoint-%lld/model.safetensors",
                 (long long)(rows[i].best ? rows[i].best : 40));
        struct buffer a = support_read(support_in(f.options.output, best)),
                      b = support_read(support_in(f.options.output, "model.safetensors"));
        assert_int_equal(a.length, b.length);
        assert_memory_equal(a.data, b.data, a.length);
        buffer_free(&a);
        buffer_free(&b);
        assert_true(file_exists(support_in(f.options.output, "checkpoint-35")));
        fake_job_close(&f);
    }
}

static void a_used_folder_needs_resume_or_overwrite(void **state) {
    (void)state;
    struct fake_job f;
    const char *output = support_new_path();
    SUPPORT_OK(file_make_directory(output, &err), err);
    SUPPORT_OK(file_write(support_in(output, "letter.txt"), "dear", 4, &err), err);
    fake_job_open(&f, output);
    f.options.max_steps = 5;
    assert_int_equal(fake_job_run(&f, &err), ERR_USAGE);
    support_assert_error(&err, ERR_USAGE,
                         "*not empty (it holds letter.txt)*--overwrite*");
    f.options.resume = "auto";
    assert_int_equal(trainer_check_output(&f.options, &err), ERR_USAGE);
    f.options.overwrite = true;
    SUPPORT_OK(fake_job_run(&f, &err), err);
    assert_true(file_exists(support_in(output, "letter.txt")));
    f.options.overwrite = false;
    SUPPORT_OK(trainer_check_output(&f.options, &err), err);
    f.options.resume = "never";
    assert_int_equal(trainer_check_output(&f.options, &err), ERR_USAGE);
    support_assert_error(&err, ERR_USAGE, "*--resume auto to go on*");
    f.options.output = support_in(output, "letter.txt");
    assert_int_equal(trainer_check_output(&f.options, &err), ERR_USAGE);
    support_assert_error(&err, ERR_USAGE, "*expected a folder for the output, found *");
    fake_job_close(&f);
}

static void overwriting_removes_the_older_run_and_nothing_else(void **state) {
    (void)state;
    struct fake_job f;
    const char *output = support_new_path();
    fake_job_open(&f, output);
    SUPPORT_OK(fake_job_run(&f, &err), err);
    fake_job_close(&f);
    SUPPORT_OK(file_write(support_in(output, "notes.md"), "mine", 4, &err), err);
    SUPPORT_OK(file_make_directory(support_in(output, "checkpoint-7"), &err), err);
    fake_job_open(&f, output);
    f.options.overwrite = true;
    f.poison.step = 3; /* ends before anything new is saved */
    f.poison.what = POISON_LOSS;
    assert_int_equal(fake_job_run(&f, &err), ERR_NONFINITE);
    assert_true(file_exists(support_in(output, "notes.md")));
    assert_true(file_exists(support_in(output, "checkpoint-7"))); /* not one of ours */
    assert_false(file_exists(support_in(output, "checkpoint-40")));
    assert_false(file_exists(support_in(output, "model.safetensors")));
    fake_job_close(&f);
}

static void leftovers_of_an_early_end_are_no_obstacle(void **state) {
    (void)state;
    struct fake_job f;
    const char *output = support_new_path();
    json_t *options = json_pack("{s:i}", "max_steps", 40);
    fake_job_open(&f, output);
    f.job.run_config = options;
    f.poison.step = 1;
    f.poison.what = POISON_LOSS;
    assert_int_equal(fake_job_run(&f, &err), ERR_NONFINITE);
    assert_true(file_exists(support_in(output, "run_config.json")));
    SUPPORT_OK(
        file_make_directory(support_in(output, ".tmp-checkpoint-5.999999999"), &err),
        err);
    f.poison.what = POISON_NOTHING;
    f.options.resume = "auto";
    SUPPORT_OK(fake_job_run(&f, &err), err);
    assert_false(file_exists(support_in(output, ".tmp-checkpoint-5.999999999")));
    assert_same_run(reference(), output);
    json_decref(options);
    fake_job_close(&f);
}

static void a_run_that_had_ended_gives_its_result_again(void **state) {
    (void)state;
    struct fake_job a, b;
    const char *output = support_new_path();
    fake_job_open(&a, output);
    SUPPORT_OK(fake_job_run(&a, &err), err);
    fake_job_open(&b, output);
    b.options.resume = "auto";
    SUPPORT_OK(fake_job_run(&b, &err), err);
    assert_non_null(strstr(b.told, "resuming from"));
    assert_true(a.result.train_loss == b.result.train_loss);
    assert_memory_equal(&a.result.best, &b.result.best, sizeof a.result.best);
    assert_memory_equal(&a.result.last, &b.result.last, sizeof a.result.last);
    assert_same_run(reference(), output);
    fake_job_close(&a);
    fake_job_close(&b);
}

static void another_fingerprint_is_incompatible(void **state) {
    (void)state;
    struct fake_job f;
    const char *output = support_new_path();
    fake_job_open(&f, output);
    SUPPORT_OK(fake_job_run(&f, &err), err);
    f.options.resume = "auto";
    f.job.fingerprint = "fake-2";
    assert_int_equal(fake_job_run(&f, &err), ERR_INCOMPATIBLE);
    support_assert_error(
        &err, ERR_INCOMPATIBLE,
        "*made with other data, model or options (fingerprint fake-1, now "
        "fake-2)*");
    fake_job_close(&f);
}

static void a_folder_in_use_is_left_alone(void **state) {
    (void)state;
    struct fake_job f;
    const char *output = support_new_path();
    SUPPORT_OK(file_make_directory(output, &err), err);
    int other = open(output, O_RDONLY);
    assert_int_equal(flock(other, LOCK_EX), 0);
    fake_job_open(&f, output);
    assert_int_equal(fake_job_run(&f, &err), ERR_FAILED);
    support_assert_error(&err, ERR_FAILED, "*: another training is using this folder");
    close(other);
    SUPPORT_OK(fake_job_run(&f, &err), err);
    fake_job_close(&f);
}

static void a_signal_saves_and_the_rest_is_bit_identical(void **state) {
    (void)state;
    static const struct {
        int signal;
        int64_t step;
        enum status status;
    } rows[] = {{SIGTERM, 7, STOPPED_SIGTERM},
                {SIGINT, 20, STOPPED_SIGINT},
                {SIGTERM, 1, STOPPED_SIGTERM},
                {SIGINT, 40, OK}, /* it came when all was done */
                {SIGUSR1, 13, OK}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fake_job f;
        const char *output = support_new_path();
        interrupt_install();
        fake_job_open(&f, output);
        f.signal = rows[i].signal;
        f.signal_step = rows[i].step;
        assert_int_equal(fake_job_run(&f, &err), rows[i].status);
        fake_job_close(&f);
        interrupt_install(); /* forgets the signal */
        fake_job_open(&f, output);
        f.options.resume = "auto";
        SUPPORT_OK(fake_job_run(&f, &err), err);
        assert_same_run(reference(), output);
        fake_job_close(&f);
    }
}

static void a_given_checkpoint_is_resumed_here_and_elsewhere(void **state) {
    (void)state;
    struct fake_job f;
    const char *first = support_new_path(), *second = support_new_path();
    fake_job_open(&f, first);
    f.options.keep_checkpoints = 10;
    SUPPORT_OK(fake_job_run(&f, &err), err);
    fake_job_close(&f);
    char beginning[PATH_BYTES];
    strcpy(beginning, support_in(first, "checkpoint-15"));
    fake_job_open(&f, first);
    f.options.keep_checkpoints = 10;
    f.options.resume = beginning;
    SUPPORT_OK(fake_job_run(&f, &err), err);
    assert_same_run(reference(), first);
    fake_job_close(&f);
    fake_job_open(&f, second);
    f.options.resume = beginning;
    SUPPORT_OK(fake_job_run(&f, &err), err);
    assert_same_file(first, second, "model.safetensors");
    fake_job_close(&f);
}

static void a_nan_stops_before_it_does_harm(void **state) {
    (void)state;
    static const struct {
        int what;
        const char *sentence;
    } rows[] = {
        {POISON_LOSS, "step 12: the loss is *nan: stopped before the update"},
        {POISON_GRADIENT,
         "step 12: the gradient's norm is *nan (first in gradient of roberta.a.bias): *"},
        {POISON_WEIGHT, "step 12: *nan (first in weight roberta.a.bias): *"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fake_job f;
        char path[PATH_BYTES];
        fake_job_open(&f, support_new_path());
        f.poison.step = 12;
        f.poison.what = rows[i].what;
        assert_int_equal(fake_job_run(&f, &err), ERR_NONFINITE);
        support_assert_error(&err, ERR_NONFINITE, rows[i].sentence);
        assert_false(file_exists(support_in(f.options.output, "model.safetensors")));
        SUPPORT_OK(checkpoint_newest(f.options.output, path, NULL, &err), err);
        assert_string_equal(path, support_in(f.options.output, "checkpoint-10"));
        fake_job_close(&f);
        fake_job_open(&f, f.options.output);
        f.options.resume = "auto";
        SUPPORT_OK(fake_job_run(&f, &err), err);
        assert_same_run(reference(), f.options.output);
        fake_job_close(&f);
    }
}

static void progress_and_direction_are_told(void **state) {
    (void)state;
    struct fake_job f;
    fake_job_open(&f, support_new_path());
    SUPPORT_OK(fake_job_run(&f, &err), err);
    assert_non_null(strstr(f.told, "step 3/40  loss "));
    assert_non_null(strstr(f.told, "step 10/40  eval_loss "));
    assert_non_null(strstr(f.told, "(lowest eval_loss so far)"));
    fake_job_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_leaves_model_state_logs_and_two_checkpoints),
        cmocka_unit_test(a_step_is_the_mean_over_all_micro_batches),
        cmocka_unit_test(clipping_bounds_the_gradient),
        cmocka_unit_test(a_step_without_targets_changes_nothing),
        cmocka_unit_test(the_best_evaluation_is_kept_and_becomes_the_model),
        cmocka_unit_test(a_used_folder_needs_resume_or_overwrite),
        cmocka_unit_test(overwriting_removes_the_older_run_and_nothing_else),
        cmocka_unit_test(leftovers_of_an_early_end_are_no_obstacle),
        cmocka_unit_test(a_run_that_had_ended_gives_its_result_again),
        cmocka_unit_test(another_fingerprint_is_incompatible),
        cmocka_unit_test(a_folder_in_use_is_left_alone),
        cmocka_unit_test(a_signal_saves_and_the_rest_is_bit_identical),
        cmocka_unit_test(a_given_checkpoint_is_resumed_here_and_elsewhere),
        cmocka_unit_test(a_nan_stops_before_it_does_harm),
        cmocka_unit_test(progress_and_direction_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
