/* evaluate - a task's score: which metrics its row names, and their mean. */
#ifndef GLUE_EVALUATE_H
#define GLUE_EVALUATE_H

#include "finetune/task.h"

/* The `score` of every task of glue/tasks.c. `combined` is the mean of the task's
 * official metrics only (CoLA: Matthews). Rows without a label are ERR_INPUT: there is no
 * score then. */
enum status evaluate_predictions(const struct task *task, const float *predictions,
                                 const float *labels, size_t count, struct score *out,
                                 struct error *err) MUST_CHECK;

/* How tables call the metric of this name: "Matthews" for "matthews_correlation". */
const char *evaluate_metric_title(const char *name);

#endif
