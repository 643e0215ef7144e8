/* finetune - the job: data, model and trainer put together, results written.
 *
 *   steps of an epoch   ceil(rows / (batch x accumulation)); the last one may be smaller
 *   max_steps           ceil(epochs x steps of an epoch), or as given
 *   warmup_steps        ceil(ratio x max_steps), or as given
 *
 * The order of work: refuse a bad output folder, then open the model, then read the data,
 * then take memory, so that the cheapest mistake is told first. The trainer
 * (encoder/trainer) owns the loop, the log, saving and resuming; here are its callbacks,
 * a micro-batch and an evaluation, and what they share (struct job). The best step is the
 * one with the highest score on the first dev split: what results_add puts first.
 *
 * A run may be resumed only by one that would take the same steps. The fingerprint says
 * what that means: data, weights, and every option that moves a bit of the result;
 * threads, logging and evaluation do not. */
#include "finetune/finetune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "finetune/classifier.h"
#include "finetune/evaluate.h"
#include "finetune/results.h"
#include "finetune/split.h"

enum {
    MOST_SPLITS = 2,
    EVAL_TOKENS = 2048 /* a batch of evaluation, if training's is less */
};

struct job {
    struct finetune_options options; /* resolved */
    const struct task *task;
    const struct notices *notices;
    struct classifier classifier;
    struct split train, eval[MOST_SPLITS];
    struct score majority[MOST_SPLITS];
    int num_eval;
    int64_t steps_per_epoch, rows_per_step;
    uint64_t *batch; /* per_device_train_batch_size: length << 32 | place in the step */
    bool evaluated;  /* the warning about one class comes once */
    char fingerprint[512];
    json_t *run_config;
};

/* The rows as options_to_json takes them. */
static const struct command finetune_options_only = {.options = finetune_option_table};

static void default_number(double *value, double fallback) {
    if (isnan(*value))
        *value = fallback;
}

static void default_integer(int64_t *value, int64_t fallback) {
    if (*value == OPTION_UNSET_INTEGER)
        *value = fallback;
}

static void take_task_defaults(struct finetune_options *o, const struct task *task) {
    default_number(&o->learning_rate, task->learning_rate);
    default_number(&o->num_train_epochs, (double)task->num_train_epochs);
    default_number(&o->warmup_ratio, task->warmup_ratio);
    default_integer(&o->per_device_train_batch_size, task->batch_size);
}

/* Dropout as the model was trained, unless an option says otherwise. */
static void resolve_dropout(struct finetune_options *o, struct config *config) {
    default_number(&o->hidden_dropout_prob, config->hidden_dropout_prob);
    default_number(&o->attention_probs_dropout_prob,
                   config->attention_probs_dropout_prob);
    default_number(&o->classifier_dropout, config->classifier_dropout);
    default_number(&o->classifier_dropout, o->hidden_dropout_prob);
    config->hidden_dropout_prob = o->hidden_dropout_prob;
    config->attention_probs_dropout_prob = o->attention_probs_dropout_prob;
    config->classifier_dropout = o->classifier_dropout;
}

/* An epoch is every row once; its last step may be smaller. */
static void resolve_steps(struct job *j) {
    struct finetune_options *o = &j->options;
    j->rows_per_step = o->per_device_train_batch_size * o->gradient_accumulation_steps;
    j->steps_per_epoch = (j->train.input.count + j->rows_per_step - 1) / j->rows_per_step;
    default_integer(&o->max_steps,
                    (int64_t)ceil(o->num_train_epochs * (double)j->steps_per_epoch));
    default_integer(&o->warmup_steps,
                    (int64_t)ceil(o->warmup_ratio * (double)o->max_steps));
    default_integer(&o->eval_steps, j->steps_per_epoch);
    default_integer(&o->save_steps, j->steps_per_epoch);
}

static enum status open_model(struct job *j, struct device *device, struct error *err) {
    struct finetune_options *o = &j->options;
    struct classifier *c = &j->classifier;
    TRY(classifier_open(c, o->model, device, j->notices, err));
    classifier_labels(c, j->task, j->notices);
    resolve_dropout(o, &c->config);
    TRY(config_check(&c->config, err));
    int64_t length = classifier_max_length(c, o->max_seq_length);
    if (length < o->max_seq_length)
        notice(j->notices,
               "max-seq-length %lld is more than the model's position table holds: %lld "
               "is used",
               (long long)o->max_seq_length, (long long)length);
    o->max_seq_length = length;
    return OK;
}

