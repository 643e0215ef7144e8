/* trainer - the loop: step, accumulation, clipping, schedule, logging, evaluation, save
 * and resume.
 *
 * The job that owns the model gives callbacks; the trainer owns time. A step runs
 * `accumulation` micro-batches, each adding the gradient of its *summed* loss; the sum is
 * divided once by the step's number of targets, clipped by scale = min(1, max_grad_norm /
 * (norm + 1e-6)) and given to AdamW. A loss or norm that is not finite stops the run
 * before the update (ERR_NONFINITE), weights untouched. A step without a target changes
 * nothing. SIGINT or SIGTERM: the step is finished, saved, and the status is STOPPED_*.
 *
 * The output folder holds metrics.jsonl (the same bytes for an interrupted and an
 * uninterrupted run), timing.jsonl (what the clock said), run_config.json, checkpoints,
 * and at the end the final model and trainer_state.json. An evaluation always follows the
 * last step. */
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

/* Named figures. values[0] of an evaluation is what "best" is judged by. */
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
    /* Further figures for a line of the log; NULL = none. Called before the update of its
     * step: gradients times `scale` are those of the mean loss, before clipping. */
    void (*describe)(void *self, double scale, struct trainer_metrics *out);
    struct checkpoint_writer writer; /* config.json and tokenizer files */
    const char *fingerprint;  /* of data, model and options: must match on resume */
    const json_t *run_config; /* written to run_config.json once the folder is accepted;
                                 NULL = none */
};

struct trainer_options {
    const char *output;
    int64_t max_steps, accumulation;
    int64_t logging_steps, eval_steps, save_steps; /* 0 = only after the last step */
    int64_t keep_checkpoints;                      /* at least 2 */
    double max_grad_norm;                          /* 0 = no clipping */
    struct adamw adamw;
    struct schedule schedule;
    bool higher_is_better; /* values[0] of an evaluation */
    bool keep_best; /* the best evaluation's weights are the final model, else the last's
                     */
    const char *resume; /* "auto" = the newest valid checkpoint of the output, or a start
                           where there is none; "never"; or a checkpoint's directory */
    bool overwrite;     /* start anew in a folder with an older run: its checkpoints and
                           model go, nothing else */
    enum progress_mode progress;
};

struct trainer_result {
    int64_t step, best_step; /* best_step 0 = no evaluation was finite */
    struct trainer_metrics last, best;
    double seconds, tokens_per_second; /* of this process */
    double train_loss;                 /* mean over all targets of the run */
};

/* May a run write into options->output? ERR_USAGE when something is in it that neither
 * resume nor overwrite covers. trainer_run() asks the same; jobs ask before long work. */
enum status trainer_check_output(const struct trainer_options *options,
                                 struct error *err) MUST_CHECK;

/* Checks the output folder, resumes or starts, trains, leaves the final model in
 * options->output. */
enum status trainer_run(const struct trainer_options *options,
                        const struct trainer_job *job, struct parameters *p,
                        struct device *device, const struct notices *notices,
                        struct trainer_result *result, struct error *err) MUST_CHECK;

#endif
