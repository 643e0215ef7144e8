/* trainer - the loop: step, accumulation, clipping, schedule, logging, evaluation, save
 * and resume.
 *
 * The job that owns the model gives callbacks; the trainer owns time. A step runs
 * `accumulation` micro-batches, each adding the gradient of its *summed* loss; the sum is
 * divided once by the step's number of targets, clipped by scale = min(1, max_grad_norm /
 * (norm + 1e-6)) and given to AdamW. A loss or norm that is not finite stops the run
 * before the update (ERR_NONFINITE), weights untouched. SIGINT or SIGTERM: the step is
 * finished, saved, and the status is STOPPED_*. */
#ifndef ENCODER_TRAINER_H
#define ENCODER_TRAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/notice.h"
#include "base/options.h"
#include "base/progress.h"
#include "encoder/adamw.h"
#include "encoder/checkpoint.h"
#include "encoder/onednn.h"
#include "encoder/parameters.h"
#include "encoder/schedule.h"

/* What one micro-batch did. */
struct trainer_micro {
    double loss_sum;     /* over targets, natural log */
    int64_t num_targets; /* masked tokens or examples */
    int64_t num_tokens;  /* for the rate */
};

/* An evaluation's figures. values[0] is what "best" is judged by. */
struct trainer_metrics {
    int count;
    struct {
        char name[32]; /* "eval_loss" */
        double value;
    } values[12];
};

struct trainer_job {
    void *self;
    /* Forward and backward of micro-batch `micro` of step `step` (from 1), gradients
     * added. */
    enum status (*micro)(void *self, int64_t step, int micro, struct trainer_micro *out,
                         struct error *err);
    /* NULL = never evaluated. */
    enum status (*evaluate)(void *self, int64_t step, struct trainer_metrics *out,
                            struct error *err);
    struct checkpoint_writer writer; /* config.json and tokenizer files */
    const char *fingerprint; /* of data, model and options: must match on resume */
};

struct trainer_options {
    const char *output;
    int64_t max_steps, accumulation, logging_steps, eval_steps, save_steps,
        keep_checkpoints;
    double max_grad_norm; /* 0 = no clipping */
    struct adamw adamw;
    struct schedule schedule;
    bool higher_is_better; /* values[0] of an evaluation */
    bool keep_best; /* the best evaluation's weights are the final model, else the last's
                     */
    const char *resume; /* "auto", "never" or a directory */
    bool overwrite;     /* an output folder with something in it */
    enum progress_mode progress;
};

struct trainer_result {
    int64_t step, best_step;
    struct trainer_metrics last, best;
    double seconds, tokens_per_second, train_loss;
};

/* Checks the output folder, resumes or starts, trains, leaves the final model in
 * options->output. */
enum status trainer_run(const struct trainer_options *options,
                        const struct trainer_job *job, struct parameters *p,
                        struct device *device, const struct notices *notices,
                        struct trainer_result *result, struct error *err) MUST_CHECK;

#endif
