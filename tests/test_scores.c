/* test_scores - scores on disk, statistics over seeds, averages, and the tables. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"
#include "base/rng.h"
#include "glue/glue.h"
#include "glue/grid.h"
#include "glue/scores.h"
#include "glue/scoring.h"
#include "glue/statistics.h"
#include "glue/table.h"
#include "tests/support.h"

static const struct task *find(const char *name) {
    struct error err;
    const struct task *task = task_find(glue_tasks, name, &err);
    assert_non_null(task);
    return task;
}

/* A made-up finished run: metric m of split s scores value + m / 100 + s / 10, its
 * baseline half of that. */
static struct scores_run make_run(const char *name, int64_t seed, double value) {
    struct scores_run run = {.task = find(name), .seed = seed};
    struct finetune_result *r = &run.result;
    for (int s = 0; run.task->eval_splits[s]; s++) {
        struct finetune_split_result *split = &r->splits[r->num_splits++];
        snprintf(split->split, sizeof split->split, "%s", run.task->eval_splits[s]);
        split->rows = 60 + s;
        split->loss = 0.5;
        scoring_prepare(run.task, &split->score);
        split->majority = split->score;
        for (int m = 0; m < split->score.count; m++) {
            split->score.metrics[m].value = value + m / 100.0 + s / 10.0;
            split->majority.metrics[m].value = split->score.metrics[m].value / 2;
        }
        split->score.combined = split->score.metrics[0].value;
        split->majority.combined = split->majority.metrics[0].value;
    }
    r->train_rows = 500;
    r->max_steps = 40;
    r->best_step = 20;
    r->seconds = 1.5;
    strcpy(r->model_type, "normglue");
    strcpy(r->arch, "normformer");
    run.settings = json_pack("{s:s, s:f}", "model", "run", "learning_rate", 1e-5);
    assert_non_null(run.settings);
    return run;
}

static void keep(const char *folder, struct scores_run *run) {
    struct error err;
    char path[PATH_BYTES], parent[PATH_BYTES];
    SUPPORT_OK(
        scores_path(path, support_path(folder), run->task, run->seed, ".json", &err),
        err);
    snprintf(parent, sizeof parent, "%s", path);
    *strrchr(parent, '/') = '\0';
    SUPPORT_OK(file_make_directory(parent, &err), err);
    SUPPORT_OK(scores_write(run, path, &err), err);
    scores_run_free(run);
}

static void keep_run(const char *folder, const char *task, int64_t seed, double value) {
    struct scores_run run = make_run(task, seed, value);
    keep(folder, &run);
}

static struct scores collect(const char *folder) {
    struct error err;
    struct scores s;
    SUPPORT_OK(scores_collect(&s, support_path(folder), &err), err);
    return s;
}

static char *table(const struct scores *models, int count, const char *format) {
    struct error err;
    struct buffer out = {0};
    SUPPORT_OK(table_write(models, count, format, &out, &err), err);
    return out.data;
}

static bool nearly(double a, double b) { return fabs(a - b) < 1e-12; }

static void a_run_is_read_as_it_was_written(void **state) {
    (void)state;
    struct scores_run run = make_run("mnli", 7, 1 / 3.0);
    run.max_train_samples = 100;
    run.result.splits[1].score.one_class_predicted = true;
    run.result.splits[0].majority.metrics[0].value = (double)NAN;
    keep("round", &run);
    struct scores s = collect("round");
    assert_int_equal(s.count, 1);
    const struct finetune_result *r = &s.runs[0].result;
    assert_int_equal(s.runs[0].seed, 7);
    assert_int_equal(s.runs[0].max_train_samples, 100);
    assert_int_equal(r->num_splits, 2);
    assert_string_equal(r->splits[1].split, "dev_mismatched");
    assert_true(r->splits[0].score.metrics[0].value == 1 / 3.0);
    assert_true(r->splits[0].score.combined == 1 / 3.0);
    assert_true(isnan(r->splits[0].majority.metrics[0].value));
    assert_false(r->splits[0].score.one_class_predicted);
    assert_true(r->splits[1].score.one_class_predicted);
    assert_int_equal(r->splits[1].rows, 61);
    assert_int_equal(r->train_rows, 500);
    assert_string_equal(r->arch, "normformer");
    assert_string_equal(s.model, "run");
    assert_string_equal(s.name, "round");
    scores_free(&s);
}

