/* job - one masked-LM pretraining: text in, a model directory out. */
#ifndef PRETRAIN_JOB_H
#define PRETRAIN_JOB_H

#include "base/notice.h"
#include "encoder/trainer.h"
#include "pretrain/options.h"

struct job_result {
    struct trainer_result training;
    double unigram_loss; /* of the validation targets; NaN without --valid */
};

/* Tokenises, trains, and leaves in options->output the final model, eval_results.json
 * (with --valid), metrics.jsonl, run_config.json and checkpoints. `notices` gets the plan
 * before the first step. */
enum status job_run(const struct command *command, const struct pretrain_options *options,
                    const struct notices *notices, struct job_result *result,
                    struct error *err) MUST_CHECK;

#endif
