/* test_finetune_cases - labels, warnings, bad input and the command of fine-tuning. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "encoder/config.h"
#include "finetune/finetune.h"
#include "tests/capture.h"
#include "tests/letters.h"
#include "tests/support.h"
#include "tests/tiny_model.h"

/* Case E01: a head is kept by its labels' names, whatever their order and case. */
static void a_head_with_the_same_label_names_is_kept(void **state) {
    (void)state;
    const struct letters_course course = {0};
    struct finetune_result first, again;
    struct letters_heard learning = {0}, heard = {0};
    struct error err;
    static const char *const swapped[] = {"LATE", "Early"};
    const char *words[] = {"--learning-rate", "0", "--max-steps", "1", NULL};
    struct task task = letters_task(&course);
    const char *output = support_path("kept");
    SUPPORT_OK(letters_run(letters_model(), output, task, &first, &learning, &err, NULL),
               err);
    /* The same rows under a task whose ids are the other way round: the labels of the
     * rows do not change sides, so every prediction is wrong. */
    task.labels = swapped;
    SUPPORT_OK(
        letters_run(output, support_path("swapped"), task, &again, &heard, &err, words),
        err);
    assert_null(strstr(heard.text, "starts new"));
    assert_true(fabs(again.splits[0].score.combined -
                     (1 - first.splits[0].score.combined)) < 1e-12);
    struct config config;
    SUPPORT_OK(config_read(&config, support_path("swapped"), &err), err);
    assert_string_equal(config.labels[0].name, "early");
}

static void a_head_with_other_labels_starts_new_with_a_line(void **state) {
    (void)state;
    static const struct {
        const char *name;
        struct tiny_model model;
    } cases[] = {{"three", {.labels = {"yes", "maybe", "no"}, .seed = 5}},
                 {"other", {.labels = {"yes", "no"}, .seed = 5}},
                 {"numbered", {.labels = {"LABEL_0", "LABEL_1"}, .seed = 5}}};
    const struct letters_course course = {0};
    const char *words[] = {"--max-steps", "1", NULL};
    struct error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct finetune_result r;
        struct letters_heard heard = {0};
        char output[64];
        const char *model = tiny_model(cases[i].name, cases[i].model);
        snprintf(output, sizeof output, "new-%s", cases[i].name);
        SUPPORT_OK(letters_run(model, support_path(output), letters_task(&course), &r,
                               &heard, &err, words),
                   err);
        assert_non_null(strstr(heard.text,
                               "not those of letters (early, late): it starts "
                               "new"));
    }
}

/* Case E07. */
static void one_predicted_class_is_warned_of_once(void **state) {
    (void)state;
    const struct letters_course course = {.one_class = true};
    const char *words[] = {"--max-steps", "4", "--eval-steps", "1", NULL};
    struct finetune_result r;
    struct letters_heard heard = {0};
    struct error err;
    SUPPORT_OK(letters_run(letters_model(), support_path("one"), letters_task(&course),
                           &r, &heard, &err, words),
               err);
    const char *at = strstr(heard.text, "every prediction of dev is 'late'");
    assert_non_null(at);
    assert_null(strstr(at + 1, "every prediction"));
    assert_true(r.splits[0].score.one_class_predicted);
}

/* Case E02. */
static void texts_beyond_the_position_table_are_cut(void **state) {
    (void)state;
    const struct letters_course course = {.long_text = 90};
    const char *words[] = {"--max-steps", "1", NULL};
    struct finetune_result r;
    struct letters_heard heard = {0};
    struct error err;
    SUPPORT_OK(letters_run(letters_model(), support_path("long"), letters_task(&course),
                           &r, &heard, &err, words),
               err);
    assert_non_null(strstr(heard.text,
                           "max-seq-length 128 is more than the model's "
                           "position table holds: 64 is used"));
    assert_non_null(
        strstr(heard.text, "train: 90 of 90 sequences fill max-seq-length 64"));
}

