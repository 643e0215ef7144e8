/* finetune - the job: a pretrained directory and a task in, the best model on dev out. */
#ifndef FINETUNE_FINETUNE_H
#define FINETUNE_FINETUNE_H

#include "base/options.h"
#include "encoder/onednn.h"
#include "encoder/trainer.h"
#include "finetune/task.h"

/* Values of the options table of `normglue finetune`; NaN or OPTION_UNSET_INTEGER = the
 * task's default. */
struct finetune_options {
    struct options_state *state; /* base/options keeps it first */
    const char *model, *task, *data, *output, *resume, *lr_scheduler_type, *progress,
        *norm_statistics, *dtype;
    double learning_rate, num_train_epochs, warmup_ratio, weight_decay, adam_beta1,
        adam_beta2, adam_epsilon, max_grad_norm, classifier_dropout, hidden_dropout_prob,
        attention_probs_dropout_prob;
    int64_t max_seq_length, per_device_train_batch_size, per_device_eval_batch_size,
        gradient_accumulation_steps, max_steps, warmup_steps, eval_steps, logging_steps,
        save_steps, save_total_limit, max_tokens, max_train_samples, max_eval_samples,
        seed, threads;
    bool overwrite;
};
extern const struct option finetune_option_table[]; /* glue run offers the same rows */

struct finetune_split_result {
    char split[32];
    int64_t rows;
    double loss;
    struct score score,
        majority; /* majority: the most frequent train label (mean score) for all rows */
};
struct finetune_result {
    struct finetune_split_result splits[2];
    int num_splits;
    int64_t train_rows, max_steps, best_step;
    double seconds;
    char model_type[32], arch[32];
};

/* Runs the job and leaves in options->output: the best model (labels in id2label),
 * eval_results.json, metrics.jsonl, run_config.json, checkpoints. Scores are of the best
 * model. */
enum status finetune_run(const struct finetune_options *options, const struct task *task,
                         struct device *device, const struct notices *notices,
                         struct finetune_result *result, struct error *err) MUST_CHECK;

/* normglue finetune; normglue predict */
int finetune_command(int argc, char **argv, struct task_list tasks);
int predict_command(int argc, char **argv);

#endif
