/* trainer_run - what a running training holds.
 *
 * Private to encoder/trainer*.c: trainer.c has the loop, trainer_folder.c the output
 * folder, trainer_state.c what is saved and resumed, trainer_log.c what is told. */
#ifndef ENCODER_TRAINER_RUN_H
#define ENCODER_TRAINER_RUN_H

#include <time.h>

#include "base/runlog.h"
#include "encoder/trainer.h"

/* Targets with their summed loss. */
struct tally {
    double loss_sum;
    int64_t targets, tokens;
};

struct run {
    const struct trainer_options *options;
    const struct trainer_job *job;
    struct parameters *parameters;
    struct device *device;
    const struct notices *notices;

    int64_t step;             /* updates done */
    struct tally total, line; /* of the run; since the last line of metrics.jsonl */
    double learning_rate, gradient_norm; /* of the last update */
    int64_t best_step;                   /* 0 = none */
    struct trainer_metrics last, best;
    struct trainer_metrics described; /* of this step, where its line is due */
    int64_t saved_step;               /* -1 = none */
    int lock;                         /* descriptor of the output folder; -1 = none */

    struct runlog *metrics, *timing;
    struct progress *progress;
    struct timespec started;
    int64_t tokens_here; /* tokens of this process */
};

/* Resumes or starts: fills the state, opens the logs, writes run_config.json. */
enum status trainer_start(struct run *r, struct error *err) MUST_CHECK;
/* Removes what killed processes and, with overwrite, an older run left. */
enum status trainer_clean_folder(const struct trainer_options *options, bool anew,
                                 struct error *err) MUST_CHECK;

/* trainer_state.json: HF's fields, ours under stateful_callbacks. Caller owns *state. */
enum status trainer_state_make(const struct run *r, json_t **state,
                               struct error *err) MUST_CHECK;
/* ERR_INCOMPATIBLE when another run made it. *offset is the length of metrics.jsonl. */
enum status trainer_state_read(struct run *r, const json_t *state, const char *path,
                               uint64_t *offset, struct error *err) MUST_CHECK;

/* Since the first step of this process. */
double trainer_seconds(const struct run *r);
/* A line of metrics.jsonl, one of timing.jsonl, a notice; the tally since the last line
 * begins anew. The second: a line for r->last. */
enum status trainer_log_training(struct run *r, struct error *err) MUST_CHECK;
enum status trainer_log_evaluation(struct run *r, bool is_best,
                                   struct error *err) MUST_CHECK;
void trainer_show_progress(struct run *r);

#endif
