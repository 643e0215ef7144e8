/* trainer_log - what a training tells: metrics.jsonl, timing.jsonl, lines and the bar.
 *
 * Nothing that a clock said goes into metrics.jsonl, so that its bytes are the same for
 * an interrupted and an uninterrupted run.
 *
 * metrics.jsonl: {"step", "loss", "grad_norm", "learning_rate", "num_input_tokens_seen"}
 * and the job's own figures every logging_steps, {"step", <metrics>} after an evaluation.
 * loss is the mean over all targets since the line before. timing.jsonl: {"step",
 * "seconds", "tokens_per_second"}, of one process. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "encoder/trainer_run.h"

double trainer_seconds(const struct run *r) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - r->started.tv_sec) +
           1e-9 * (double)(now.tv_nsec - r->started.tv_nsec);
}

static double tokens_per_second(const struct run *r) {
    double seconds = trainer_seconds(r);
    return seconds > 0 ? (double)r->tokens_here / seconds : 0;
}

static double mean_loss(const struct tally *t) {
    return t->targets ? t->loss_sum / (double)t->targets : NAN;
}

static void append(char *text, size_t size, const char *name, const char *between,
                   const char *value) {
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s%s", name, between, value);
}

/* ", \"name\": value" of each. */
static void format_members(char *members, size_t size, const struct trainer_metrics *m) {
    char number[32], name[48];
    members[0] = 0;
    for (int i = 0; i < m->count; i++) {
        snprintf(name, sizeof name, ", \"%s\"", m->values[i].name);
        append(members, size, name, ": ", runlog_number(number, m->values[i].value));
    }
}

static enum status log_metrics(struct run *r, struct error *err) {
    char loss[32], norm[32], rate[32], more[1024];
    format_members(more, sizeof more, &r->described);
    return runlog_line(r->metrics, err,
                       "\"step\": %lld, \"loss\": %s, \"grad_norm\": %s, "
                       "\"learning_rate\": %s, \"num_input_tokens_seen\": %lld%s",
                       (long long)r->step, runlog_number(loss, mean_loss(&r->line)),
                       runlog_number(norm, r->gradient_norm),
                       runlog_number(rate, r->learning_rate), (long long)r->total.tokens,
                       more);
}

enum status trainer_log_training(struct run *r, struct error *err) {
    char seconds[32], rate[32];
    TRY(log_metrics(r, err));
    TRY(runlog_line(r->timing, err,
                    "\"step\": %lld, \"seconds\": %s, \"tokens_per_second\": %s",
                    (long long)r->step, runlog_number(seconds, trainer_seconds(r)),
                    runlog_number(rate, tokens_per_second(r))));
    notice(r->notices,
           "step %lld/%lld  loss %.4f  grad norm %.3g  learning rate %.3g  %.0f tokens/s",
           (long long)r->step, (long long)r->options->max_steps, mean_loss(&r->line),
           r->gradient_norm, r->learning_rate, tokens_per_second(r));
    r->line = (struct tally){0};
    return OK;
}

enum status trainer_log_evaluation(struct run *r, bool is_best, struct error *err) {
    char members[1024], told[1024] = "", number[32], name[48];
    format_members(members, sizeof members, &r->last);
    for (int i = 0; i < r->last.count; i++) {
        snprintf(number, sizeof number, "%.5g", r->last.values[i].value);
        snprintf(name, sizeof name, "  %s", r->last.values[i].name);
        append(told, sizeof told, name, " ", number);
    }
    const char *better = r->options->higher_is_better ? "highest" : "lowest";
    notice(r->notices, "step %lld/%lld%s%s%s%s%s%s", (long long)r->step,
           (long long)r->options->max_steps, told, is_best ? "  (" : "",
           is_best ? better : "", is_best ? " " : "",
           is_best ? r->last.values[0].name : "", is_best ? " so far)" : "");
    return runlog_line(r->metrics, err, "\"step\": %lld%s", (long long)r->step, members);
}

/* The bar shows the loss since the last line of the log, or of the run just after one. */
void trainer_show_progress(struct run *r) {
    char detail[96];
    snprintf(detail, sizeof detail, "loss %.4f, %.0f tokens/s",
             mean_loss(r->line.targets ? &r->line : &r->total), tokens_per_second(r));
    progress_update(r->progress, (uint64_t)r->step, detail);
}
