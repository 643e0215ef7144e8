/* scoring - a task's score: which metrics its row names, and their mean. */
#ifndef GLUE_SCORING_H
#define GLUE_SCORING_H

#include "finetune/task.h"

/* The `score` of every task of glue/tasks.c. `combined` is the mean of the task's
 * official metrics only (CoLA: Matthews). Rows without a label are ERR_INPUT: there is no
 * score then. */
enum status scoring_evaluate(const struct task *task, const float *predictions,
                             const float *labels, size_t count, struct score *out,
                             struct error *err) MUST_CHECK;

/* The metrics of `task` by name, all values NaN. */
void scoring_prepare(const struct task *task, struct score *score);

/* How tables call the metric of this name: "Matthews" for "matthews_correlation". */
const char *scoring_metric_title(const char *name);

#endif
