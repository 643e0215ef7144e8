/* scoring - a task's score: which metrics its row names, and their mean.
 *
 * The table of metrics is the one place that knows how each is called in files (Hugging
 * Face's names, so that eval_results.json reads as theirs) and in tables, and what
 * computes it. A new metric is a line here, a word in tasks.h and a function in
 * metrics.c.
 */
#include "glue/scoring.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "glue/metrics.h"
#include "glue/tasks.h"

struct rows {
    const double *predictions, *labels;
    size_t count;
    int num_classes;
};

static enum status accuracy(struct rows r, double *out, struct error *err) {
    (void)err;
    *out = metrics_accuracy(r.predictions, r.labels, r.count);
    return OK;
}
static enum status f1(struct rows r, double *out, struct error *err) {
    (void)err;
    *out = metrics_f1(r.predictions, r.labels, r.count);
    return OK;
}
static enum status matthews(struct rows r, double *out, struct error *err) {
    (void)err;
    *out = metrics_matthews(r.predictions, r.labels, r.count, r.num_classes);
    return OK;
}
static enum status pearson(struct rows r, double *out, struct error *err) {
    (void)err;
    *out = metrics_pearson(r.predictions, r.labels, r.count);
    return OK;
}
static enum status spearman(struct rows r, double *out, struct error *err) {
    return metrics_spearman(r.predictions, r.labels, r.count, out, err);
}

/* Names are Hugging Face's. */
static const struct {
    const char *name, *title;
    enum status (*compute)(struct rows r, double *out, struct error *err);
} metrics[NUM_METRICS] = {
    [METRIC_MATTHEWS] = {"matthews_correlation", "Matthews", matthews},
    [METRIC_ACCURACY] = {"accuracy", "accuracy", accuracy},
    [METRIC_F1] = {"f1", "F1", f1},
    [METRIC_PEARSON] = {"pearson", "Pearson", pearson},
    [METRIC_SPEARMAN] = {"spearmanr", "Spearman", spearman},
};

const char *scoring_metric_title(const char *name) {
    for (int i = METRIC_NONE + 1; i < NUM_METRICS; i++)
        if (strcmp(metrics[i].name, name) == 0)
            return metrics[i].title;
    return name;
}

void scoring_prepare(const struct task *task, struct score *score) {
    const enum glue_metric *row = tasks_row(task)->metrics;
    *score = (struct score){.combined = NAN};
    for (int i = 0; i < TASK_MAX_METRICS && row[i] != METRIC_NONE; i++)
        score->metrics[score->count++] = (struct metric){metrics[row[i]].name, NAN};
}

static enum status check_labels(const struct task *task, const float *labels,
                                size_t count, struct error *err) {
    for (size_t i = 0; i < count; i++)
        if (isnan(labels[i]))
            return error_set(err, ERR_INPUT,
                             "%s: no labels in this file, so it has no score: "
                             "row %zu of %zu is unlabelled",
                             task->title, i + 1, count);
    return OK;
}

/* Every prediction the same: the mark of a fine-tuning that failed. */
static bool is_constant(const double *x, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (x[i] != x[0])
            return false;
    return count > 0;
}

/* Official metrics come first in a row and make the mean; a NaN among them makes it NaN.
 */
static enum status compute_all(const struct task *task, struct rows r, struct score *out,
                               struct error *err) {
    const struct glue_row *row = tasks_row(task);
    double sum = 0;
    scoring_prepare(task, out);
    for (int i = 0; i < out->count; i++) {
        double *value = &out->metrics[i].value;
        TRY(metrics[row->metrics[i]].compute(r, value, err));
        sum += i < row->num_official ? *value : 0;
    }
    out->combined = sum / row->num_official;
    out->one_class_predicted = is_constant(r.predictions, r.count);
    return OK;
}

enum status scoring_evaluate(const struct task *task, const float *predictions,
                             const float *labels, size_t count, struct score *out,
                             struct error *err) {
    *out = (struct score){0};
    TRY(check_labels(task, labels, count, err));
    double *x = calloc(count + 1, 2 * sizeof *x);
    if (!x)
        return error_set(err, ERR_MEMORY, "out of memory: scores of %zu rows", count);
    double *y = x + count + 1;
    for (size_t i = 0; i < count; i++) {
        x[i] = (double)predictions[i];
        y[i] = (double)labels[i];
    }
    const struct rows rows = {x, y, count, task->num_labels};
    const enum status status = compute_all(task, rows, out, err);
    free(x);
    return status;
}
