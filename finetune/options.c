/* options - the rows of `normglue finetune`, which `glue run` offers too.
 *
 * A row is all there is to an option: parsing, bounds, --help, config files,
 * run_config.json and the manual walk them (base/options). Names are transformers' where
 * it has the option. Unset numbers take the task's own default (glue/tasks.c) or the
 * model's (dropout), which is why their default here is NULL.
 *
 * Defaults that no task has an opinion on are those of RoBERTa's fine-tuning
 * (arXiv:1907.11692, appendix C, and fairseq's configurations): AdamW's betas 0.9 and
 * 0.98, epsilon 1e-6, weight decay 0.1, no clipping. */
#include <float.h>

#include "encoder/schedule.h"
#include "finetune/finetune.h"

#define FIELD(name) offsetof(struct finetune_options, name)

static const char data[] = "Data", model[] = "Model", optimisation[] = "Optimisation",
                  evaluation[] = "Evaluation and checkpoints", run[] = "Run";

const struct option finetune_option_table[] = {
    {"task", OPTION_STRING, FIELD(task), NULL, 0, 0, "NAME", data,
     "task to train on (rte, sst2 ...; a wrong name gets the list)", true},
    {"data", OPTION_STRING, FIELD(data), NULL, 0, 0, "DIR", data,
     "folder with the tasks' official folders (RTE/train.tsv ...)", true},
    {"max-seq-length", OPTION_INTEGER, FIELD(max_seq_length), "128", 5, 1 << 20, NULL,
     data, "tokens of a sequence with its specials; longer texts are cut", false},
    {"max-train-samples", OPTION_INTEGER, FIELD(max_train_samples), "0", 0, 1e12, NULL,
     data, "train on the first rows only; 0 = all", false},
    {"max-eval-samples", OPTION_INTEGER, FIELD(max_eval_samples), "0", 0, 1e12, NULL,
     data, "evaluate on the first rows only; 0 = all", false},
    {"model", OPTION_STRING, FIELD(model), NULL, 0, 0, "DIR", model,
     "pretrained or fine-tuned model directory to start from", true},
    {"output", OPTION_STRING, FIELD(output), NULL, 0, 0, "DIR", model,
     "where the best model, its scores and the checkpoints go", true},
    {"hidden-dropout-prob", OPTION_NUMBER, FIELD(hidden_dropout_prob), NULL, 0, 0.99,
     NULL, model, "dropout after embeddings and both sublayers; unset = the model's",
     false},
    {"attention-probs-dropout-prob", OPTION_NUMBER, FIELD(attention_probs_dropout_prob),
     NULL, 0, 0.99, NULL, model, "dropout of attention weights; unset = the model's",
     false},
    {"classifier-dropout", OPTION_NUMBER, FIELD(classifier_dropout), NULL, 0, 0.99, NULL,
     model, "dropout in the classification head; unset = hidden-dropout-prob", false},
    {"norm-statistics", OPTION_CHOICE, FIELD(norm_statistics), "freeze", 0, 0,
     "freeze|update", model,
     "running statistics of bn, pn, un: kept, and trained on, or moved by each batch",
     false},
    {"learning-rate", OPTION_NUMBER, FIELD(learning_rate), NULL, 0, 1e3, NULL,
     optimisation, "peak learning rate; unset = the task's", false},
    {"per-device-train-batch-size", OPTION_INTEGER, FIELD(per_device_train_batch_size),
     NULL, 1, 65536, NULL, optimisation, "sequences a batch; unset = the task's", false},
    {"max-tokens", OPTION_INTEGER, FIELD(max_tokens), "0", 0, 1e9, NULL, optimisation,
     "most tokens worked on at once: a larger batch goes through in parts, its short "
     "sequences together, for less memory and the same gradient; 0 = no limit",
     false},
    {"gradient-accumulation-steps", OPTION_INTEGER, FIELD(gradient_accumulation_steps),
     "1", 1, 65536, NULL, optimisation, "batches a step", false},
    {"num-train-epochs", OPTION_NUMBER, FIELD(num_train_epochs), NULL, 1e-6, 1e6, NULL,
     optimisation, "passes over the training rows; unset = the task's", false},
    {"max-steps", OPTION_INTEGER, FIELD(max_steps), NULL, 1, 1e12, NULL, optimisation,
     "steps in all, instead of num-train-epochs", false},
    {"warmup-ratio", OPTION_NUMBER, FIELD(warmup_ratio), NULL, 0, 1, NULL, optimisation,
     "share of the steps that the learning rate rises; unset = the task's", false},
    {"warmup-steps", OPTION_INTEGER, FIELD(warmup_steps), NULL, 0, 1e12, NULL,
     optimisation, "the same in steps, instead of warmup-ratio", false},
    {"lr-scheduler-type", OPTION_CHOICE, FIELD(lr_scheduler_type), "linear", 0, 0,
     schedule_kinds, optimisation, "course of the learning rate after the warm-up",
     false},
    {"weight-decay", OPTION_NUMBER, FIELD(weight_decay), "0.1", 0, 1e3, NULL,
     optimisation, "decoupled weight decay; biases and norms are never decayed", false},
    {"adam-beta1", OPTION_NUMBER, FIELD(adam_beta1), "0.9", 0, 1 - DBL_EPSILON, NULL,
     optimisation, "decay of AdamW's mean of gradients", false},
    {"adam-beta2", OPTION_NUMBER, FIELD(adam_beta2), "0.98", 0, 1 - DBL_EPSILON, NULL,
     optimisation, "decay of AdamW's mean of squared gradients", false},
    {"adam-epsilon", OPTION_NUMBER, FIELD(adam_epsilon), "1e-6", 1e-30, 1, NULL,
     optimisation, "added to the root of AdamW's squared gradients", false},
    {"max-grad-norm", OPTION_NUMBER, FIELD(max_grad_norm), "0", 0, 1e9, NULL,
     optimisation, "gradients are scaled down to this norm; 0 = never", false},
    {"per-device-eval-batch-size", OPTION_INTEGER, FIELD(per_device_eval_batch_size),
     "64", 1, 65536, NULL, evaluation, "most sequences a batch of evaluation", false},
    {"eval-steps", OPTION_INTEGER, FIELD(eval_steps), NULL, 1, 1e12, NULL, evaluation,
     "evaluate every so many steps; unset = each epoch", false},
    {"save-steps", OPTION_INTEGER, FIELD(save_steps), NULL, 1, 1e12, NULL, evaluation,
     "checkpoint every so many steps; unset = each epoch", false},
    {"save-total-limit", OPTION_INTEGER, FIELD(save_total_limit), "2", 2, 1e6, NULL,
     evaluation, "checkpoints kept, besides the best one", false},
    {"logging-steps", OPTION_INTEGER, FIELD(logging_steps), "50", 1, 1e12, NULL,
     evaluation, "log loss and learning rate every so many steps", false},
    {"resume", OPTION_STRING, FIELD(resume), "never", 0, 0, "auto|never|DIR", evaluation,
     "go on from the newest valid checkpoint in the output folder, or from DIR", false},
    {"overwrite", OPTION_FLAG, FIELD(overwrite), "false", 0, 0, NULL, evaluation,
     "use an output folder that is not empty", false},
    {"seed", OPTION_INTEGER, FIELD(seed), "42", 0, 4294967295.0, NULL, run,
     "of the new head, the order of rows and dropout", false},
    {"dtype", OPTION_CHOICE, FIELD(dtype), "auto", 0, 0, DEVICE_DTYPES, run,
     DEVICE_DTYPE_HELP, false},
    {"threads", OPTION_INTEGER, FIELD(threads), "0", 0, 4096, NULL, run,
     "threads; 0 = as many as the process may use", false},
    {"progress", OPTION_CHOICE, FIELD(progress), "auto", 0, 0, PROGRESS_WORDS, run,
     "progress bar; auto = on a terminal", false},
    {NULL, OPTION_FLAG, 0, NULL, 0, 0, NULL, NULL, NULL, false},
};
