/* test_checkpoint - saving, finding and verifying checkpoints. */
#include "encoder/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_file.h"
#include "tests/capture.h"
#include "tests/fake_job.h"
#include "tests/support.h"

static struct error err;

static void save(struct fake_job *f, const char *output, int64_t step, int64_t best) {
    json_t *state = json_pack("{s:I}", "global_step", (json_int_t)step);
    f->parameters.rows[0]->value[0] = (float)step;
    f->parameters.rows[0]->exp_avg[1] = 2;
    f->parameters.rows[1]->exp_avg_sq[2] = 3;
    SUPPORT_OK(checkpoint_save(output, step, &f->parameters, state, f->job.writer, 2,
                               best, &err),
               err);
    json_decref(state);
}

static void a_checkpoint_gives_back_weights_moments_and_state(void **unused) {
    (void)unused;
    struct fake_job a, b;
    json_t *state;
    fake_job_open(&a, support_new_path());
    fake_job_open(&b, a.options.output);
    save(&a, a.options.output, 7, -1);
    for (int r = 0; r < b.parameters.count; r++)
        memset(b.parameters.rows[r]->value, 0,
               b.parameters.rows[r]->count * sizeof(float));
    SUPPORT_OK(checkpoint_load(support_in(a.options.output, "checkpoint-7"),
                               &b.parameters, &state, &err),
               err);
    assert_int_equal(json_integer_value(json_object_get(state, "global_step")), 7);
    for (int r = 0; r < b.parameters.count; r++) {
        const struct parameter *x = a.parameters.rows[r], *y = b.parameters.rows[r];
        assert_memory_equal(x->value, y->value, x->count * sizeof(float));
        assert_memory_equal(x->exp_avg, y->exp_avg, x->count * sizeof(float));
        assert_memory_equal(x->exp_avg_sq, y->exp_avg_sq, x->count * sizeof(float));
    }
    json_decref(state);
    fake_job_close(&a);
    fake_job_close(&b);
}

static bool has(const char *output, int64_t step) {
    char name[32];
    snprintf(name, sizeof name, "checkpoint-%lld", (long long)step);
    return file_exists(support_in(output, name));
}

static void the_newest_and_the_best_are_kept(void **unused) {
    (void)unused;
    struct fake_job f;
    const char *output = support_new_path();
    fake_job_open(&f, output);
    for (int64_t step = 1; step <= 12; step++)
        save(&f, output, step, 3);
    for (int64_t step = 1; step <= 12; step++)
        assert_int_equal(has(output, step), step == 3 || step >= 11);
    fake_job_close(&f);
}

/* Flips a bit of a file in place. */
static void flip(const char *path, long byte, int bit) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, byte, SEEK_SET);
    int c = fgetc(file);
    fseek(file, byte, SEEK_SET);
    fputc(c ^ 1 << bit, file);
    fclose(file);
}

static const char *const files[] = {"config.json", "model.safetensors",
                                    "optimizer.safetensors", "trainer_state.json",
                                    "checkpoint.json"};
enum { NUM_FILES = sizeof files / sizeof *files };

static void every_flipped_bit_of_a_checkpoint_is_seen(void **unused) {
    (void)unused;
    struct fake_job f;
    const char *output = support_new_path();
    fake_job_open(&f, output);
    save(&f, output, 1, -1);
    char directory[PATH_BYTES];
    strcpy(directory, support_in(output, "checkpoint-1"));
    long flips = 0;
    for (int i = 0; i < NUM_FILES; i++) {
        const char *path = support_in(directory, files[i]);
        struct buffer text = support_read(path);
        for (size_t byte = 0; byte < text.length; byte++, flips++) {
            flip(path, (long)byte, (int)(byte % 8));
            if (checkpoint_verify(directory, &err) != ERR_INCOMPATIBLE)
                fail_msg("%s: a flip of byte %zu is not seen", files[i], byte);
            flip(path, (long)byte, (int)(byte % 8));
        }
        buffer_free(&text);
    }
    print_message("%ld flips\n", flips);
    SUPPORT_OK(checkpoint_verify(directory, &err), err);
    fake_job_close(&f);
}

