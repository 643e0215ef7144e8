/* statistics - median and range over seeds, and the averages over tasks.
 *
 * A task's score is the mean of its official metrics (MNLI: of matched and mismatched);
 * its figure for a model is the median over seeds. An average is the plain mean over
 * tasks of that figure. An undefined value (NaN) counts as the lowest and makes averages
 * NaN. */
#ifndef GLUE_STATISTICS_H
#define GLUE_STATISTICS_H

#include <stdbool.h>

#include "glue/scores.h"

struct summary {
    double median, lowest, highest; /* NaN where undefined */
    int count;                      /* seeds; 0 = no run */
};

/* Of the models' scores, or of what the most frequent training label would score. */
enum statistics_side { OF_MODEL, OF_MAJORITY };

/* Metric number `metric` on split number `split` of the task's eval_splits. */
struct summary statistics_metric(const struct scores *s, const struct task *task,
                                 int split, int metric, enum statistics_side side);

/* A published way to boil GLUE down to one number. */
struct average {
    const char *key, *title;
    const char *tasks; /* "cola mnli ..."; NULL = all of glue_tasks */
    bool accuracy; /* accuracy is the score of tasks that have it among their metrics */
};
enum { NUM_AVERAGES = 2 };
extern const struct average statistics_averages[NUM_AVERAGES];

struct average_value {
    double value;  /* over the tasks that are there; NaN without any */
    int tasks, of; /* incomplete when they differ */
};
struct average_value statistics_average(const struct scores *s, const struct average *a,
                                        enum statistics_side side);

/* Median etc. of `count` values, which are sorted. */
struct summary statistics_summarise(double *values, int count);

/* The runs of a task, NULL and *count 0 when there is none. */
const struct scores_run *statistics_runs(const struct scores *s, const struct task *task,
                                         int *count);

#endif
