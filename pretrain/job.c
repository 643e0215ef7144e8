/* job - one masked-LM pretraining: text in, a model directory out.
 *
 * Which sequence, mask and dropout a step sees is a function of (seed, step) alone, so a
 * resumed run needs nothing but the number of its step.
 *
 * The order of the work is that of what it costs to be wrong: options, tokenizer and
 * output folder are checked before text is read; text is tokenised (or found tokenised)
 * before memory is taken; the plan and the memory are told before the first step.
 *
 *   trainer (encoder/trainer)   the loop: steps, schedule, clipping, log, save, resume
 *   micro()                     one micro-batch: sequences, masks, loss, backward
 *   evaluate()                  mean loss over all targets of the validation text
 *
 * The loss is the mean of -log p over masked tokens, in nats; perplexity is e^loss.
 * Beside it stands the loss of guessing by frequency alone (unigram.h). */
#include "pretrain/job.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"
#include "pretrain/batch.h"
#include "pretrain/data.h"
#include "pretrain/masked_lm.h"
#include "pretrain/unigram.h"

/* Validation masks are the same for every seed, so that runs can be compared. */
#define VALIDATION_SEED 0

struct job {
    const struct command *command;
    const struct pretrain_options *o;
    const struct notices *notices;
    struct tokenizer *tokenizer;
    struct device *device;
    struct config config;
    int64_t length; /* most tokens of a sequence */
    struct data train, valid;
    struct unigram_result unigram; /* of valid */
    struct masked_lm model;
    struct arena arena;
    struct mlm_batch batch;
    struct trainer_options trainer;
    char fingerprint[96], source[PATH_BYTES]; /* source: where --model's weights are */
};

/* Sequences that are worked on at once. */
static int64_t part_size(const struct job *j) {
    const int64_t size = j->o->per_device_train_batch_size;
    const int64_t fit = j->o->max_tokens > 0 ? j->o->max_tokens / j->length : size;
    return fit < 1 ? 1 : fit < size ? fit : size;
}

/* ---- steps ----
 *
 * Step s (from 1), micro-batch m, sequence i is place ((s - 1) accumulation + m) batch +
 * i of an endless row: epoch after epoch, each in an order of its own. An epoch's last
 * batch goes on with the next epoch, so every step has the same number of sequences. */

/* Place `at` of the endless row of shuffled epochs. */
static enum status add_training_sequence(struct job *j, uint64_t at, uint32_t number,
                                         struct error *err) {
    const uint64_t seed = (uint64_t)j->o->seed;
    const uint64_t count = j->train.packing.num_sequences;
    const uint64_t epoch = at / count;
    const struct rng order = rng_stream(seed, RNG_SHUFFLE, 0, epoch);
    const struct rng masks = rng_stream(seed, RNG_MASK, 0, epoch);
    return batch_add(&j->batch, &j->train.packing, &j->train.masking, masks,
                     rng_permute(order, count, at % count), number, err);
}

/* Forward, and with `pass.train` backward, of what j->batch holds. */
static enum status run_part(struct job *j, struct pass pass, struct trainer_micro *out,
                            struct error *err) {
    const struct batch *batch = &j->batch.batch;
    struct tensor hidden;
    out->num_targets += batch->num_output_rows;
    out->num_tokens += batch->num_tokens;
    if (batch->num_output_rows == 0) /* short lines: nothing to learn from */
        return OK;
    TRY(encoder_forward(j->model.encoder, batch, pass, &hidden, err));
    out->loss_sum += mlm_head_loss(j->model.head, hidden, j->batch.labels,
                                   pass.train ? &hidden : NULL);
    if (pass.train)
        encoder_backward(j->model.encoder, batch, pass, hidden);
    return OK;
}

/* A micro-batch goes through in as many parts as hold at most part_size sequences; draws
 * are named by the place in the step, so that parts change no more than the order of
 * sums. */