static void every_cut_of_a_checkpoint_is_seen(void **unused) {
    (void)unused;
    struct fake_job f;
    const char *output = support_new_path();
    fake_job_open(&f, output);
    save(&f, output, 1, -1);
    char directory[PATH_BYTES];
    strcpy(directory, support_in(output, "checkpoint-1"));
    for (int i = 0; i < NUM_FILES; i++) {
        const char *path = support_in(directory, files[i]);
        struct buffer text = support_read(path);
        for (size_t length = text.length; length-- > 0;) {
            assert_int_equal(truncate(path, (off_t)length), 0);
            if (checkpoint_verify(directory, &err) != ERR_INCOMPATIBLE)
                fail_msg("%s: cut to %zu bytes unseen", files[i], length);
        }
        unlink(path);
        assert_int_equal(checkpoint_verify(directory, &err), ERR_INCOMPATIBLE);
        SUPPORT_OK(file_write(path, text.data, text.length, &err), err);
        buffer_free(&text);
    }
    SUPPORT_OK(checkpoint_verify(directory, &err), err);
    fake_job_close(&f);
}

/* Zeros in the middle, as a file system may leave them after a power loss; files of
 * another checkpoint; a folder, a FIFO, a loop of links. */
static void stranger_damage_is_seen_too(void **unused) {
    (void)unused;
    static const char *const damages[] = {
        "dd if=/dev/zero of=checkpoint-2/model.safetensors bs=1 seek=600 count=64 "
        "conv=notrunc",
        "cp checkpoint-1/model.safetensors checkpoint-2/",
        "cp checkpoint-1/checkpoint.json checkpoint-2/",
        ": > checkpoint-2/optimizer.safetensors",
        "cd checkpoint-2 && rm config.json && mkdir config.json",
        "cd checkpoint-2 && rm config.json && mkfifo config.json",
        "cd checkpoint-2 && rm config.json && ln -s config.json config.json",
        "cd checkpoint-2 && rm checkpoint.json && mkfifo checkpoint.json",
    };
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        struct fake_job f;
        char command[PATH_BYTES + 256], path[PATH_BYTES];
        const char *output = support_new_path();
        fake_job_open(&f, output);
        save(&f, output, 1, -1);
        save(&f, output, 2, -1);
        snprintf(command, sizeof command, "cd %s && (%s) 2> log", output, damages[i]);
        assert_int_equal(support_run(command, NULL, NULL), 0);
        SUPPORT_OK(checkpoint_newest(output, path, &f.notices, &err), err);
        assert_string_equal(path, support_in(output, "checkpoint-1"));
        assert_non_null(strstr(f.told, "skipping "));
        assert_true(has(output, 2)); /* damaged ones are never deleted */
        fake_job_close(&f);
    }
}

static void a_damaged_checkpoint_is_set_aside_by_its_successor(void **unused) {
    (void)unused;
    struct fake_job f;
    const char *output = support_new_path();
    fake_job_open(&f, output);
    save(&f, output, 1, -1);
    flip(support_in(output, "checkpoint-1/model.safetensors"), 700, 1);
    for (int64_t step = 1; step <= 4; step++)
        save(&f, output, step, -1);
    assert_true(
        file_exists(support_in(output, "checkpoint-1.damaged/model.safetensors")));
    assert_false(has(output, 1));
    save(&f, output, 4, -1); /* a sound one is simply replaced */
    assert_false(file_exists(support_in(output, "checkpoint-4.damaged")));
    SUPPORT_OK(checkpoint_verify(support_in(output, "checkpoint-4"), &err), err);
    fake_job_close(&f);
}

