/* fake_job - a training that takes microseconds: a few parameters drawn to fixed targets
 * by noisy gradients, which are functions of the step alone.
 *
 * The trainer's rules (what is saved when, what a resume restores, when a run stops) do
 * not depend on the model: here a step costs microseconds, so that a test can kill and
 * resume a whole training at every step.
 *
 *   loss of a micro-batch   targets (|w - t|^2) / 2, summed over all values
 *   gradient                targets (w - t + noise), noise by (step, micro-batch, value)
 */
#ifndef TESTS_FAKE_JOB_H
#define TESTS_FAKE_JOB_H

#include "encoder/trainer.h"

struct fake_job {
    struct config config;
    struct parameters parameters;
    struct trainer_job job;
    struct trainer_options options; /* 40 steps, a checkpoint every 5, evaluation too */
    struct trainer_result result;
    struct notices notices; /* into `told` */
    char told[8192];
    int64_t targets[2]; /* of the two micro-batches of a step */
    int64_t signal_step;
    int signal; /* raised within that step */
    struct {
        int64_t step;
        enum { POISON_NOTHING, POISON_LOSS, POISON_GRADIENT, POISON_WEIGHT } what;
    } poison;                      /* a NaN */
    double (*score)(int64_t step); /* values[0] of evaluations; NULL = the distance */
};

void fake_job_open(struct fake_job *f, const char *output);
enum status fake_job_run(struct fake_job *f, struct error *err);
void fake_job_close(struct fake_job *f);

#endif