/* The majority is that of the training rows, scored on each dev split before any step. */
static enum status read_data(struct job *j, struct error *err) {
    const struct finetune_options *o = &j->options;
    TRY(split_read(&j->train, j->task, o->data, "train", o->max_train_samples,
                   o->max_seq_length, &j->classifier, j->notices, err));
    float majority = split_majority(&j->train, j->task);
    for (const char *const *name = j->task->eval_splits; *name; name++) {
        struct split *s = &j->eval[j->num_eval];
        TRY(split_read(s, j->task, o->data, *name, o->max_eval_samples, o->max_seq_length,
                       &j->classifier, j->notices, err));
        TRY(split_score_constant(s, j->task, majority, &j->majority[j->num_eval++], err));
    }
    return OK;
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Room for the longest training batch, and for evaluation batches of a useful size. */
static enum status lay_out(struct job *j, struct error *err) {
    const struct finetune_options *o = &j->options;
    struct limits limits = {
        .tokens = input_most_tokens(&j->train.input, o->per_device_train_batch_size),
        .sequences = o->per_device_train_batch_size,
        .tokens_per_sequence = j->train.input.longest};
    for (int i = 0; i < j->num_eval; i++) {
        const struct input *in = &j->eval[i].input;
        int64_t wanted = input_most_tokens(in, o->per_device_eval_batch_size);
        wanted = wanted < EVAL_TOKENS ? wanted : most(EVAL_TOKENS, in->longest);
        limits.tokens = most(limits.tokens, wanted);
        limits.tokens_per_sequence = most(limits.tokens_per_sequence, in->longest);
    }
    if (o->max_tokens > 0 && o->max_tokens < limits.tokens)
        limits.tokens = most(o->max_tokens, limits.tokens_per_sequence);
    limits.sequences = most(limits.sequences, o->per_device_eval_batch_size);
    limits.output_rows = limits.sequences;
    j->batch = calloc((size_t)o->per_device_train_batch_size, sizeof *j->batch);
    if (!j->batch)
        return error_set(err, ERR_MEMORY, "out of memory for the order of a batch");
    return classifier_layout(&j->classifier, limits, true, err);
}

static uint32_t rows_checksum(const struct split *s) {
    const struct input *in = &s->input;
    uint32_t crc = file_crc32c(0, in->ids.items, in->ids.count * sizeof *in->ids.items);
    crc = file_crc32c(crc, in->starts, (size_t)(in->count + 1) * sizeof *in->starts);
    return file_crc32c(crc, s->labels, (size_t)in->count * sizeof *s->labels);
}

/* What a resumed run must share with the one that it continues. */
static void make_fingerprint(struct job *j) {
    const struct finetune_options *o = &j->options;
    const struct parameters *p = &j->classifier.parameters;
    uint32_t weights = file_crc32c(0, p->value, p->held * sizeof *p->value);
    snprintf(
        j->fingerprint, sizeof j->fingerprint,
        "finetune %s: train %lld rows %08x, weights %08x, %s, batch %lld x %lld, "
        "steps %lld, %s, warmup %lld, learning rate %.9g, adam %.9g %.9g %.9g, "
        "weight decay "
        "%.9g, clip %.9g, dropout %.9g %.9g %.9g, seed %lld, norm statistics %s, %s, "
        "at most %lld tokens",
        j->task->name, (long long)j->train.input.count, rows_checksum(&j->train), weights,
        j->classifier.config.arch, (long long)o->per_device_train_batch_size,
        (long long)o->gradient_accumulation_steps, (long long)o->max_steps,
        o->lr_scheduler_type, (long long)o->warmup_steps, o->learning_rate, o->adam_beta1,
        o->adam_beta2, o->adam_epsilon, o->weight_decay, o->max_grad_norm,
        o->hidden_dropout_prob, o->attention_probs_dropout_prob, o->classifier_dropout,
        (long long)o->seed, o->norm_statistics,
        dtype_name(device_dtype(j->classifier.device)), (long long)o->max_tokens);
}

static bool freezes(const struct finetune_options *o) {
    return strcmp(o->norm_statistics, "freeze") == 0;
}

/* ---- Steps. ----
 *
 * A step sees a stretch of the epoch's shuffled order; its micro-batches are pieces of
 * that stretch. A micro-batch of more than max_tokens tokens goes through in parts, by
 * length: what a step learns from is the shuffle's alone, and draws are named by the
 * place in the step, so that parts change no more than the order of sums. */

/* The row at a place of a step; -1 where the last step of an epoch has no more. */
static int64_t row_at(const struct job *j, int64_t step, int64_t place) {
    const int64_t epoch = (step - 1) / j->steps_per_epoch;
    const int64_t first = (step - 1) % j->steps_per_epoch * j->rows_per_step;
    return first + place >= j->train.input.count
               ? -1
               : input_shuffled(&j->train.input, (uint64_t)j->options.seed, epoch,
                                first + place);
}

/* The rows of a micro-batch into j->batch; returns how many. */
static int64_t choose_rows(struct job *j, int64_t step, int micro) {
    const int64_t size = j->options.per_device_train_batch_size;
    int64_t count = 0;
    for (int64_t place = micro * size; place < (micro + 1) * size; place++) {
        const int64_t row = row_at(j, step, place);
        if (row < 0)
            break;
        j->batch[count++] =
            (uint64_t)input_length(&j->train.input, row) << 32 | (uint64_t)place;
    }
    if (j->options.max_tokens > 0)
        input_sort_keys(j->batch, count);
    return count;
}

/* Fills the classifier's batch with rows from `first` on; returns the place after them.
 */
static int64_t fill_part(struct job *j, int64_t step, int64_t first, int64_t count) {
    struct input_batch *b = &j->classifier.batch;
    input_batch_clear(b);
    for (; first < count; first++) {
        const int64_t place = (int64_t)(j->batch[first] & UINT32_MAX);
        const int64_t row = row_at(j, step, place);
        if (!input_batch_add(b, &j->train.input, row, (uint32_t)place))
            break;
    }
    return first;
}

static enum status train_micro(void *self, int64_t step, int micro,
                               struct trainer_micro *out, struct error *err) {
    struct job *j = self;
    const struct pass pass = {.train = true,
                              .seed = (uint64_t)j->options.seed,
                              .step = (uint64_t)step,
                              .freeze_statistics = freezes(&j->options)};
    const int64_t count = choose_rows(j, step, micro);
    *out = (struct trainer_micro){.num_targets = count};
    for (int64_t first = 0, next; first < count; first = next) {
        double loss;
        next = fill_part(j, step, first, count);
        if (next == first)
            return error_set(err, ERR_FAILED, "a training sequence does not fit");
        TRY(classifier_step(&j->classifier, pass, &loss, err));
        out->loss_sum += loss;
        out->num_tokens += j->classifier.batch.batch.num_tokens;
    }
    return OK;
}

/* A fine-tuning that fails shows itself so: said at the first evaluation, not at the end.
 */
static void warn_of_one_class(struct job *j, const struct split *s,
                              const struct score *score) {
    if (j->evaluated || !score->one_class_predicted || !j->task->labels)
        return;
    notice(j->notices,
           "check this: after the first evaluation every prediction of %s is '%s'; if it "
           "stays so, try another --learning-rate, more --warmup-ratio or another --seed",
           s->name, j->task->labels[(int)s->predictions[0]]);
}

static enum status evaluate(void *self, int64_t step, struct trainer_metrics *out,
                            struct error *err) {
    struct job *j = self;
    (void)step;
    out->count = 0;
    for (int i = 0; i < j->num_eval; i++) {
        struct score score;
        double loss;
        TRY(split_evaluate(&j->eval[i], j->task, &j->classifier,
                           j->options.per_device_eval_batch_size, &score, &loss, err));
        results_add(out, &score, loss, i > 0);
        warn_of_one_class(j, &j->eval[i], &score);
    }
    j->evaluated = true;
    return OK;
}

static enum status save_files(void *self, const char *directory, struct error *err) {
    struct job *j = self;
    return classifier_save_files(&j->classifier, directory, err);
}

static struct trainer_options trainer_options(const struct finetune_options *o) {
    return (struct trainer_options){
        .output = o->output,
        .max_steps = o->max_steps,
        .accumulation = o->gradient_accumulation_steps,
        .logging_steps = o->logging_steps,
        .eval_steps = o->eval_steps,
        .save_steps = o->save_steps,
        .keep_checkpoints = o->save_total_limit,
        .max_grad_norm = o->max_grad_norm,
        .adamw = {o->learning_rate, o->adam_beta1, o->adam_beta2, o->adam_epsilon,
                  o->weight_decay},
        .schedule = {o->lr_scheduler_type, o->learning_rate, o->warmup_steps,
                     o->max_steps},
        .higher_is_better = true,
        .keep_best = true,
        .resume = o->resume,
        .overwrite = o->overwrite,
        .progress = progress_mode_named(o->progress),
    };
}

/* What will happen and what it takes, before the first step: the time to stop it is now.
 */
static void describe(const struct job *j) {
    const struct finetune_options *o = &j->options;
    const struct classifier *c = &j->classifier;
    const size_t bytes =
        c->parameters.arena.used + c->arena.used + device_bytes(c->device);
    notice(j->notices,
           "%s: %lld training rows, %lld steps of %lld, learning rate %g after %lld "
           "steps of warm-up; the best model is the one with the highest %s score",
           j->task->name, (long long)j->train.input.count, (long long)o->max_steps,
           (long long)j->rows_per_step, o->learning_rate, (long long)o->warmup_steps,
           j->eval[0].name);
    notice(j->notices, "%s, %lld weights, %.0f MB for weights, optimizer and activations",
           device_description(c->device), (long long)parameters_number(&c->parameters),
           (double)bytes / 1e6);
}

/* Scores of the best step, which is the model that was left in the folder. */
static void take_results(const struct job *j, const struct trainer_result *trained,
                         struct finetune_result *result) {
    const struct config *config = &j->classifier.config;
    const bool is_best = trained->best_step > 0; /* else no score was ever defined */
    *result = (struct finetune_result){
        .num_splits = j->num_eval,
        .train_rows = j->train.input.count,
        .max_steps = j->options.max_steps,
        .best_step = is_best ? trained->best_step : trained->step,
        .seconds = trained->seconds};
    memcpy(result->model_type, config->model_type, sizeof result->model_type);
    memcpy(result->arch, config->arch, sizeof result->arch);
    for (int i = 0; i < j->num_eval; i++) {
        struct finetune_split_result *split = &result->splits[i];
        snprintf(split->split, sizeof split->split, "%s", j->eval[i].name);
        split->rows = j->eval[i].input.count;
        split->majority = j->majority[i];
        results_take(split, is_best ? &trained->best : &trained->last, i > 0);
    }
}

/* Everything up to the first step. */
static enum status prepare(struct job *j, struct device *device, struct error *err) {
    const struct trainer_options output = trainer_options(&j->options);
    TRY(trainer_check_output(&output, err));
    TRY(device_set_dtype_named(device, j->options.dtype, err));
    take_task_defaults(&j->options, j->task);
    TRY(open_model(j, device, err));
    TRY(read_data(j, err));
    resolve_steps(j);
    TRY(classifier_load(&j->classifier, true, (uint64_t)j->options.seed, j->notices,
                        err));
    TRY(lay_out(j, err));
    make_fingerprint(j);
    describe(j);
    j->run_config = options_to_json(&finetune_options_only, &j->options);
    return j->run_config ? OK : error_set(err, ERR_MEMORY, "out of memory");
}

static enum status run(struct job *j, struct device *device,
                       struct finetune_result *result, struct error *err) {
    struct trainer_result trained;
    TRY(prepare(j, device, err));
    const struct trainer_options options = trainer_options(&j->options);
    const struct trainer_job trainer_job = {.self = j,
                                            .micro = train_micro,
                                            .evaluate = evaluate,
                                            .writer = {save_files, j},
                                            .fingerprint = j->fingerprint,
                                            .run_config = j->run_config};
    TRY(trainer_run(&options, &trainer_job, &j->classifier.parameters, device, j->notices,
                    &trained, err));
    take_results(j, &trained, result);
    return results_write(result, &j->options, j->task, err);
}

enum status finetune_run(const struct finetune_options *options, const struct task *task,
                         struct device *device, const struct notices *notices,
                         struct finetune_result *result, struct error *err) {
    struct job j = {.options = *options, .task = task, .notices = notices};
    enum status status = run(&j, device, result, err);
    split_free(&j.train);
    for (int i = 0; i < MOST_SPLITS; i++)
        split_free(&j.eval[i]);
    classifier_close(&j.classifier);
    free(j.batch);
    json_decref(j.run_config);
    return status;
}