static enum status micro(void *self, int64_t step, int number, struct trainer_micro *out,
                         struct error *err) {
    struct job *j = self;
    const struct pass pass = {
        .train = true, .seed = (uint64_t)j->o->seed, .step = (uint64_t)step};
    const int64_t size = j->o->per_device_train_batch_size;
    const int64_t micros = (step - 1) * j->o->gradient_accumulation_steps + number;
    *out = (struct trainer_micro){0};
    batch_clear(&j->batch);
    for (int64_t i = 0; i < size; i++) {
        TRY(add_training_sequence(j, (uint64_t)(micros * size + i),
                                  (uint32_t)(number * size + i), err));
        if (j->batch.batch.num_sequences < part_size(j) && i < size - 1)
            continue;
        TRY(run_part(j, pass, out, err));
        batch_clear(&j->batch);
    }
    return OK;
}

/* Sum of the absolute gradient of a layer's last matrix: what NormFormer's figure 3
 * compares between layers (arXiv:2110.09456). */
static double layer_gradient(const struct job *j, int64_t layer, double scale) {
    char name[128];
    snprintf(name, sizeof name, "%s.encoder.layer.%" PRId64 ".output.dense.weight",
             config_prefix(&j->config), layer);
    const struct parameter *row = parameters_find(&j->model.parameters, name);
    double sum = 0;
    for (size_t i = 0; i < row->count; i++)
        sum += fabs((double)row->gradient[i]);
    return scale * sum;
}

static void add_figure(struct trainer_metrics *out, const char *name, double value) {
    snprintf(out->values[out->count].name, sizeof out->values->name, "%s", name);
    out->values[out->count++].value = value;
}

/* For the log: gradients of the first and the last layer, what the norms tell. */
static void describe(void *self, double scale, struct trainer_metrics *out) {
    const struct job *j = self;
    const struct norm_figures f = encoder_norm_figures(j->model.encoder);
    add_figure(out, "grad_fc2_first", layer_gradient(j, 0, scale));
    add_figure(out, "grad_fc2_last",
               layer_gradient(j, j->config.num_hidden_layers - 1, scale));
    for (int i = 0; i < f.count; i++)
        add_figure(out, f.names[i], f.values[i]);
}

/* ---- validation ---- */

static struct rng validation_masks(void) {
    return rng_stream(VALIDATION_SEED, RNG_MASK_VALID, 0, 0);
}

/* Adds the loss of sequences first .. last - 1. */
static enum status evaluate_batch(struct job *j, uint64_t first, uint64_t last,
                                  double *loss, struct error *err) {
    struct trainer_micro part = {0};
    batch_clear(&j->batch);
    for (uint64_t i = first; i < last; i++)
        TRY(batch_add(&j->batch, &j->valid.packing, &j->valid.masking, validation_masks(),
                      i, (uint32_t)(i - first), err));
    TRY(run_part(j, (struct pass){0}, &part, err));
    *loss += part.loss_sum;
    return OK;
}

static enum status evaluate(void *self, int64_t step, struct trainer_metrics *out,
                            struct error *err) {
    (void)step;
    struct job *j = self;
    double sum = 0;
    const uint64_t count = j->valid.packing.num_sequences;
    const uint64_t size = (uint64_t)part_size(j);
    for (uint64_t i = 0; i < count; i += size)
        TRY(evaluate_batch(j, i, i + size < count ? i + size : count, &sum, err));
    const double loss = sum / (double)j->unigram.num_targets;
    *out = (struct trainer_metrics){
        .count = 3,
        .values = {{"eval_loss", loss},
                   {"eval_perplexity", exp(loss)},
                   {"eval_unigram_perplexity", exp(j->unigram.loss)}}};
    return OK;
}

/* ---- before the data: options, tokenizer, output ----
 *
 * All that can be wrong with the options is found before the text is read, which can take
 * hours. */

static bool has_valid(const struct job *j) { return j->o->valid.count > 0; }

static enum status open_tokenizer(struct job *j, struct error *err) {
    const char *directory = j->o->tokenizer ? j->o->tokenizer : j->source;
    if (!*directory)
        return error_set(err, ERR_USAGE, "--tokenizer: expected a directory, found none");
    TRY(tokenizer_load(&j->tokenizer, directory, j->notices, err));
    tokenizer_set_invalid_utf8(j->tokenizer, options_invalid_utf8(j->o));
    if (!j->o->model) {
        const struct special_ids ids = tokenizer_specials(j->tokenizer);
        j->config.vocab_size = tokenizer_size(j->tokenizer);
        j->config.pad_token_id = ids.pad;
        j->config.bos_token_id = ids.bos;
        j->config.eos_token_id = ids.eos;
    }
    return masked_lm_check_tokenizer(&j->config, j->tokenizer, directory, err);
}

