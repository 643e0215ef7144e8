/* split - the rows of one file of a task: tokens, labels, predictions and their score. */
#ifndef FINETUNE_SPLIT_H
#define FINETUNE_SPLIT_H

#include "finetune/classifier.h"
#include "finetune/input.h"
#include "finetune/task.h"

struct split {
    const char *name;   /* "train", "dev_matched" */
    struct input input; /* its labels are outputs of the classifier's head */
    float *labels;      /* count: classes of the task, or scores */
    float *predictions; /* count: the same of the last scoring */
    float *outputs;     /* (count, C) of the last evaluation */
};

/* Reads and tokenises DATA/.../<name>. A file without labels or rows is ERR_INPUT.
 * `limit` 0 = all rows. Notices how many sequences fill max_seq_length. */
enum status split_read(struct split *s, const struct task *task, const char *data,
                       const char *name, int64_t limit, int64_t max_seq_length,
                       const struct classifier *c, const struct notices *notices,
                       struct error *err) MUST_CHECK;
/* Score and mean loss of the classifier; `most` sequences a batch. */
enum status split_evaluate(struct split *s, const struct task *task, struct classifier *c,
                           int64_t most, struct score *score, double *loss,
                           struct error *err) MUST_CHECK;
/* What knows nothing would predict: the most frequent class, or the mean score. */
float split_majority(const struct split *s, const struct task *task);
/* Score of that one prediction for all rows. */
enum status split_score_constant(struct split *s, const struct task *task,
                                 float prediction, struct score *score,
                                 struct error *err) MUST_CHECK;
void split_free(struct split *s);

#endif