static void runs_come_in_the_order_of_tasks_and_seeds(void **state) {
    (void)state;
    keep_run("order", "wnli", 10, 0.1);
    keep_run("order", "wnli", 9, 0.2);
    keep_run("order", "cola", 3, 0.3);
    support_write("order/wnli/seed-x.json", "no scores");
    support_write("order/wnli/seed-3.json.tmp", "no scores");
    support_write("order/wnli/seed-4/config.json", "no scores");
    struct scores s = collect("order/"); /* the name is without the slash */
    assert_int_equal(s.count, 3);
    assert_string_equal(s.runs[0].task->name, "cola");
    assert_int_equal(s.runs[1].seed, 9);
    assert_int_equal(s.runs[2].seed, 10);
    assert_string_equal(s.name, "order");
    scores_free(&s);
}

static void damaged_scores_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *sentence;
    } rows[] = {
        {"", "*seed-1.json:*"},
        {"{\"task\": \"rte\"}", "*seed-1.json: task: expected 'cola', found 'rte'"},
        {"{\"task\": \"cola\", \"seed\": 1, \"splits\": []}",
         "*seed-1.json: splits: expected 'dev', found ''"},
        {"{\"task\": \"cola\", \"seed\": 1, \"splits\": [{\"split\": \"dev\"}]}",
         "*seed-1.json: settings: expected an object"},
        {"{\"task\": \"cola\", \"seed\": -1}", "*seed-1.json: seed: expected *"},
        {"{\"task\": \"cola\", \"splits\": [{\"split\": \"dev\", \"score\": "
         "{\"accuracy\": 7}}]}",
         "*seed-1.json: accuracy: expected *"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error err;
        struct scores s;
        support_write("damaged/cola/seed-1.json", rows[i].text);
        assert_int_equal(scores_collect(&s, support_path("damaged"), &err), ERR_INPUT);
        support_assert_error(&err, ERR_INPUT, rows[i].sentence);
    }
}

static void mutants_of_a_score_file_never_crash_a_table(void **state) {
    (void)state;
    int read = 0;
    keep_run("mutant", "mnli", 1, 0.5);
    struct buffer text = support_read(support_path("mutant/mnli/seed-1.json"));
    for (uint32_t number = 0; number < 2000; number++) {
        struct error err = {0};
        struct scores s;
        const struct rng_block b =
            rng_draw(rng_stream(number, RNG_TEST, 2, 0), 0, 0, 0, 0);
        const uint32_t at = rng_below(b.word[0], (uint32_t)text.length);
        const char was = text.data[at];
        text.data[at] = b.word[1] % 2 ? "0-9{}[]\",:en"[b.word[2] % 12] : (char)b.word[2];
        support_write_bytes("mutant/mnli/seed-1.json", text.data, text.length);
        if (scores_collect(&s, support_path("mutant"), &err) == OK) {
            free(table(&s, 1, number % 2 ? "plain" : "json"));
            scores_free(&s);
            read++;
        } else {
            support_assert_error(&err, ERR_INPUT, "*mutant/mnli/seed-1.json*");
        }
        text.data[at] = was;
    }
    buffer_free(&text);
    assert_true(read > 100 && read < 1900);
}

