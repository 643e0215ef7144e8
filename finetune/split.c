/* split - from a task's rows to tokens, from outputs to a score.
 *
 * Two orders of classes meet here. Labels and predictions are in the task's order, which
 * metrics know; the head's outputs are in its model's order, which for a model that was
 * fine-tuned elsewhere may be another one (MNLI has two in use). input.labels are
 * outputs, for the loss; labels and predictions are classes, for the score;
 * output_of_class and class_of_output lead from one to the other.
 *
 * The majority baseline is what the training split alone suggests, scored on the other:
 * it stands beside every score, as 0.55 on RTE means little without it. */
#include "finetune/split.h"

#include <assert.h>
#include <stdlib.h>

#include "finetune/evaluate.h"

/* Tokens, labels as classes, and the same labels as outputs of the head. */
static enum status take_rows(struct split *s, const struct classifier *c,
                             const struct examples *e, int64_t max_seq_length,
                             struct error *err) {
    TRY(input_read(&s->input, c->tokenizer, e, max_seq_length, device_threads(c->device),
                   err));
    s->labels = calloc(e->count, sizeof *s->labels);
    s->predictions = calloc(e->count, sizeof *s->predictions);
    s->outputs = calloc(e->count * (size_t)c->config.num_labels, sizeof *s->outputs);
    if (!s->labels || !s->predictions || !s->outputs)
        return error_set(err, ERR_MEMORY, "out of memory for %zu labels", e->count);
    for (size_t i = 0; i < e->count; i++) {
        float label = s->labels[i] = e->items[i].label;
        if (c->config.num_labels > 1) {
            assert(label >= 0 && label < (float)c->config.num_labels);
            s->input.labels[i] = (float)c->output_of_class[(int)label];
        }
    }
    input_sort(&s->input);
    return OK;
}

/* A sequence of exactly max_seq_length may or may not have been cut: "fill" is what is
 * known. */
static void notice_cut(const struct split *s, int64_t max_seq_length,
                       const struct notices *notices) {
    int64_t full = 0;
    for (int64_t i = 0; i < s->input.count; i++)
        full += input_length(&s->input, i) == max_seq_length;
    if (full > 0)
        notice(
            notices,
            "%s: %lld of %lld sequences fill max-seq-length %lld; longer texts are cut",
            s->name, (long long)full, (long long)s->input.count,
            (long long)max_seq_length);
}

enum status split_read(struct split *s, const struct task *task, const char *data,
                       const char *name, int64_t limit, int64_t max_seq_length,
                       const struct classifier *c, const struct notices *notices,
                       struct error *err) {
    struct examples e = {0};
    *s = (struct split){.name = name};
    TRY(task->read(task, data, name, limit, &e, notices, err));
    enum status status = OK;
    if (!e.labelled)
        status = error_set(err, ERR_INPUT, "%s: no labels in this file", e.path);
    else if (e.count == 0)
        status = error_set(err, ERR_INPUT, "%s: no rows in this file", e.path);
    else
        status = take_rows(s, c, &e, max_seq_length, err);
    examples_free(&e);
    if (status == OK)
        notice_cut(s, max_seq_length, notices);
    return status;
}

enum status split_evaluate(struct split *s, const struct task *task, struct classifier *c,
                           int64_t most, struct score *score, double *loss,
                           struct error *err) {
    int num_labels = c->config.num_labels;
    TRY(evaluate_outputs(c, &s->input, most, s->outputs, loss, err));
    *loss /= (double)s->input.count;
    for (int64_t i = 0; i < s->input.count; i++) {
        const float *row = s->outputs + i * num_labels;
        s->predictions[i] =
            num_labels == 1 ? row[0]
                            : (float)c->class_of_output[evaluate_argmax(row, num_labels)];
    }
    return task->score(task, s->predictions, s->labels, (size_t)s->input.count, score,
                       err);
}

float split_majority(const struct split *s, const struct task *task) {
    int64_t count[CLASSIFIER_MAX_LABELS] = {0};
    double sum = 0;
    int best = 0;
    for (int64_t i = 0; i < s->input.count; i++)
        if (task->num_labels == 1)
            sum += (double)s->labels[i];
        else
            count[(int)s->labels[i]]++;
    for (int k = 1; k < task->num_labels; k++)
        if (count[k] > count[best])
            best = k;
    return task->num_labels == 1 ? (float)(sum / (double)s->input.count) : (float)best;
}

enum status split_score_constant(struct split *s, const struct task *task,
                                 float prediction, struct score *score,
                                 struct error *err) {
    for (int64_t i = 0; i < s->input.count; i++)
        s->predictions[i] = prediction;
    return task->score(task, s->predictions, s->labels, (size_t)s->input.count, score,
                       err);
}

void split_free(struct split *s) {
    input_free(&s->input);
    free(s->labels);
    free(s->predictions);
    free(s->outputs);
    *s = (struct split){0};
}