/* The longest sequence: --max-seq-length, else RoBERTa's 512 or what fits. */
static enum status choose_length(struct job *j, struct error *err) {
    const int64_t most = config_max_tokens(&j->config), wanted = j->o->max_seq_length;
    j->length = wanted != OPTION_UNSET_INTEGER ? wanted : most < 512 ? most : 512;
    if (j->length <= most && j->length >= 3)
        return OK;
    return error_set(err, ERR_USAGE,
                     "--max-seq-length: expected 3 to %" PRId64
                     " tokens (max_position_embeddings is %" PRId64 "), found %" PRId64,
                     most, j->config.max_position_embeddings, j->length);
}

static void set_trainer(struct job *j) {
    const struct pretrain_options *o = j->o;
    j->trainer = (struct trainer_options){.output = o->output,
                                          .accumulation = o->gradient_accumulation_steps,
                                          .logging_steps = o->logging_steps,
                                          .eval_steps = o->eval_steps,
                                          .save_steps = o->save_steps,
                                          .keep_checkpoints = o->save_total_limit,
                                          .max_grad_norm = o->max_grad_norm,
                                          .adamw = {.learning_rate = o->learning_rate,
                                                    .beta1 = o->adam_beta1,
                                                    .beta2 = o->adam_beta2,
                                                    .epsilon = o->adam_epsilon,
                                                    .weight_decay = o->weight_decay},
                                          .resume = o->resume,
                                          .overwrite = o->overwrite,
                                          .progress = progress_mode_named(o->progress)};
}

static enum status check_options(struct job *j, struct error *err) {
    const struct pretrain_options *o = j->o;
    if (o->mask_token_probability + o->random_token_probability > 1)
        return error_set(err, ERR_USAGE,
                         "--mask-token-probability %g and --random-token-probability %g: "
                         "expected a sum of at most 1",
                         o->mask_token_probability, o->random_token_probability);
    if (o->model)
        TRY(checkpoint_resolve_model(o->model, j->source, j->notices, err));
    TRY(options_config(j->command, o, *j->source ? j->source : NULL, &j->config, err));
    TRY(open_tokenizer(j, err));
    TRY(config_check(&j->config, err));
    TRY(choose_length(j, err));
    set_trainer(j);
    return trainer_check_output(&j->trainer, err);
}

/* ---- the data and the number of steps ---- */

static enum status open_corpora(struct job *j, struct error *err) {
    const struct pretrain_options *o = j->o;
    char cache[PATH_BYTES];
    TRY(file_join(cache, o->output, "data", err));
    struct corpus_source source = {.name = "train",
                                   .directory = o->cache_dir ? o->cache_dir : cache,
                                   .files = o->train.items,
                                   .num_files = o->train.count,
                                   .invalid_utf8 = options_invalid_utf8(o),
                                   .threads = device_threads(j->device),
                                   .progress = progress_mode_named(o->progress)};
    const struct masking_rates rates = {o->mlm_probability, o->mask_token_probability,
                                        o->random_token_probability};
    const enum packing_mode mode = packing_mode_of(o->packing);
    TRY(data_open(&j->train, &source, j->tokenizer, mode, j->length, rates, j->notices,
                  err));
    if (!has_valid(j))
        return OK;
    source.name = "valid";
    source.files = o->valid.items;
    source.num_files = o->valid.count;
    TRY(data_open(&j->valid, &source, j->tokenizer, mode, j->length, masking_standard,
                  j->notices, err));
    TRY(unigram_measure(&j->train.corpus, &j->valid.packing, &j->valid.masking,
                        validation_masks(), &j->unigram, err));
    if (j->unigram.num_targets)
        return OK;
    return error_set(err, ERR_INPUT,
                     "valid data: no token to guess in %" PRIu64 " tokens",
                     j->valid.corpus.num_tokens);
}

