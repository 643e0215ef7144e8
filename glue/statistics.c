/* statistics - median and range over seeds, and the averages over tasks.
 *
 * Medians, because fine-tuning small sets fails altogether for some seeds: a mean would
 * measure how many. An average over tasks takes each task's median first, so that tasks
 * with different numbers of seeds weigh the same.
 */
#include "glue/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "glue/glue.h"

const struct average statistics_averages[NUM_AVERAGES] = {
    {"glue", "GLUE average", NULL, false},
    /* NormFormer (arXiv:2110.09456), table 3: its CoLA, MRPC and QQP are accuracies. */
    {"paper", "NormFormer paper's average", "cola mnli mrpc qnli qqp rte sst2", true},
};

/* NaN first. */
static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    if (isnan(x) || isnan(y))
        return !!isnan(y) - !!isnan(x);
    return (x > y) - (x < y);
}

struct summary statistics_summarise(double *values, int count) {
    struct summary s = {NAN, NAN, NAN, count};
    if (count == 0)
        return s;
    qsort(values, (size_t)count, sizeof *values, by_value);
    s.lowest = values[0];
    s.highest = values[count - 1];
    s.median =
        count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
    return s;
}

const struct scores_run *statistics_runs(const struct scores *s, const struct task *task,
                                         int *count) {
    const struct scores_run *first = NULL;
    *count = 0;
    for (int i = 0; i < s->count; i++) {
        if (s->runs[i].task != task)
            continue;
        first = first ? first : &s->runs[i];
        (*count)++;
    }
    return first;
}

static const struct score *score_of(const struct scores_run *run, int split,
                                    enum statistics_side side) {
    const struct finetune_split_result *s = &run->result.splits[split];
    return side == OF_MODEL ? &s->score : &s->majority;
}

/* Runs of a task lie together (scores_collect), so a pointer and a count are enough. */
struct summary statistics_metric(const struct scores *s, const struct task *task,
                                 int split, int metric, enum statistics_side side) {
    double values[SCORES_MAX_SEEDS];
    int count;
    const struct scores_run *runs = statistics_runs(s, task, &count);
    for (int i = 0; i < count; i++)
        values[i] = score_of(&runs[i], split, side)->metrics[metric].value;
    return statistics_summarise(values, count);
}

/* An average may ask for accuracy where the task's official score is another metric. */
static double task_value(const struct score *score, bool accuracy) {
    for (int i = 0; accuracy && i < score->count; i++)
        if (strcmp(score->metrics[i].name, "accuracy") == 0)
            return score->metrics[i].value;
    return score->combined;
}

/* MNLI's figure is the mean of matched and mismatched. */
static double run_value(const struct scores_run *run, bool accuracy,
                        enum statistics_side side) {
    double sum = 0;
    for (int i = 0; i < run->result.num_splits; i++)
        sum += task_value(score_of(run, i, side), accuracy);
    return sum / run->result.num_splits;
}

/* No task's name is a part of another's, so finding it in the list is enough. */
static bool belongs(const struct average *a, const struct task *task) {
    return !a->tasks || strstr(a->tasks, task->name);
}

struct average_value statistics_average(const struct scores *s, const struct average *a,
                                        enum statistics_side side) {
    struct average_value result = {0, 0, 0};
    for (int t = 0; t < glue_tasks.count; t++) {
        double values[SCORES_MAX_SEEDS];
        int count;
        const struct task *task = glue_tasks.items[t];
        if (!belongs(a, task))
            continue;
        const struct scores_run *runs = statistics_runs(s, task, &count);
        for (int i = 0; i < count; i++)
            values[i] = run_value(&runs[i], a->accuracy, side);
        result.of++;
        result.tasks += count > 0;
        result.value += count > 0 ? statistics_summarise(values, count).median : 0;
    }
    result.value = result.tasks > 0 ? result.value / result.tasks : (double)NAN;
    return result;
}
