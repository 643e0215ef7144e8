/* test_tasks - the nine rows, finding them by name, and their scores. */
#include <math.h>
#include <string.h>

#include "glue/glue.h"
#include "glue/scoring.h"
#include "glue/tasks.h"
#include "tests/support.h"

static const struct task *find(const char *name) {
    struct error err;
    const struct task *task = task_find(glue_tasks, name, &err);
    assert_non_null(task);
    return task;
}

static void names_are_found_in_any_spelling(void **state) {
    (void)state;
    static const char *const names[][3] = {
        {"cola", "CoLA", "COLA"}, {"sst2", "SST-2", "sst_2"},
        {"mrpc", "MRPC", "Mrpc"}, {"stsb", "sts-b", "STS-B"},
        {"qqp", "QQP", "Qqp"},    {"mnli", "MNLI", "Mnli"},
        {"qnli", "QNLI", "qnLi"}, {"rte", "RTE", "Rte"},
        {"wnli", "WNLI", "w-nli"}};
    assert_int_equal(glue_tasks.count, 9);
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 3; j++)
            assert_ptr_equal(find(names[i][j]), glue_tasks.items[i]);
    struct error err;
    assert_null(task_find(glue_tasks, "mnl", &err));
    assert_int_equal(err.status, ERR_USAGE);
    assert_non_null(
        strstr(err.text, "cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte, wnli"));
}

static void rows_are_complete_and_consistent(void **state) {
    (void)state;
    for (int i = 0; i < glue_tasks.count; i++) {
        const struct task *t = glue_tasks.items[i];
        const struct glue_row *row = tasks_row(t);
        assert_true((t->labels == NULL) == (t->num_labels == 1));
        assert_true((row->words == NULL) == (t->num_labels == 1));
        assert_true(t->is_pair == (row->text_b != NULL));
        assert_non_null(tasks_split(t, "train"));
        for (const char *const *split = t->eval_splits; *split; split++) {
            assert_non_null(tasks_split(t, *split));
            assert_non_null(strstr(tasks_split(t, *split)->header, row->label));
        }
        assert_true(row->num_official >= 1 && row->metrics[0] != METRIC_NONE);
        assert_true(t->learning_rate >= 1e-5 && t->learning_rate <= 2e-5);
        assert_int_equal(t->num_train_epochs, 10);
        assert_true(t->batch_size == 16 || t->batch_size == 32);
    }
}

static struct score score_of(const char *name, const float *predictions,
                             const float *labels, size_t count) {
    struct error err;
    struct score score;
    const struct task *task = find(name);
    assert_int_equal(task->score(task, predictions, labels, count, &score, &err), OK);
    return score;
}

static void scores_have_the_official_metrics(void **state) {
    (void)state;
    static const struct {
        const char *task, *first, *second;
        double combined; /* of the predictions and labels below */
    } rows[] = {
        {"cola", "matthews_correlation", "accuracy", 0.25}, /* accuracy is not in it */
        {"sst2", "accuracy", NULL, 2 / 3.0},
        {"mrpc", "f1", "accuracy", (0.75 + 2 / 3.0) / 2},
        {"qqp", "f1", "accuracy", (0.75 + 2 / 3.0) / 2},
    };
    const float predictions[] = {1, 1, 1, 0, 0, 1}, labels[] = {1, 1, 1, 0, 1, 0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct score s = score_of(rows[i].task, predictions, labels, 6);
        assert_string_equal(s.metrics[0].name, rows[i].first);
        assert_int_equal(s.count, rows[i].second ? 2 : 1);
        if (rows[i].second)
            assert_string_equal(s.metrics[1].name, rows[i].second);
        assert_true(fabs(s.combined - rows[i].combined) < 1e-12);
        assert_false(s.one_class_predicted);
    }
}

static void regression_scores_are_two_correlations(void **state) {
    (void)state;
    const float predictions[] = {1, 3, 2}, labels[] = {1, 2, 3}, same[] = {2, 2, 2};
    struct score s = score_of("stsb", predictions, labels, 3);
    assert_string_equal(s.metrics[0].name, "pearson");
    assert_string_equal(s.metrics[1].name, "spearmanr");
    assert_true(fabs(s.combined - 0.5) < 1e-12);
    s = score_of("stsb", same, labels, 3);
    assert_true(isnan(s.combined) && s.one_class_predicted);
}

static void one_predicted_class_is_noted(void **state) {
    (void)state;
    const float zeros[4] = {0}, labels[] = {0, 1, 0, 1};
    const struct score s = score_of("qqp", zeros, labels, 4);
    assert_true(s.one_class_predicted);
    assert_true(s.metrics[0].value == 0 && s.metrics[1].value == 0.5);
    assert_true(s.combined == 0.25);
}

static void unlabelled_rows_have_no_score(void **state) {
    (void)state;
    struct error err;
    struct score score;
    const float x[] = {0, 1}, labels[] = {NAN, NAN};
    const struct task *rte = find("rte");
    assert_int_equal(rte->score(rte, x, labels, 2, &score, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "no labels in this file"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found_in_any_spelling),
        cmocka_unit_test(rows_are_complete_and_consistent),
        cmocka_unit_test(scores_have_the_official_metrics),
        cmocka_unit_test(regression_scores_are_two_correlations),
        cmocka_unit_test(one_predicted_class_is_noted),
        cmocka_unit_test(unlabelled_rows_have_no_score),
    };
    return cmocka_run_group_tests_name("tasks", tests, NULL, NULL);
}
