/* test_glue_command - normglue glue run and table, from the command line to the files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "encoder/manifest.h"
#include "glue/glue.h"
#include "tests/capture.h"
#include "tests/support.h"
#include "tests/tiny_model.h"

enum { MOST_WORDS = 48 };

static struct captured glue(const char *const *words) {
    return capture(glue_command, "", words);
}

static void assert_has(struct buffer text, const char *part) {
    if (!text.data || !strstr(text.data, part))
        fail_msg("'%s' is not in:\n%s", part, text.data ? text.data : "");
}

static void assert_has_not(struct buffer text, const char *part) {
    if (text.data && strstr(text.data, part))
        fail_msg("'%s' is in:\n%s", part, text.data);
}

static void wrong_usage_is_explained(void **state) {
    (void)state;
    static const struct {
        const char *words[MOST_WORDS];
        const char *sentence;
    } rows[] = {
        {{NULL}, "normglue glue: expected a subcommand, found nothing"},
        {{"tabel", NULL}, "did you mean 'table'?"},
        {{"table", NULL}, "normglue glue table: expected a folder of scores, found none"},
        {{"table", "x", "--format", "html", NULL}, "plain|markdown|tsv|json"},
        {{"table", "x", "--formt", "tsv", NULL}, "did you mean '--format'"},
        {{"run", "--data", "d", "--output", "o", NULL}, "--model"},
        {{"run", "--model", "m", "--data", "d", "--output", "o", "--tasks", "rte,col",
          NULL},
         "no task 'col', did you mean 'cola'"},
        {{"run", "--model", "m", "--data", "d", "--output", "o", "--tasks", ",", NULL},
         "--tasks: expected 'all' or names with commas between them, found ','"},
        {{"run", "--model", "m", "--data", "d", "--output", "o", "--seed-list", "1,x",
          NULL},
         "--seed-list: expected whole numbers from 0 to 4294967295 with commas between "
         "them, found 'x'"},
        {{"run", "--model", "m", "--data", "d", "--output", "o", "--seed-list",
          "4294967296", NULL},
         "found '4294967296'"},
        {{"run", "--model", "m", "--data", "d", "--output", "o", "--seeds", "0", NULL},
         "--seeds"},
        {{"run", "--model", "m", "--data", "d", "--output", "o", "--resume", "auto",
          NULL},
         "unknown option '--resume'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct captured c = glue(rows[i].words);
        assert_has(c.err, rows[i].sentence);
        assert_int_equal(c.code, ERR_USAGE);
        assert_int_equal(c.out.length, 0);
        captured_free(&c);
    }
}

static void help_lists_the_fine_tuning_options(void **state) {
    (void)state;
    struct captured c = glue((const char *[]){"run", "--help", NULL});
    static const char *const options[] = {
        "--tasks", "--seeds",          "--seed-list",     "--learning-rate",
        "--model", "--discard-models", "--max-seq-length"};
    assert_int_equal(c.code, OK);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        assert_has(c.out, options[i]);
    assert_has_not(c.out, "--task ");
    assert_has_not(c.out, "--resume");
    captured_free(&c);
    c = glue((const char *[]){"--help", NULL});
    assert_has(c.out, "table");
    assert_int_equal(c.code, OK);
    captured_free(&c);
}

static void bad_input_has_code_3(void **state) {
    (void)state;
    struct captured c = glue((const char *[]){"table", "no/such/folder", NULL});
    assert_int_equal(c.code, ERR_INPUT);
    assert_has(c.err, "no/such/folder: expected a folder of scores, found no folder");
    captured_free(&c);
    c = glue((const char *[]){"run", "--model", "m", "--data", "no/such", "--output",
                              support_path("o"), NULL});
    assert_int_equal(c.code, ERR_INPUT);
    assert_has(c.err, "no/such: expected the GLUE folder, found no folder");
    assert_int_equal(c.out.length, 0);
    assert_false(file_exists(support_path("o")));
    captured_free(&c);
}

/* Invented rows of RTE and WNLI; the label follows the first word. */
static void write_task(const char *folder, const char *split, int rows,
                       const char *const words[2]) {
    struct buffer text = {0};
    struct error err;
    char name[64];
    SUPPORT_OK(buffer_print(&text, &err, "index\tsentence1\tsentence2\tlabel\n"), err);
    for (int i = 0; i < rows; i++)
        SUPPORT_OK(buffer_print(&text, &err, "%d\t%s %d\tb %d\t%s\n", i,
                                i % 2 ? "yes" : "no", i, i * 7 % 10, words[i % 2]),
                   err);
    snprintf(name, sizeof name, "GLUE/%s/%s.tsv", folder, split);
    support_write(name, text.data);
    buffer_free(&text);
}