static void a_weight_that_is_not_finite_is_not_saved(void **unused) {
    (void)unused;
    struct fake_job f;
    const char *output = support_new_path();
    fake_job_open(&f, output);
    save(&f, output, 1, -1);
    f.parameters.rows[1]->value[4] = 1.0f / 0.0f;
    json_t *state = json_object();
    assert_int_equal(
        checkpoint_save(output, 2, &f.parameters, state, f.job.writer, 2, -1, &err),
        ERR_NONFINITE);
    support_assert_error(&err, ERR_NONFINITE, "roberta.a.bias: element 4 is inf: *");
    assert_true(has(output, 1) && !has(output, 2));
    json_decref(state);
    fake_job_close(&f);
}

static void a_model_is_found_in_a_training_that_has_not_ended(void **unused) {
    (void)unused;
    struct fake_job f;
    char path[PATH_BYTES];
    const char *output = support_new_path();
    fake_job_open(&f, output);
    assert_int_equal(checkpoint_resolve_model(output, path, &f.notices, &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "*expected a model directory, found nothing");
    save(&f, output, 1, -1);
    SUPPORT_OK(checkpoint_resolve_model(output, path, &f.notices, &err), err);
    assert_string_equal(path, support_in(output, "checkpoint-1"));
    assert_non_null(strstr(f.told, "training has not ended, using "));
    SUPPORT_OK(checkpoint_save_model(output, &f.parameters, f.job.writer, &err), err);
    SUPPORT_OK(checkpoint_resolve_model(output, path, &f.notices, &err), err);
    assert_string_equal(path, output);
    fake_job_close(&f);
}

static void the_command_inspects_verifies_and_exports(void **unused) {
    (void)unused;
    struct fake_job f;
    const char *output = support_new_path(), *target = support_new_path();
    fake_job_open(&f, output);
    save(&f, output, 5, -1);
    save(&f, output, 6, -1);
    struct captured c =
        capture(checkpoint_command, "",
                (const char *[]){"inspect", "--format", "json", output, NULL});
    assert_int_equal(c.code, 0);
    assert_non_null(strstr(c.out.data, "\"name\": \"roberta.a.weight\""));
    assert_non_null(strstr(c.out.data, "\"global_step\": 6"));
    assert_non_null(strstr(c.err.data, "training has not ended"));
    captured_free(&c);
    c = capture(checkpoint_command, "",
                (const char *[]){"export", output, "--output", target, NULL});
    assert_int_equal(c.code, 0);
    assert_true(file_exists(support_in(target, "model.safetensors")));
    assert_false(file_exists(support_in(target, "optimizer.safetensors")));
    captured_free(&c);
    c = capture(checkpoint_command, "",
                (const char *[]){"export", output, "--output", target, NULL});
    assert_int_equal(c.code, ERR_USAGE);
    captured_free(&c);
    flip(support_in(output, "checkpoint-6/config.json"), 3, 3);
    c = capture(checkpoint_command, "", (const char *[]){"verify", output, NULL});
    assert_int_equal(c.code, ERR_INCOMPATIBLE);
    assert_non_null(strstr(c.out.data, "damaged "));
    assert_non_null(strstr(c.out.data, "ok "));
    captured_free(&c);
    fake_job_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_gives_back_weights_moments_and_state),
        cmocka_unit_test(the_newest_and_the_best_are_kept),
        cmocka_unit_test(every_flipped_bit_of_a_checkpoint_is_seen),
        cmocka_unit_test(every_cut_of_a_checkpoint_is_seen),
        cmocka_unit_test(stranger_damage_is_seen_too),
        cmocka_unit_test(a_damaged_checkpoint_is_set_aside_by_its_successor),
        cmocka_unit_test(a_weight_that_is_not_finite_is_not_saved),
        cmocka_unit_test(a_model_is_found_in_a_training_that_has_not_ended),
        cmocka_unit_test(the_command_inspects_verifies_and_exports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