/* max_steps from epochs, warm-up from its share, both rounded up; then says the plan. */
static void set_steps(struct job *j) {
    const struct pretrain_options *o = j->o;
    const double epoch =
        (double)j->train.packing.num_sequences /
        (double)(o->per_device_train_batch_size * o->gradient_accumulation_steps);
    const int64_t steps = o->max_steps != OPTION_UNSET_INTEGER
                              ? o->max_steps
                              : (int64_t)ceil(o->num_train_epochs * epoch);
    const int64_t warmup = o->warmup_steps != OPTION_UNSET_INTEGER
                               ? o->warmup_steps
                               : (int64_t)ceil(o->warmup_ratio * (double)steps);
    j->trainer.max_steps = steps;
    j->trainer.schedule = (struct schedule){
        .kind = o->lr_scheduler_type,
        .peak = o->learning_rate,
        .warmup_steps = warmup,
        .max_steps = steps,
    };
    notice(j->notices,
           "plan: %" PRId64 " steps of %" PRId64 " x %" PRId64
           " sequences = %.3g epochs; learning rate %g, %" PRId64
           " steps of warm-up, then %s; AdamW (%g, %g), eps %g, decay %g; clipping %g%s",
           steps, o->gradient_accumulation_steps, o->per_device_train_batch_size,
           (double)steps / epoch, o->learning_rate, warmup, o->lr_scheduler_type,
           o->adam_beta1, o->adam_beta2, o->adam_epsilon, o->weight_decay,
           o->max_grad_norm, o->max_grad_norm > 0 ? "" : " (off)");
    if (has_valid(j))
        notice(j->notices,
               "valid: %" PRIu64
               " masked tokens; guessing by frequency alone: loss %.4f, "
               "perplexity %.1f",
               j->unigram.num_targets, j->unigram.loss, exp(j->unigram.loss));
}

/* ---- the model ----
 *
 * Two allocations for the whole run: the parameters with their gradients and moments, and
 * one arena for activations and batches, measured for the largest batch. */

static void layout(struct job *j, struct limits limits) {
    masked_lm_layout(&j->model, &j->arena, limits, limits.output_rows, true);
    batch_layout(&j->batch, &j->arena, limits);
}

static struct limits limits_of(const struct job *j) {
    const int64_t size = part_size(j);
    const struct limits train = batch_limits(size, j->length, &j->train.masking);
    if (!has_valid(j))
        return train;
    const struct limits valid = batch_limits(size, j->length, &j->valid.masking);
    return train.output_rows > valid.output_rows ? train : valid;
}

static enum status tell_model(const struct job *j, struct error *err) {
    const struct config *c = &j->config;
    struct buffer arch = {0};
    const enum status status = config_describe(c, &arch, err);
    if (status == OK)
        notice(j->notices,
               "model: %s, %" PRId64 " layers, hidden %" PRId64 ", %" PRId64
               " heads, feed-forward %" PRId64 ", vocabulary %" PRId64 ": %" PRId64
               " parameters",
               arch.data, c->num_hidden_layers, c->hidden_size, c->num_attention_heads,
               c->intermediate_size, c->vocab_size,
               parameters_number(&j->model.parameters));
    buffer_free(&arch);
    return status;
}

static enum status open_model(struct job *j, struct error *err) {
    const struct config *c = &j->config;
    TRY(masked_lm_open(&j->model, c, j->device, true, err));
    layout(j, limits_of(j)); /* measures */
    const size_t bytes = j->arena.used;
    TRY(arena_open(&j->arena, bytes, err));
    layout(j, limits_of(j));
    notice(j->notices, "device: %s", device_description(j->device));
    TRY(tell_model(j, err));
    const double weights = (double)j->model.parameters.arena.used;
    const double activations = (double)(bytes + device_bytes(j->device));
    notice(j->notices,
           "memory: %.1f MB = weights, gradients and moments %.1f + activations %.1f",
           (weights + activations) / 1e6, weights / 1e6, activations / 1e6);
    if (j->o->model)
        return checkpoint_read_parameters(j->source, c, &j->model.parameters,
                                          (uint64_t)j->o->seed, j->notices, err);
    parameters_initialise(&j->model.parameters, c, (uint64_t)j->o->seed);
    return OK;
}

