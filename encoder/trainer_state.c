/* trainer_state - trainer_state.json: everything that a run needs to go on, beside
 * weights and moments.
 *
 * The top level has the fields of transformers' TrainerState and nothing else, because
 * its reader refuses others; ours stand under stateful_callbacks, where it keeps what it
 * does not know. Random numbers have no state: they are functions of the step.
 *
 * Doubles are written with 17 digits and read back exactly. The tallies since the last
 * line of the log are saved too, so that the first line after a resume is the one that
 * would have been written. log_history is read from metrics.jsonl: nothing grows in
 * memory during a run. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/json_file.h"
#include "encoder/trainer_run.h"

#define OURS "normglue"

static json_t *number_or_null(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *metrics_json(const struct trainer_metrics *m) {
    json_t *object = json_object();
    for (int i = 0; i < m->count; i++)
        json_object_set_new(object, m->values[i].name,
                            number_or_null(m->values[i].value));
    return object;
}

static json_t *tally_json(const struct tally *t) {
    return json_pack("{s:f, s:I, s:I}", "loss_sum", t->loss_sum, "targets",
                     (json_int_t)t->targets, "tokens", (json_int_t)t->tokens);
}

static const char *describe(const struct run *r) {
    return r->device ? device_description(r->device) : "";
}

static json_t *own_json(const struct run *r) {
    return json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "fingerprint",
                     r->job->fingerprint, "device", describe(r), "metrics_offset",
                     (json_int_t)runlog_offset(r->metrics), "total",
                     tally_json(&r->total), "line", tally_json(&r->line), "learning_rate",
                     number_or_null(r->learning_rate), "gradient_norm",
                     number_or_null(r->gradient_norm), "best", metrics_json(&r->best),
                     "last", metrics_json(&r->last));
}

/* The lines of metrics.jsonl are HF's log_history. */
static enum status read_history(const struct run *r, json_t *history, struct error *err) {
    char path[PATH_BYTES], *line;
    size_t length;
    struct reader *reader;
    TRY(file_join(path, r->options->output, "metrics.jsonl", err));
    TRY(reader_open(&reader, path, err));
    enum status status;
    while ((status = reader_line(reader, &line, &length, err)) == OK && line) {
        json_t *entry;
        status = json_file_parse(&entry, path, line, length, err);
        if (status != OK)
            break;
        json_array_append_new(history, entry);
    }
    reader_close(reader);
    return status;
}

static json_t *best_name(const struct run *r) {
    return r->best_step ? json_sprintf("checkpoint-%lld", (long long)r->best_step)
                        : json_null();
}

static json_t *state_json(const struct run *r, json_t *history) {
    const struct trainer_options *o = r->options;
    json_t *best = r->best_step ? number_or_null(r->best.values[0].value) : json_null();
    return json_pack(
        "{s:I, s:o, s:o, s:n, s:I, s:I, s:b, s:b, s:b, s:o, s:I, s:I, s:I, s:i, s:I, "
        "s:{s:o}, s:i, s:n, s:n, s:n}",
        "best_global_step", (json_int_t)r->best_step, "best_metric", best,
        "best_model_checkpoint", best_name(r), "epoch", "eval_steps",
        (json_int_t)o->eval_steps, "global_step", (json_int_t)r->step,
        "is_hyper_param_search", 0, "is_local_process_zero", 1, "is_world_process_zero",
        1, "log_history", history, "logging_steps", (json_int_t)o->logging_steps,
        "max_steps", (json_int_t)o->max_steps, "num_input_tokens_seen",
        (json_int_t)r->total.tokens, "num_train_epochs", 0, "save_steps",
        (json_int_t)o->save_steps, "stateful_callbacks", OURS, own_json(r), "total_flos",
        0, "train_batch_size", "trial_name", "trial_params");
}

enum status trainer_state_make(const struct run *r, json_t **state, struct error *err) {
    json_t *history = json_array();
    *state = NULL;
    enum status status = read_history(r, history, err);
    if (status != OK) {
        json_decref(history);
        return status;
    }
    *state = state_json(r, history);
    return *state ? OK : error_set(err, ERR_MEMORY, "trainer_state.json: out of memory");
}

static enum status read_number(const json_t *object, const char *path, const char *key,
                               double *out, struct error *err) {
    return json_file_number(object, path, key, -HUGE_VAL, HUGE_VAL, NAN, out, err);
}

static enum status read_count(const json_t *object, const char *path, const char *key,
                              int64_t *out, struct error *err) {
    return json_file_integer(object, path, key, 0, INT64_MAX, 0, out, err);
}

static enum status read_tally(const json_t *own, const char *path, const char *key,
                              struct tally *out, struct error *err) {
    const json_t *object = json_object_get(own, key);
    TRY(read_number(object, path, "loss_sum", &out->loss_sum, err));
    TRY(read_count(object, path, "targets", &out->targets, err));
    return read_count(object, path, "tokens", &out->tokens, err);
}

static void read_metrics(const json_t *own, const char *key,
                         struct trainer_metrics *out) {
    const int most = sizeof out->values / sizeof *out->values;
    const char *name;
    json_t *value;
    out->count = 0;
    json_object_foreach(json_object_get(own, key), name, value) {
        if (out->count == most)
            return;
        snprintf(out->values[out->count].name, sizeof out->values->name, "%s", name);
        out->values[out->count++].value =
            json_is_number(value) ? json_number_value(value) : NAN;
    }
}

/* Another job is an error; another machine only a notice, as its results are as good. */
static enum status check_maker(const struct run *r, const json_t *own, const char *path,
                               struct error *err) {
    const char *made_by, *device;
    TRY(json_file_string(own, path, "fingerprint", "", &made_by, err));
    TRY(json_file_string(own, path, "device", "", &device, err));
    if (strcmp(made_by, r->job->fingerprint))
        return error_set(
            err, ERR_INCOMPATIBLE,
            "%s: made with other data, model or options (fingerprint %s, now "
            "%s): resume with the same ones, or start anew with --resume never "
            "--overwrite",
            path, made_by, r->job->fingerprint);
    if (strcmp(device, describe(r)))
        notice(r->notices,
               "%s: was trained on %s, goes on with %s: results may differ in the last "
               "bits",
               path, device, describe(r));
    return OK;
}

enum status trainer_state_read(struct run *r, const json_t *state, const char *path,
                               uint64_t *offset, struct error *err) {
    const json_t *own =
        json_object_get(json_object_get(state, "stateful_callbacks"), OURS);
    int64_t length;
    TRY(check_maker(r, own, path, err));
    TRY(read_count(state, path, "global_step", &r->step, err));
    TRY(read_count(state, path, "best_global_step", &r->best_step, err));
    TRY(read_count(own, path, "metrics_offset", &length, err));
    TRY(read_tally(own, path, "total", &r->total, err));
    TRY(read_tally(own, path, "line", &r->line, err));
    TRY(read_number(own, path, "learning_rate", &r->learning_rate, err));
    TRY(read_number(own, path, "gradient_norm", &r->gradient_norm, err));
    read_metrics(own, "best", &r->best);
    read_metrics(own, "last", &r->last);
    *offset = (uint64_t)length;
    return OK;
}