static int write_glue(void **state) {
    (void)state;
    static const char *const rte[2] = {"entailment", "not_entailment"};
    static const char *const wnli[2] = {"0", "1"};
    struct error err;
    if (file_is_directory(support_path("scores")))
        SUPPORT_OK(file_remove_tree(support_path("scores"), &err), err);
    write_task("RTE", "train", 16, rte);
    write_task("RTE", "dev", 10, rte);
    write_task("WNLI", "train", 12, wnli);
    write_task("WNLI", "dev", 8, wnli);
    tiny_model("model", (struct tiny_model){.seed = 1});
    return 0;
}

/* glue run on the tiny model with `more` options. */
static struct captured run(const char *const *more) {
    static char model[PATH_BYTES], data[PATH_BYTES], scores[PATH_BYTES];
    const char *words[MOST_WORDS] = {
        "run", "--model",    model,  "--data",
        data,  "--output",   scores, "--num-train-epochs",
        "1",   "--threads",  "1",    "--per-device-train-batch-size",
        "4",   "--progress", "never"};
    int count = 15;
    strcpy(model, support_path("model"));
    strcpy(data, support_path("GLUE"));
    strcpy(scores, support_path("scores"));
    while (*more)
        words[count++] = *more++;
    words[count] = NULL;
    return glue(words);
}

static void tasks_and_seeds_end_in_a_table(void **state) {
    (void)state;
    struct captured c =
        run((const char *[]){"--tasks", "rte,wnli", "--seeds", "2", NULL});
    if (c.code != OK)
        fail_msg("%s", c.err.data);
    assert_has(c.err, "[1/4] RTE, seed 1");
    assert_has(c.err, "[4/4] WNLI, seed 2");
    assert_has(c.out, "RTE      dev");
    assert_has(c.out, "10 of 277");
    assert_has(c.out, "16 of 2490");
    assert_has(c.out, "WNLI     dev");
    assert_has(c.out, "(2 of 9 tasks)");
    assert_true(file_exists(support_path("scores/rte/seed-1.json")));
    assert_true(file_exists(support_path("scores/rte/seed-1/model.safetensors")));
    captured_free(&c);
}

static void finished_runs_are_not_redone(void **state) {
    (void)state;
    struct captured c =
        run((const char *[]){"--tasks", "wnli", "--seed-list", "3", NULL});
    assert_int_equal(c.code, OK);
    captured_free(&c);
    struct buffer before = support_read(support_path("scores/wnli/seed-3.json"));
    c = run((const char *[]){"--tasks", "wnli", "--seed-list", "3,4", "--format", "tsv",
                             NULL});
    assert_int_equal(c.code, OK);
    assert_has(c.err, "[1/2] WNLI, seed 3: done before");
    assert_has_not(c.err, "seed 4: done before");
    assert_has(c.out, "\twnli\tdev\taccuracy\t");
    struct buffer after = support_read(support_path("scores/wnli/seed-3.json"));
    assert_string_equal(before.data, after.data);
    buffer_free(&before);
    buffer_free(&after);
    captured_free(&c);
}

static void other_settings_are_refused(void **state) {
    (void)state;
    struct captured c = run((const char *[]){"--tasks", "wnli", NULL});
    assert_int_equal(c.code, OK);
    captured_free(&c);
    c = run((const char *[]){"--tasks", "wnli", "--learning-rate", "1e-3", NULL});
    assert_int_equal(c.code, ERR_INCOMPATIBLE);
    assert_has(c.err,
               "wnli/seed-1.json was made with learning_rate unset, not 0.001: use "
               "another --output, or --overwrite to redo it");
    assert_int_equal(c.out.length, 0);
    captured_free(&c);
    tiny_model("model", (struct tiny_model){.seed = 2});
    c = run((const char *[]){"--tasks", "wnli", NULL});
    assert_int_equal(c.code, ERR_INCOMPATIBLE);
    assert_has(c.err, "was made with weights_crc32c");
    captured_free(&c);
    c = run((const char *[]){"--tasks", "wnli", "--overwrite", "--learning-rate", "1e-3",
                             NULL});
    if (c.code != OK)
        fail_msg("%s", c.err.data);
    captured_free(&c);
}

