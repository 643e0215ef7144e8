/* task - the interface that a benchmark fills in: where examples come from, what labels
 * mean, how predictions are scored. finetune/ owns it, glue/tasks.c has the rows.
 *
 * Everything that fine-tuning needs to know of a benchmark is a row of this struct and
 * two functions: `read` makes examples of a file, `score` makes metrics of predictions.
 * Nothing in finetune/ knows a task by its name, so another benchmark is another table.
 *
 * Labels are ids in the order of `labels`, never words: a reader turns words into ids, an
 * output directory's config.json turns them back (id2label). */
#ifndef FINETUNE_TASK_H
#define FINETUNE_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/notice.h"

struct example {
    const char *text_a, *text_b; /* NUL-terminated; text_b NULL for single texts */
    float label;  /* class id in the task's order, or the score; NaN = unlabelled */
    int64_t line; /* of the file, from 1 */
};

struct examples {
    struct example *items;
    size_t count;
    bool labelled;   /* false for a test split: predict works, scoring is an error */
    int64_t skipped; /* malformed rows left out, already noticed */
    char *path;
    void *owned; /* texts */
};
/* items, path and owned are one malloc block each. */
void examples_free(struct examples *e);

enum { TASK_MAX_METRICS = 4 };
struct metric {
    const char
        *name;    /* "matthews_correlation", "accuracy", "f1", "pearson", "spearmanr" */
    double value; /* NaN = undefined (constant input) */
};
struct score {
    struct metric metrics[TASK_MAX_METRICS];
    int count;
    double combined;          /* mean of the metrics: the task's score */
    bool one_class_predicted; /* worth a warning */
};

struct task {
    const char *name;  /* "cola": what --task says */
    const char *title; /* "CoLA": how tables call it */
    const char *const
        *labels;    /* num_labels names in class-id order; NULL for regression */
    int num_labels; /* 1 = regression */
    bool is_pair;
    const char *const
        *eval_splits; /* "dev", or "dev_matched","dev_mismatched"; ends with NULL */
    /* Defaults of fine-tuning; any option overrides. */
    double learning_rate;
    int64_t batch_size, num_train_epochs;
    double warmup_ratio;
    /* Split "train", "dev", "dev_matched", "test" ... of the official folder
     * DATA/<folder>/. `limit` rows at most, 0 = all. Errors name file, line, fields
     * expected and found. */
    enum status (*read)(const struct task *task, const char *data, const char *split,
                        int64_t limit, struct examples *out,
                        const struct notices *notices, struct error *err);
    /* Class predictions are ids as floats, regression scores as they are. */
    enum status (*score)(const struct task *task, const float *predictions,
                         const float *labels, size_t count, struct score *out,
                         struct error *err);
    const void *row; /* the benchmark's own row */
};

struct task_list {
    const struct task *const *items;
    int count;
};
/* NULL and an ERR_USAGE sentence with "did you mean" and the list when no task has this
 * name. */
const struct task *task_find(struct task_list tasks, const char *name, struct error *err);

#endif