static void a_folder_without_scores_is_an_error(void **state) {
    (void)state;
    struct error err;
    struct scores s;
    support_write("none/cola/readme", "");
    assert_int_equal(scores_collect(&s, support_path("none"), &err), ERR_INPUT);
    support_assert_error(
        &err, ERR_INPUT,
        "*none: no scores here; expected <task>/seed-<n>.json as normglue "
        "glue run writes them");
    assert_int_equal(scores_collect(&s, support_path("nowhere"), &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT,
                         "*nowhere: expected a folder of scores, found no folder");
}

static void medians_and_ranges_are_over_seeds(void **state) {
    (void)state;
    static const struct {
        double values[5];
        int count;
        double median, lowest, highest;
    } rows[] = {{{3}, 1, 3, 3, 3},
                {{4, 1}, 2, 2.5, 1, 4},
                {{5, 1, 3}, 3, 3, 1, 5},
                {{4, (double)NAN, 2, 6}, 4, 3, (double)NAN, 6}, /* undefined = worst */
                {{1, (double)NAN, (double)NAN}, 3, (double)NAN, (double)NAN, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double values[5];
        memcpy(values, rows[i].values, sizeof values);
        const struct summary s = statistics_summarise(values, rows[i].count);
        assert_int_equal(s.count, rows[i].count);
        assert_true(s.median == rows[i].median ||
                    (isnan(s.median) && isnan(rows[i].median)));
        assert_true(s.lowest == rows[i].lowest ||
                    (isnan(s.lowest) && isnan(rows[i].lowest)));
        assert_true(s.highest == rows[i].highest);
    }
    assert_true(isnan(statistics_summarise(NULL, 0).median));
}

/* The paper's seven numbers and its mean (table 3, NormFormer), as accuracies. */
static void the_papers_average_is_that_of_its_table(void **state) {
    (void)state;
    static const struct {
        const char *task;
        double value;
    } paper[] = {{"cola", 0.826}, {"mnli", 0.863}, {"mrpc", 0.860}, {"qnli", 0.919},
                 {"qqp", 0.913},  {"rte", 0.679},  {"sst2", 0.938}};
    for (size_t i = 0; i < sizeof paper / sizeof paper[0]; i++) {
        struct scores_run run = make_run(paper[i].task, 1, 0);
        for (int s = 0; s < run.result.num_splits; s++) {
            struct score *score = &run.result.splits[s].score;
            score->combined = 0; /* must not be what counts where accuracy is there */
            for (int m = 0; m < score->count; m++)
                if (strcmp(score->metrics[m].name, "accuracy") == 0)
                    score->metrics[m].value = paper[i].value;
        }
        keep("paper", &run);
    }
    struct scores s = collect("paper");
    const struct average_value a =
        statistics_average(&s, &statistics_averages[1], OF_MODEL);
    assert_int_equal(a.tasks, 7);
    assert_int_equal(a.of, 7);
    assert_true(fabs(a.value - 0.8569) < 5e-5);
    scores_free(&s);
}

static void the_official_average_is_over_nine_tasks(void **state) {
    (void)state;
    double sum = 0;
    for (int i = 0; i < glue_tasks.count; i++) {
        for (int seed = 1; seed <= 3; seed++) /* median: seed 2 */
            keep_run("nine", glue_tasks.items[i]->name, seed, i * 0.1 + seed * 0.01);
        sum +=
            i * 0.1 + 0.02 + (strcmp(glue_tasks.items[i]->name, "mnli") == 0 ? 0.05 : 0);
    }
    struct scores s = collect("nine");
    struct average_value a = statistics_average(&s, &statistics_averages[0], OF_MODEL);
    assert_int_equal(a.tasks, 9);
    assert_int_equal(a.of, 9);
    assert_true(nearly(a.value, sum / 9));
    a = statistics_average(&s, &statistics_averages[0], OF_MAJORITY);
    assert_true(nearly(a.value, sum / 18));
    assert_string_equal(statistics_averages[0].key, "glue");
    scores_free(&s);
}

static void the_plain_table_has_everything(void **state) {
    (void)state;
    keep_run("plain", "rte", 1, 0.5);
    keep_run("plain", "rte", 2, 0.6);
    keep_run("plain", "mnli", 1, 0.35);
    struct scores s = collect("plain");
    char *text = table(&s, 1, "plain");
    static const char *const lines[] = {
        "MNLI     dev_matched     accuracy  60 of 9815  500 of 392702   ",
        "         dev_mismatched  accuracy  61 of 9832",
        "RTE      dev             accuracy   60 of 277    500 of 2490   ",
        " 27.50  55.00 [50.00, 60.00]      2\n",
        "average  glue            9 tasks",
        "47.50 (2 of 9 tasks)",
        "47.50 (2 of 7 tasks)",
        "rows: a part of the official file",
        "plain: fine-tuned from run (normformer)\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (!strstr(text, lines[i]))
            fail_msg("'%s' is not in\n%s", lines[i], text);
    assert_null(strstr(text, "*: with"));
    assert_null(strstr(text, "!: in"));
    assert_null(strstr(text, " \n"));
    free(text);
    scores_free(&s);
}

static void marks_are_explained(void **state) {
    (void)state;
    struct scores_run run = make_run("stsb", 1, (double)NAN);
    run.max_eval_samples = 60;
    run.result.splits[0].score.one_class_predicted = true;
    keep("marks", &run);
    struct scores s = collect("marks");
    char *text = table(&s, 1, "plain");
    assert_non_null(strstr(text, "nan (constant) * !"));
    assert_non_null(strstr(text, "*: with --max-train-samples or --max-eval-samples"));
    assert_non_null(strstr(text, "!: in at least one run every row got the same"));
    free(text);
    text = table(&s, 1, "tsv");
    assert_non_null(strstr(text,
                           "marks\tstsb\tdev\tpearson\tnan\tnan\tnan\t1\tnan\t60\t1500"
                           "\t500\t5749\t1\n"));
    free(text);
    scores_free(&s);
}

static void one_limited_seed_marks_all(void **state) {
    (void)state;
    struct scores_run run = make_run("rte", 2, 0.5);
    run.max_train_samples = 100;
    keep_run("mixed", "rte", 1, 0.5);
    keep("mixed", &run);
    struct scores s = collect("mixed");
    char *text = table(&s, 1, "tsv");
    assert_non_null(strstr(text, "\t2\t0.250000\t60\t277\t500\t2490\t1\n"));
    free(text);
    text = table(&s, 1, "json");
    assert_non_null(strstr(text, "\"limited\": true"));
    free(text);
    scores_free(&s);
}

static void models_stand_side_by_side(void **state) {
    (void)state;
    keep_run("side/a", "wnli", 1, 0.25);
    keep_run("side/b", "wnli", 1, 0.5);
    keep_run("side/b", "rte", 1, 0.75);
    struct scores models[2] = {collect("side/a"), collect("side/b")};
    char *text = table(models, 2, "plain");
    assert_non_null(strstr(text, "  a "));
    assert_non_null(strstr(text, "  b "));
    const char *wnli = strstr(text, "\nWNLI");
    assert_non_null(wnli);
    const char *first = strstr(wnli, "25.00"), *second = strstr(wnli, "50.00");
    assert_true(first && second && first < second);
    assert_non_null(strstr(text, "37.50  -")); /* RTE: majority, then no run of a */
    free(text);
    text = table(models, 2, "tsv");
    assert_non_null(strstr(text, "/side/a\twnli\tdev\taccuracy\t0.250000\t"));
    assert_non_null(strstr(text, "/side/b\taverage\t2 of 9 tasks\tglue\t0.625000\t"));
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        int tabs = 0;
        for (const char *c = line; *c != '\n'; c++)
            tabs += *c == '\t';
        assert_int_equal(tabs, 13); /* every line has the same columns */
    }
    free(text);
    scores_free(&models[0]);
    scores_free(&models[1]);
}

static void names_that_clash_are_shown_as_paths(void **state) {
    (void)state;
    keep_run("x/scores", "wnli", 1, 0.25);
    keep_run("y/scores", "wnli", 1, 0.5);
    struct scores models[2] = {collect("x/scores"), collect("y/scores")};
    char *text = table(models, 2, "plain");
    assert_non_null(strstr(text, support_path("x/scores")));
    assert_non_null(strstr(text, support_path("y/scores")));
    free(text);
    scores_free(&models[0]);
    scores_free(&models[1]);
}

static void markdown_rows_have_the_same_cells(void **state) {
    (void)state;
    keep_run("mark_down|x", "rte", 1, 0.5);
    struct scores s = collect("mark_down|x");
    char *text = table(&s, 1, "markdown");
    assert_non_null(strstr(text, "mark\\_down\\|x"));
    assert_non_null(strstr(text, "\n|---|---|---|---:|---:|---:|---|---:|\n"));
    int rows = 0;
    for (const char *line = text; *line == '|'; line = strchr(line, '\n') + 1, rows++) {
        int bars = 0;
        for (const char *c = line; *c != '\n'; c++)
            bars += *c == '|' && (c == line || c[-1] != '\\');
        assert_int_equal(bars, 9);
    }
    assert_int_equal(rows, 5); /* heading, rule, RTE, two averages */
    free(text);
    scores_free(&s);
}

static void json_has_every_seed_and_null_for_nan(void **state) {
    (void)state;
    struct error err;
    json_t *root;
    struct scores_run run = make_run("cola", 2, 0.25);
    run.result.splits[0].score.metrics[1].value = (double)NAN;
    keep("json", &run);
    keep_run("json", "cola", 1, 0.75);
    struct scores s = collect("json");
    char *text = table(&s, 1, "json");
    SUPPORT_OK(json_file_parse(&root, "table", text, strlen(text), &err), err);
    const json_t *model = json_array_get(json_object_get(root, "models"), 0);
    const json_t *task = json_array_get(json_object_get(model, "tasks"), 0);
    const json_t *split = json_array_get(json_object_get(task, "splits"), 0);
    const json_t *matthews = json_array_get(json_object_get(split, "metrics"), 0);
    const json_t *accuracy = json_array_get(json_object_get(split, "metrics"), 1);
    assert_true(json_real_value(json_object_get(matthews, "median")) == 0.5);
    const json_t *values = json_object_get(matthews, "values");
    assert_true(json_real_value(json_array_get(values, 0)) == 0.75);
    assert_true(json_real_value(json_array_get(values, 1)) == 0.25);
    assert_true(json_is_null(json_array_get(json_object_get(accuracy, "values"), 1)));
    assert_int_equal(json_integer_value(json_object_get(split, "official_rows")), 1043);
    const json_t *averages = json_object_get(model, "averages");
    const json_t *glue = json_array_get(averages, 0);
    assert_int_equal(json_integer_value(json_object_get(glue, "tasks")), 1);
    assert_int_equal(json_integer_value(json_object_get(glue, "of")), 9);
    json_decref(root);
    free(text);
    scores_free(&s);
}

static void a_grid_is_aligned_by_display_width(void **state) {
    (void)state;
    struct error err;
    struct buffer out = {0};
    struct grid g = {.columns = 2, .right = 2};
    static const char *const cells[] = {"a", "b",         "\xe6\x97\xa5\xe6\x9c\xac",
                                        "1", "e\xcc\x81", "22"};
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++)
        SUPPORT_OK(grid_add(&g, &err, "%s", cells[i]), err);
    SUPPORT_OK(grid_write_plain(&g, &out, &err), err);
    assert_string_equal(out.data,
                        "a      b\n----  --\n\xe6\x97\xa5\xe6\x9c\xac   1\n"
                        "e\xcc\x81     22\n");
    buffer_free(&out);
    grid_free(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_read_as_it_was_written),
        cmocka_unit_test(runs_come_in_the_order_of_tasks_and_seeds),
        cmocka_unit_test(damaged_scores_are_refused),
        cmocka_unit_test(mutants_of_a_score_file_never_crash_a_table),
        cmocka_unit_test(a_folder_without_scores_is_an_error),
        cmocka_unit_test(medians_and_ranges_are_over_seeds),
        cmocka_unit_test(the_papers_average_is_that_of_its_table),
        cmocka_unit_test(the_official_average_is_over_nine_tasks),
        cmocka_unit_test(the_plain_table_has_everything),
        cmocka_unit_test(marks_are_explained),
        cmocka_unit_test(one_limited_seed_marks_all),
        cmocka_unit_test(models_stand_side_by_side),
        cmocka_unit_test(names_that_clash_are_shown_as_paths),
        cmocka_unit_test(markdown_rows_have_the_same_cells),
        cmocka_unit_test(json_has_every_seed_and_null_for_nan),
        cmocka_unit_test(a_grid_is_aligned_by_display_width),
    };
    return cmocka_run_group_tests_name("scores", tests, NULL, NULL);
}