static void other_settings_of_other_seeds_are_refused(void **state) {
    (void)state;
    struct captured c =
        run((const char *[]){"--tasks", "wnli", "--seed-list", "3", NULL});
    assert_int_equal(c.code, OK);
    captured_free(&c);
    c = run((const char *[]){"--tasks", "wnli", "--seed-list", "4", "--max-train-samples",
                             "4", NULL});
    assert_int_equal(c.code, ERR_INCOMPATIBLE);
    assert_has(c.err,
               "wnli/seed-3.json was made with max_train_samples 0, not 4: use "
               "another --output\n");
    captured_free(&c);
    c = run((const char *[]){"--tasks", "rte", "--seed-list", "4", "--max-train-samples",
                             "4", NULL});
    assert_int_equal(c.code, OK);
    captured_free(&c);
}

static void model_in_training(uint64_t seed) {
    struct error err;
    const char *folder =
        tiny_model("model/checkpoint-1", (struct tiny_model){.seed = seed});
    SUPPORT_OK(manifest_write(folder, 1, &err), err);
}

static void weights_of_a_training_that_has_not_ended_count(void **state) {
    (void)state;
    struct error err;
    SUPPORT_OK(file_remove_tree(support_path("model"), &err), err);
    model_in_training(1);
    struct captured c = run((const char *[]){"--tasks", "wnli", NULL});
    if (c.code != OK)
        fail_msg("%s", c.err.data);
    captured_free(&c);
    model_in_training(2);
    c = run((const char *[]){"--tasks", "wnli", NULL});
    assert_int_equal(c.code, ERR_INCOMPATIBLE);
    assert_has(c.err, "was made with weights_crc32c");
    captured_free(&c);
}

static void a_failing_task_does_not_stop_the_others(void **state) {
    (void)state;
    support_write("GLUE/RTE/dev.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\n");
    struct captured c = run((const char *[]){"--tasks", "all", "--discard-models", NULL});
    assert_int_equal(c.code, ERR_INPUT);
    assert_has(c.err, "RTE, seed 1 failed: ");
    assert_has(c.err, "RTE/dev.tsv:2: expected 4 fields separated by tabs, found 2");
    assert_has(c.err, "normglue glue run: 8 of 9 runs failed, the first: CoLA, seed 1: ");
    assert_has(c.out, "WNLI     dev");
    assert_has_not(c.out, "RTE  ");
    assert_true(file_exists(support_path("scores/wnli/seed-1.json")));
    assert_false(file_is_directory(support_path("scores/wnli/seed-1")));
    captured_free(&c);
}

static void limits_are_marked(void **state) {
    (void)state;
    struct captured c = run((const char *[]){"--tasks", "wnli", "--max-train-samples",
                                             "4", "--max-eval-samples", "2", NULL});
    assert_int_equal(c.code, OK);
    assert_has(c.out, "2 of 71");
    assert_has(c.out, "4 of 635");
    assert_has(c.out, "*: with --max-train-samples or --max-eval-samples");
    captured_free(&c);
}

static void the_same_seed_scores_the_same(void **state) {
    (void)state;
    struct captured first =
        run((const char *[]){"--tasks", "rte", "--format", "json", NULL});
    struct captured second =
        run((const char *[]){"--tasks", "rte", "--format", "json", "--overwrite", NULL});
    assert_int_equal(second.code, OK);
    assert_string_equal(first.out.data, second.out.data);
    captured_free(&first);
    captured_free(&second);
}

#define WITH_GLUE(f) cmocka_unit_test_setup(f, write_glue)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_usage_is_explained),
        cmocka_unit_test(help_lists_the_fine_tuning_options),
        cmocka_unit_test(bad_input_has_code_3),
        WITH_GLUE(tasks_and_seeds_end_in_a_table),
        WITH_GLUE(finished_runs_are_not_redone),
        WITH_GLUE(other_settings_are_refused),
        WITH_GLUE(other_settings_of_other_seeds_are_refused),
        WITH_GLUE(weights_of_a_training_that_has_not_ended_count),
        WITH_GLUE(a_failing_task_does_not_stop_the_others),
        WITH_GLUE(limits_are_marked),
        WITH_GLUE(the_same_seed_scores_the_same),
    };
    return cmocka_run_group_tests_name("glue_command", tests, NULL, NULL);
}