/* ---- training and what it leaves ---- */

/* config.json and the tokenizer: with the trainer's weights a whole model directory. */
static enum status write_model_files(void *self, const char *directory,
                                     struct error *err) {
    const struct job *j = self;
    TRY(config_write(&j->config, directory, "MaskedLM", err));
    return tokenizer_save(j->tokenizer, directory, err);
}

/* What must be the same when a run is resumed: the contents of the data, the weights it
 * began with, and the options that decide what is learnt. Each has a checksum of its own,
 * so that the error tells which of them differs. */
static enum status set_fingerprint(struct job *j, struct error *err) {
    uint32_t options, weights = 0;
    const uint64_t data[] = {corpus_checksum(&j->train.corpus),
                             has_valid(j) ? corpus_checksum(&j->valid.corpus) : 0,
                             tokenizer_fingerprint(j->tokenizer), (uint64_t)j->length};
    TRY(options_checksum(j->command, j->o, &options, err));
    if (j->o->model) {
        char path[PATH_BYTES];
        uint64_t size;
        TRY(file_join(path, j->source, "model.safetensors", err));
        TRY(file_checksum(path, &size, &weights, err));
    }
    snprintf(j->fingerprint, sizeof j->fingerprint,
             "data %08" PRIx32 ", start %08" PRIx32 ", options %08" PRIx32 ", %s",
             file_crc32c(0, data, sizeof data), weights, options,
             dtype_name(device_dtype(j->device)));
    return OK;
}

static enum status train(struct job *j, struct job_result *result, struct error *err) {
    json_t *run_config = options_to_json(j->command, j->o);
    if (!run_config)
        return error_set(err, ERR_MEMORY, "out of memory for run_config.json");
    const struct trainer_job job = {.self = j,
                                    .micro = micro,
                                    .evaluate = has_valid(j) ? evaluate : NULL,
                                    .describe = describe,
                                    .writer = {write_model_files, j},
                                    .fingerprint = j->fingerprint,
                                    .run_config = run_config};
    const enum status status = trainer_run(&j->trainer, &job, &j->model.parameters,
                                           j->device, j->notices, &result->training, err);
    json_decref(run_config);
    return status;
}

/* eval_results.json, keys as run_mlm writes them. */
static enum status write_results(const struct job *j, const struct trainer_result *r,
                                 struct error *err) {
    char path[PATH_BYTES];
    TRY(file_join(path, j->o->output, "eval_results.json", err));
    const double loss = r->last.values[0].value;
    json_t *values =
        json_pack("{sf sf sf sI sI sI}", "eval_loss", loss, "perplexity", exp(loss),
                  "unigram_perplexity", exp(j->unigram.loss), "eval_samples",
                  (json_int_t)j->valid.packing.num_sequences, "eval_masked_tokens",
                  (json_int_t)j->unigram.num_targets, "step", (json_int_t)r->step);
    if (!values)
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    const enum status status = json_file_write(values, path, err);
    json_decref(values);
    return status;
}

static enum status run(struct job *j, struct job_result *result, struct error *err) {
    TRY(check_options(j, err));
    TRY(device_open(&j->device, (int)j->o->threads, j->notices, err));
    TRY(device_set_dtype_named(j->device, j->o->dtype, err));
    TRY(open_corpora(j, err));
    set_steps(j);
    TRY(open_model(j, err));
    TRY(set_fingerprint(j, err));
    TRY(train(j, result, err));
    result->unigram_loss = has_valid(j) ? j->unigram.loss : NAN;
    return has_valid(j) ? write_results(j, &result->training, err) : OK;
}

enum status job_run(const struct command *command, const struct pretrain_options *options,
                    const struct notices *notices, struct job_result *result,
                    struct error *err) {
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        return error_set(err, ERR_MEMORY, "out of memory for the job");
    j->command = command;
    j->o = options;
    j->notices = notices;
    const enum status status = run(j, result, err);
    arena_close(&j->arena);
    masked_lm_close(&j->model);
    data_close(&j->valid);
    data_close(&j->train);
    device_close(j->device);
    tokenizer_free(j->tokenizer);
    free(j);
    return status;
}
