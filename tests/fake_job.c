/* fake_job - a training that takes microseconds.
 *
 * What is asked of a run (a NaN, a signal, a score) is a field of struct fake_job that
 * the callbacks look at; the trainer itself runs unchanged. */
#include "tests/fake_job.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "tests/support.h"

static double target_of(const struct parameter *row, size_t i) {
    return sin((double)i + (double)row->count);
}

/* Half the squared distance to the targets, a gradient with noise. */
static double pull(struct fake_job *f, int64_t step, int micro, double weight) {
    double loss = 0;
    for (int r = 0; r < f->parameters.count; r++) {
        struct parameter *row = f->parameters.rows[r];
        struct rng stream = rng_stream(7, RNG_TEST, (uint32_t)r, (uint64_t)step);
        for (size_t i = 0; i < row->count; i++) {
            double distance = (double)row->value[i] - target_of(row, i);
            uint32_t word = rng_draw(stream, (uint32_t)i, (uint32_t)micro, 0, 0).word[0];
            double noise = (double)rng_uniform(word) - 0.5;
            row->gradient[i] += (float)(weight * (distance + noise));
            loss += distance * distance / 2;
        }
    }
    return weight * loss;
}

static void poison(struct fake_job *f, int64_t step, double *loss) {
    if (step != f->poison.step)
        return;
    struct parameter *row = f->parameters.rows[1];
    if (f->poison.what == POISON_LOSS)
        *loss = NAN;
    if (f->poison.what == POISON_GRADIENT)
        row->gradient[3] = NAN;
    if (f->poison.what == POISON_WEIGHT)
        row->value[3] = NAN;
}

static enum status micro(void *self, int64_t step, int number, struct trainer_micro *out,
                         struct error *err) {
    struct fake_job *f = self;
    (void)err;
    if (f->signal && step == f->signal_step && number == 0)
        raise(f->signal);
    out->num_targets = f->targets[number];
    out->num_tokens = 10 * f->targets[number];
    out->loss_sum = pull(f, step, number, (double)f->targets[number]);
    poison(f, step, &out->loss_sum);
    return OK;
}

static enum status evaluate(void *self, int64_t step, struct trainer_metrics *out,
                            struct error *err) {
    struct fake_job *f = self;
    double distance = 0;
    (void)err;
    for (int r = 0; r < f->parameters.count; r++)
        for (size_t i = 0; i < f->parameters.rows[r]->count; i++)
            distance += fabs((double)f->parameters.rows[r]->value[i] -
                             target_of(f->parameters.rows[r], i));
    *out = (struct trainer_metrics){2,
                                    {{"eval_loss", f->score ? f->score(step) : distance},
                                     {"eval_distance", distance}}};
    return OK;
}

/* config.json alone: a model directory as far as the trainer is concerned. */
static enum status write_files(void *self, const char *directory, struct error *err) {
    struct fake_job *f = self;
    return config_write(&f->config, directory, "MaskedLM", err);
}

static void hear(void *self, const char *text) {
    struct fake_job *f = self;
    size_t used = strlen(f->told);
    snprintf(f->told + used, sizeof f->told - used, "%s\n", text);
}

static void declare(struct fake_job *f) {
    struct error err;
    struct parameter_spec weight = {.init = PARAMETER_LINEAR, .decay = true},
                          head = {.init = PARAMETER_ZERO, .is_head = true};
    config_default(&f->config);
    parameters_add(&f->parameters, weight, 7, 5, "roberta.a.weight");
    parameters_add(&f->parameters, weight, 9, 0, "roberta.a.bias");
    parameters_add(&f->parameters, head, 3, 2, "classifier.dense.weight");
    SUPPORT_OK(parameters_allocate(&f->parameters, true, &err), err);
    parameters_initialise(&f->parameters, &f->config, 1);
}

void fake_job_open(struct fake_job *f, const char *output) {
    *f = (struct fake_job){.targets = {3, 1}};
    declare(f);
    f->notices = (struct notices){hear, f};
    f->job = (struct trainer_job){.self = f,
                                  .micro = micro,
                                  .evaluate = evaluate,
                                  .writer = {write_files, f},
                                  .fingerprint = "fake-1"};
    f->options = (struct trainer_options){
        .output = output,
        .max_steps = 40,
        .accumulation = 2,
        .logging_steps = 3,
        .eval_steps = 10,
        .save_steps = 5,
        .keep_checkpoints = 2,
        .max_grad_norm = 1,
        .adamw = {.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0.01},
        .schedule = {.kind = "linear", .peak = 0.05, .warmup_steps = 4, .max_steps = 40},
        .resume = "never",
        .progress = PROGRESS_NEVER,
    };
}

enum status fake_job_run(struct fake_job *f, struct error *err) {
    return trainer_run(&f->options, &f->job, &f->parameters, NULL, &f->notices,
                       &f->result, err);
}

void fake_job_close(struct fake_job *f) { parameters_free(&f->parameters); }