static void bad_input_gets_one_sentence(void **state) {
    (void)state;
    static const struct {
        struct letters_course course;
        struct tiny_model model;
        const char *sentence;
    } cases[] = {
        {{.unlabelled = true}, {.seed = 5}, "train: no labels in this file"},
        {{.empty = true}, {.seed = 5}, "train: no rows in this file"},
        {{0},
         {.seed = 5, .vocab_size = 200},
         "the tokenizer has ids up to 260, but config.json says vocab_size 200"},
        {{0},
         {.seed = 5, .max_position_embeddings = 5},
         "config.json: max_position_embeddings 5 leaves 3 tokens a sequence, expected at "
         "least 5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct finetune_result r;
        struct letters_heard heard = {0};
        struct error err;
        char name[32];
        snprintf(name, sizeof name, "bad-%zu", i);
        const char *model = tiny_model(name, cases[i].model);
        const char *output = support_path("nothing");
        assert_int_equal(letters_run(model, output, letters_task(&cases[i].course), &r,
                                     &heard, &err, NULL),
                         ERR_INPUT);
        if (!strstr(err.text, cases[i].sentence))
            fail_msg("expected '%s', found '%s'", cases[i].sentence, err.text);
        assert_false(file_exists(output));
    }
}

/* Case G03: nothing of the user's is touched, and nothing is loaded first. */
static void a_used_output_folder_is_refused_before_any_work(void **state) {
    (void)state;
    int scored = 0;
    const struct letters_course course = {.fail_at = 1, .scored = &scored};
    struct finetune_result r;
    struct letters_heard heard = {0};
    struct error err;
    support_write("used/thesis.txt", "mine");
    assert_int_equal(letters_run(letters_model(), support_path("used"),
                                 letters_task(&course), &r, &heard, &err, NULL),
                     ERR_USAGE);
    assert_int_equal(scored, 0);
    struct buffer text = support_read(support_path("used/thesis.txt"));
    assert_string_equal(text.data, "mine");
    buffer_free(&text);
}

static int finetune_letters(int argc, char **argv) {
    static const struct letters_course course = {0};
    const struct task task = letters_task(&course);
    const struct task *const items[] = {&task};
    return finetune_command(argc, argv, (struct task_list){items, 1});
}

static void the_command_prints_the_scores_as_a_table(void **state) {
    (void)state;
    const char *output = support_path("table"), *model = letters_model();
    const char *words[] = {"--model",   model,      "--task", "letters", "--data",
                           "-",         "--output", output,   "--seed",  "1",
                           "--threads", "2",        NULL};
    struct captured c = capture(finetune_letters, "", words);
    if (c.code != 0)
        fail_msg("%s", c.err.data);
    double accuracy, majority;
    int rows, step, read = 0;
    assert_int_equal(sscanf(c.out.data,
                            "split rows accuracy majority accuracy best step\n"
                            "dev %d %lf %lf %d\n%n",
                            &rows, &accuracy, &majority, &step, &read),
                     4);
    assert_int_equal(read, strlen(c.out.data));
    assert_int_equal(rows, LETTERS_DEV_ROWS);
    assert_true(accuracy > 0.95 && majority == 0.6875 && step % 12 == 0);
    captured_free(&c);
}

static void the_command_refuses_with_one_sentence(void **state) {
    (void)state;
    char output[PATH_BYTES];
    const char *model = letters_model();
    strcpy(output, support_path("refused")); /* it must outlive what capture makes */
    const struct {
        const char *words[12];
        int code;
        const char *sentence;
    } cases[] = {
        {{"--model", model, "--task", "leters", "--data", "-", "--output", output, NULL},
         2,
         "no task 'leters', did you mean 'letters'; the tasks are: letters"},
        {{"--model", model, "--task", "letters", "--data", "-", NULL}, 2, "--output"},
        {{"--learning_rat", "1", NULL}, 2, "--learning-rate"},
        {{"--model", "/nowhere", "--task", "letters", "--data", "-", "--output", output,
          NULL},
         3,
         "/nowhere"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct captured c = capture(finetune_letters, "", cases[i].words);
        assert_int_equal(c.code, cases[i].code);
        assert_string_equal(c.out.data, "");
        if (!strstr(c.err.data, cases[i].sentence))
            fail_msg("expected '%s', found '%s'", cases[i].sentence, c.err.data);
        captured_free(&c);
        assert_false(file_exists(output));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_with_the_same_label_names_is_kept),
        cmocka_unit_test(a_head_with_other_labels_starts_new_with_a_line),
        cmocka_unit_test(one_predicted_class_is_warned_of_once),
        cmocka_unit_test(texts_beyond_the_position_table_are_cut),
        cmocka_unit_test(bad_input_gets_one_sentence),
        cmocka_unit_test(a_used_output_folder_is_refused_before_any_work),
        cmocka_unit_test(the_command_prints_the_scores_as_a_table),
        cmocka_unit_test(the_command_refuses_with_one_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
