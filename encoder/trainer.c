/* trainer - the loop: step, accumulation, clipping, schedule, logging, evaluation, save
 * and resume.
 *
 * A step: micro-batches add gradients of summed losses; one division by all targets of
 * the step makes the mean, so that accumulation over unequal micro-batches equals the big
 * batch. The division and the clipping are one scale that AdamW multiplies while it
 * reads.
 *
 * What is due after a step goes in a fixed order: log, evaluation, checkpoint. A
 * checkpoint therefore holds all that was logged up to its step, and metrics.jsonl can be
 * cut back to it. A new best evaluation is saved at once when the best is to be the final
 * model. */
#include "encoder/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/json_file.h"
#include "base/memory.h"
#include "encoder/checkpoint_folders.h"
#include "encoder/trainer_run.h"

static int threads_of(const struct run *r) {
    return r->device ? device_threads(r->device) : 1;
}

static bool all_finite(const float *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

/* The sentence for a loss or norm that is not finite, with the first tensor that is not.
 */
static enum status not_finite(const struct run *r, int64_t step, const char *what,
                              double value, struct error *err) {
    const struct parameters *p = r->parameters;
    const char *kind = NULL, *name = NULL;
    for (int i = 0; i < p->count && !name; i++) {
        const struct parameter *row = p->rows[i];
        kind = !all_finite(row->value, row->count)                       ? "weight"
               : row->gradient && !all_finite(row->gradient, row->count) ? "gradient of"
                                                                         : NULL;
        name = kind ? row->name : NULL;
    }
    return error_set(
        err, ERR_NONFINITE, "step %lld: %s is %g%s%s%s%s%s: stopped before the update",
        (long long)step, what, value, name ? " (first in " : "", name ? kind : "",
        name ? " " : "", name ? name : "", name ? ")" : "");
}

static enum status run_micros(struct run *r, int64_t step, struct tally *sum,
                              struct error *err) {
    for (int m = 0; m < r->options->accumulation; m++) {
        struct trainer_micro micro = {0};
        TRY(r->job->micro(r->job->self, step, m, &micro, err));
        if (r->device)
            TRY(device_check(r->device, err));
        if (!isfinite(micro.loss_sum))
            return not_finite(r, step, "the loss", micro.loss_sum, err);
        sum->loss_sum += micro.loss_sum;
        sum->targets += micro.num_targets;
        sum->tokens += micro.num_tokens;
    }
    return OK;
}

/* Is something done every `interval` steps due? Always after the last one. */
static bool is_due(const struct run *r, int64_t step, int64_t interval) {
    return step == r->options->max_steps || (interval > 0 && step % interval == 0);
}

/* The gradient of the mean loss, clipped, into AdamW. */
static enum status update(struct run *r, int64_t step, int64_t targets,
                          struct error *err) {
    const struct trainer_options *o = r->options;
    double scale = 1.0 / (double)targets;
    parameters_center_gradients(r->parameters, threads_of(r));
    double norm = adamw_gradient_norm(r->parameters, scale, threads_of(r));
    if (!isfinite(norm))
        return not_finite(r, step, "the gradient's norm", norm, err);
    if (r->job->describe && is_due(r, step, o->logging_steps))
        r->job->describe(r->job->self, scale, &r->described);
    if (o->max_grad_norm > 0 && o->max_grad_norm < norm + 1e-6)
        scale *= o->max_grad_norm / (norm + 1e-6);
    struct adamw rule = o->adamw;
    rule.learning_rate = schedule_rate(&o->schedule, step);
    adamw_update(r->parameters, &rule, scale, step, threads_of(r));
    parameters_center_values(r->parameters, threads_of(r));
    r->learning_rate = rule.learning_rate;
    r->gradient_norm = norm;
    return OK;
}

static void add_tally(struct tally *to, const struct tally *from) {
    to->loss_sum += from->loss_sum;
    to->targets += from->targets;
    to->tokens += from->tokens;
}

/* A step without targets (no token was masked) has no gradient and no loss. */
static enum status step(struct run *r, struct error *err) {
    struct tally sum = {0};
    int64_t number = r->step + 1;
    r->described = (struct trainer_metrics){0};
    TRY(run_micros(r, number, &sum, err));
    if (sum.targets > 0)
        TRY(update(r, number, sum.targets, err));
    else
        parameters_clear_gradients(r->parameters);
    add_tally(&r->total, &sum);
    add_tally(&r->line, &sum);
    r->tokens_here += sum.tokens;
    r->step = number;
    return OK;
}

/* A NaN is never the best; the direction is an option, never guessed from a name. */
static bool is_better(const struct run *r, double value) {
    if (!isfinite(value))
        return false;
    double best = r->best.values[0].value;
    return r->best_step == 0 ||
           (r->options->higher_is_better ? value > best : value < best);
}

static enum status evaluate(struct run *r, bool *is_best, struct error *err) {
    struct trainer_metrics metrics = {0};
    progress_hide(r->progress);
    TRY(r->job->evaluate(r->job->self, r->step, &metrics, err));
    r->last = metrics;
    *is_best = metrics.count > 0 && is_better(r, metrics.values[0].value);
    if (*is_best) {
        r->best = metrics;
        r->best_step = r->step;
    }
    return trainer_log_evaluation(r, *is_best, err);
}

/* The log is on disk before the checkpoint that records its length. */
static enum status save(struct run *r, struct error *err) {
    json_t *state;
    progress_hide(r->progress);
    TRY(runlog_sync(r->metrics, err));
    TRY(trainer_state_make(r, &state, err));
    enum status status = checkpoint_save(
        r->options->output, r->step, r->parameters, state, r->job->writer,
        (int)r->options->keep_checkpoints, r->best_step ? r->best_step : -1, err);
    json_decref(state);
    r->saved_step = status == OK ? r->step : r->saved_step;
    return status;
}

/* What follows an update: the log, an evaluation, a checkpoint. */
static enum status after_step(struct run *r, struct error *err) {
    bool is_best = false;
    trainer_show_progress(r);
    if (is_due(r, r->step, r->options->logging_steps))
        TRY(trainer_log_training(r, err));
    if (r->job->evaluate && is_due(r, r->step, r->options->eval_steps))
        TRY(evaluate(r, &is_best, err));
    bool wanted = interrupt_save() || interrupt_stop() != OK;
    if (wanted || is_due(r, r->step, r->options->save_steps) ||
        (is_best && r->options->keep_best))
        TRY(save(r, err));
    return OK;
}

static enum status train(struct run *r, struct error *err) {
    while (r->step < r->options->max_steps) {
        TRY(step(r, err));
        TRY(after_step(r, err));
        enum status stop = interrupt_stop();
        if (stop == OK || r->step == r->options->max_steps)
            continue;
        if (r->saved_step != r->step) /* the signal came during the last save */
            TRY(save(r, err));
        return error_set(err, stop,
                         "stopped by a signal at step %lld of %lld, saved: "
                         "continue with --resume auto",
                         (long long)r->step, (long long)r->options->max_steps);
    }
    return OK;
}

static enum status load_best(struct run *r, struct error *err) {
    char path[PATH_BYTES];
    json_t *state = NULL;
    TRY(checkpoint_folder_path(path, r->options->output, r->best_step, err));
    enum status status = checkpoint_load(path, r->parameters, &state, err);
    json_decref(state);
    return status;
}

/* The final model and the state of the whole run, into the output folder itself. The
 * state is made first: the best weights replace the last ones in memory. */
static enum status finish(struct run *r, struct error *err) {
    char path[PATH_BYTES];
    json_t *state;
    TRY(trainer_state_make(r, &state, err));
    enum status status = OK;
    if (r->options->keep_best && r->best_step && r->best_step != r->step)
        status = load_best(r, err);
    if (status == OK)
        status =
            checkpoint_save_model(r->options->output, r->parameters, r->job->writer, err);
    if (status == OK)
        status = file_join(path, r->options->output, "trainer_state.json", err);
    if (status == OK)
        status = json_file_write(state, path, err);
    json_decref(state);
    return status;
}

static void take_result(const struct run *r, struct trainer_result *result) {
    double seconds = trainer_seconds(r);
    *result = (struct trainer_result){
        .step = r->step,
        .best_step = r->best_step,
        .last = r->last,
        .best = r->best,
        .seconds = seconds,
        .tokens_per_second = seconds > 0 ? (double)r->tokens_here / seconds : 0,
        .train_loss =
            r->total.targets ? r->total.loss_sum / (double)r->total.targets : NAN,
    };
}

static enum status run(struct run *r, struct error *err) {
    TRY(trainer_start(r, err));
    parameters_clear_gradients(r->parameters);
    clock_gettime(CLOCK_MONOTONIC, &r->started);
    r->progress = progress_open(r->options->progress, "training", "steps",
                                (uint64_t)r->options->max_steps);
    /* All of it has been touched: steps take no more. */
    notice(r->notices, "memory: %.0f MB in use", (double)memory_peak() / 1e6);
    TRY(train(r, err));
    return finish(r, err);
}

enum status trainer_run(const struct trainer_options *options,
                        const struct trainer_job *job, struct parameters *p,
                        struct device *device, const struct notices *notices,
                        struct trainer_result *result, struct error *err) {
    struct run r = {.options = options,
                    .job = job,
                    .parameters = p,
                    .device = device,
                    .notices = notices,
                    .saved_step = -1,
                    .lock = -1};
    enum status status = run(&r, err);
    progress_close(r.progress);
    runlog_close(r.metrics);
    runlog_close(r.timing);
    if (r.lock >= 0)
        close(r.lock);
    take_result(&r, result);
    return status;
}
