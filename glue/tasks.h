/* tasks - one row a GLUE task: folder, files, columns, label words, metrics, defaults.
 *
 * Everything that differs between the nine tasks is in these rows; readers, scores and
 * tables walk them. Row counts are those of the published files. Label ids are in the
 * order of Hugging Face's GLUE; files are always read through label names, never ids. */
#ifndef GLUE_TASKS_H
#define GLUE_TASKS_H

#include <stdbool.h>
#include <stdint.h>

#include "finetune/task.h"

enum { GLUE_MAX_SPLITS = 6, TASKS_MAX_SCORE = 5 };

struct glue_split {
    const char *name;   /* "dev_matched": the file is <folder>/<name>.tsv */
    const char *header; /* the official columns, separated by tabs; NULL ends the list */
    bool headerless;    /* the file starts with a row: columns go by position */
    int64_t rows;       /* of the official file, malformed ones not counted */
};

enum glue_metric { /* rows of the table in scoring.c */
                   METRIC_NONE,
                   METRIC_MATTHEWS,
                   METRIC_ACCURACY,
                   METRIC_F1,
                   METRIC_PEARSON,
                   METRIC_SPEARMAN,
                   NUM_METRICS
};

struct glue_row {
    const char *folder;
    const char *text_a, *text_b; /* names of columns; text_b NULL for single texts */
    const char *label;
    const char *const *words; /* the file's labels in class-id order; NULL: a score from
                                 0 to TASKS_MAX_SCORE */
    bool skip_malformed;      /* train and dev rows of another width are left out */
    enum glue_metric metrics[TASK_MAX_METRICS];
    int num_official; /* the first ones make the task's score; others are only shown */
    struct glue_split splits[GLUE_MAX_SPLITS];
};

/* The benchmark's own row of a task of glue_tasks. */
const struct glue_row *tasks_row(const struct task *task);
/* NULL when the task has no such split. */
const struct glue_split *tasks_split(const struct task *task, const char *name);

#endif
