/* options - the rows of `normglue pretrain`.
 *
 * The arrangement's switches are rows made from encoder/config's own table, so that a
 * switch added there is an option here.
 *
 *   size           numbers of layers, heads, channels (encoder/config.c)
 *   arch           switches of the arrangement, by its name
 *   --<switch>     one of them otherwise
 *   --model DIR    all of it from a config.json: none of the above may be given
 *
 * options_checksum covers what decides the weights; where files are, how often they are
 * saved and on how many threads does not. */
#include "pretrain/options.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/progress.h"
#include "encoder/norm.h"
#include "encoder/onednn.h"
#include "encoder/schedule.h"
#include "pretrain/packing.h"

#define FIELD(name) offsetof(struct pretrain_options, name)
#define INTEGER(name, field, initial, least, most, group, help) \
    { name, OPTION_INTEGER, FIELD(field), initial, least, most, NULL, group, help, false }
#define NUMBER(name, field, initial, least, most, group, help) \
    { name, OPTION_NUMBER, FIELD(field), initial, least, most, NULL, group, help, false }
#define WORD(name, field, initial, words, group, help) \
    { name, OPTION_CHOICE, FIELD(field), initial, 0, 0, words, group, help, false }
#define TEXT(name, field, initial, value, group, help, required) \
    { name, OPTION_STRING, FIELD(field), initial, 0, 0, value, group, help, required }
#define LIST(name, field, group, help, required) \
    { name, OPTION_LIST, FIELD(field), NULL, 0, 0, "FILE", group, help, required }
/* What follows a switch's name in --help, by the kind of its row. */
#define VALUE_FIELD_FLAG(words) words
#define VALUE_FIELD_WORD(words) words
#define VALUE_FIELD_NUMBER(words) sizeof words > 1 ? "X|" words : "X"
#define VALUE_FIELD_NUMBERS(words) "NAME=X,..."
#define VALUE_FIELD_NORM(words) NORM_KINDS(BAR) + 1
#define BAR(word) "|" #word
/* A list's names stand in its help. */
#define HELP_FIELD_FLAG(words, help) help
#define HELP_FIELD_WORD(words, help) help
#define HELP_FIELD_NUMBER(words, help) help
#define HELP_FIELD_NUMBERS(words, help) help ": " words
#define HELP_FIELD_NORM(words, help) help
#define SWITCH(field, key, kind, least, most, words, help) \
    {#field,                                               \
     OPTION_STRING,                                        \
     FIELD(switches.field),                                \
     NULL,                                                 \
     0,                                                    \
     0,                                                    \
     VALUE_##kind(words),                                  \
     arrangement,                                          \
     HELP_##kind(words, help),                             \
     false},

static const char data[] = "Data", model[] = "Model",
                  arrangement[] = "Arrangement (each beside or instead of --arch)",
                  masking[] = "Masking", optimisation[] = "Optimisation",
                  saving[] = "Output, validation and checkpoints", run[] = "Run";

const struct option pretrain_option_table[] = {
    LIST("train", train, data, "text, plain or .gz; a blank line ends a document", true),
    LIST("valid", valid, data, "held-out text, evaluated on during training", false),
    TEXT("tokenizer", tokenizer, NULL, "DIR", data,
         "tokenizer directory; unset = the one in --model", false),
    TEXT("cache-dir", cache_dir, NULL, "DIR", data,
         "where the tokenised text lies, to be used again; unset = OUTPUT/data", false),
    WORD("invalid-utf8", invalid_utf8, "error", "error|replace|bytes", data,
         "bytes that are no UTF-8: stop, U+FFFD, or keep them"),
    WORD("packing", packing, "full-sentences", PACKING_WORDS, data,
         "how lines become sequences"),
    INTEGER("max-seq-length", max_seq_length, NULL, 3, 1 << 20, data,
            "tokens of a sequence; unset = 512 or what the model can take"),

    TEXT("model", model, NULL, "DIR", model, "continue from the weights of a model",
         false),
    TEXT("arch", arch, "postln", "NAME", model,
         "arrangement of the norms, one of those listed below", false),
    TEXT("size", size, "base", "NAME", model, "sizes by name, listed below", false),
    INTEGER("hidden-size", hidden_size, NULL, 1, 1 << 20, model,
            "channels; unset = of --size"),
    INTEGER("num-hidden-layers", num_hidden_layers, NULL, 1, 1000, model,
            "layers; unset = of --size"),
    INTEGER("num-attention-heads", num_attention_heads, NULL, 1, 1 << 20, model,
            "heads; unset = of --size"),
    INTEGER("intermediate-size", intermediate_size, NULL, 1, 1 << 20, model,
            "channels inside the feed-forward; unset = of --size"),
    INTEGER("max-position-embeddings", max_position_embeddings, NULL, 4, 1e6, model,
            "rows of the position table (longest sequence + 2); unset = 514"),
    NUMBER("hidden-dropout-prob", hidden_dropout_prob, NULL, 0, 0.99, model,
           "dropout after embeddings and both sublayers; unset = 0.1 or the model's"),
    NUMBER("attention-probs-dropout-prob", attention_probs_dropout_prob, NULL, 0, 0.99,
           model, "dropout of attention weights; unset = 0.1 or the model's"),

    CONFIG_SWITCHES(SWITCH)

        NUMBER("mlm-probability", mlm_probability, "0.15", 1e-4, 1, masking,
               "share of the tokens to guess (validation: always 0.15)"),
    NUMBER("mask-token-probability", mask_token_probability, "0.8", 0, 1, masking,
           "of those: share that becomes <mask>"),
    NUMBER("random-token-probability", random_token_probability, "0.1", 0, 1, masking,
           "of those: share that becomes another token; the others stay"),

    INTEGER("per-device-train-batch-size", per_device_train_batch_size, "16", 1, 65536,
            optimisation, "sequences a batch"),
    INTEGER("max-tokens", max_tokens, "0", 0, 1e9, optimisation,
            "most tokens worked on at once: a larger batch goes through in parts, for "
            "less memory and the same gradient; 0 = no limit"),
    INTEGER("gradient-accumulation-steps", gradient_accumulation_steps, "1", 1, 65536,
            optimisation, "batches a step"),
    INTEGER("max-steps", max_steps, NULL, 1, 1e12, optimisation,
            "steps in all, instead of --num-train-epochs"),
    NUMBER("num-train-epochs", num_train_epochs, "3", 1e-6, 1e6, optimisation,
           "passes over the sequences"),
    NUMBER("learning-rate", learning_rate, "5e-4", 0, 1e3, optimisation,
           "peak learning rate"),
    INTEGER("warmup-steps", warmup_steps, NULL, 0, 1e12, optimisation,
            "steps that the learning rate rises, instead of --warmup-ratio"),
    NUMBER("warmup-ratio", warmup_ratio, "0.06", 0, 1, optimisation,
           "the same as a share of all steps"),
    WORD("lr-scheduler-type", lr_scheduler_type, "linear", schedule_kinds, optimisation,
         "course of the learning rate after the warm-up"),
    NUMBER("weight-decay", weight_decay, "0.01", 0, 1e3, optimisation,
           "decoupled weight decay; biases, norms and scales are not decayed"),
    NUMBER("adam-beta1", adam_beta1, "0.9", 0, 1 - DBL_EPSILON, optimisation,
           "decay of AdamW's mean of gradients"),
    NUMBER("adam-beta2", adam_beta2, "0.98", 0, 1 - DBL_EPSILON, optimisation,
           "decay of AdamW's mean of squared gradients"),
    NUMBER("adam-epsilon", adam_epsilon, "1e-6", DBL_MIN, 1, optimisation,
           "added to the root of AdamW's squared gradients"),
    NUMBER("max-grad-norm", max_grad_norm, "1", 0, 1e9, optimisation,
           "gradients are scaled down to this norm; 0 = never"),

    TEXT("output", output, NULL, "DIR", saving,
         "where the model, its checkpoints and the log go", true),
    INTEGER("eval-steps", eval_steps, "500", 1, 1e12, saving,
            "validate every so many steps, and after the last"),
    INTEGER("save-steps", save_steps, "500", 1, 1e12, saving,
            "checkpoint every so many steps, and after the last"),
    INTEGER("save-total-limit", save_total_limit, "2", 2, 1e6, saving,
            "checkpoints kept"),
    INTEGER("logging-steps", logging_steps, "100", 1, 1e12, saving,
            "log loss and learning rate every so many steps"),
    TEXT("resume", resume, "never", "auto|never|DIR", saving,
         "go on from the newest valid checkpoint in the output folder, or from DIR",
         false),
    {"overwrite", OPTION_FLAG, FIELD(overwrite), "false", 0, 0, NULL, saving,
     "start anew in an output folder that is not empty", false},

    INTEGER("seed", seed, "42", 0, 4294967295.0, run,
            "of weights, order, masks and dropout"),
    WORD("dtype", dtype, "auto", DEVICE_DTYPES, run, DEVICE_DTYPE_HELP),
    INTEGER("threads", threads, "0", 0, 4096, run,
            "threads; 0 = as many as the process may use"),
    WORD("progress", progress, "auto", PROGRESS_WORDS, run,
         "progress bar; auto = on a terminal"),
    {0},
};

/* --model decides what these rows decide otherwise. */
static enum status refuse_beside_model(const struct command *command,
                                       const struct pretrain_options *o,
                                       struct error *err) {
    static const char *const names[] = {"arch",
                                        "size",
                                        "hidden-size",
                                        "num-hidden-layers",
                                        "num-attention-heads",
                                        "intermediate-size",
                                        "max-position-embeddings"};
    const char *given = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (options_given(command, o, names[i]))
            given = names[i];
    for (const struct option *row = command->options; row->name; row++)
        if (row->group == arrangement && options_given(command, o, row->name))
            given = row->name;
    if (!given)
        return OK;
    return error_set(err, ERR_USAGE,
                     "--%s cannot stand beside --model: %s/config.json decides it", given,
                     o->model);
}

static void set_if_given(int64_t *to, int64_t value) {
    if (value != OPTION_UNSET_INTEGER)
        *to = value;
}

static enum status new_config(const struct command *command,
                              const struct pretrain_options *o, struct config *config,
                              struct error *err) {
    config_default(config);
    TRY(config_set_size(config, o->size, err));
    set_if_given(&config->hidden_size, o->hidden_size);
    set_if_given(&config->num_hidden_layers, o->num_hidden_layers);
    set_if_given(&config->num_attention_heads, o->num_attention_heads);
    set_if_given(&config->intermediate_size, o->intermediate_size);
    set_if_given(&config->max_position_embeddings, o->max_position_embeddings);
    TRY(config_set_arch(config, o->arch, err));
    for (const struct option *row = command->options; row->name; row++) {
        const char *value;
        if (row->group != arrangement || !options_given(command, o, row->name))
            continue;
        memcpy(&value, (const char *)o + row->offset, sizeof value);
        TRY(config_set_switch(config, row->name, value, err));
    }
    return OK;
}

enum status options_config(const struct command *command,
                           const struct pretrain_options *o, const char *source,
                           struct config *config, struct error *err) {
    if (source) {
        TRY(refuse_beside_model(command, o, err));
        TRY(config_read(config, source, err));
    } else {
        TRY(new_config(command, o, config, err));
    }
    if (!isnan(o->hidden_dropout_prob))
        config->hidden_dropout_prob = o->hidden_dropout_prob;
    if (!isnan(o->attention_probs_dropout_prob))
        config->attention_probs_dropout_prob = o->attention_probs_dropout_prob;
    return OK;
}

enum invalid_utf8 options_invalid_utf8(const struct pretrain_options *o) {
    return strcmp(o->invalid_utf8, "bytes") == 0     ? INVALID_UTF8_BYTES
           : strcmp(o->invalid_utf8, "replace") == 0 ? INVALID_UTF8_REPLACE
                                                     : INVALID_UTF8_ERROR;
}

/* Files are known by their contents, which the job adds; where things go, how often they
 * are saved and on how many threads does not matter. */
static bool decides_learning(const struct option *row) {
    if (strcmp(row->name, "model") == 0)
        return false;
    return row->group == model || row->group == arrangement || row->group == masking ||
           row->group == optimisation || strcmp(row->name, "seed") == 0 ||
           strcmp(row->name, "packing") == 0 || strcmp(row->name, "max-seq-length") == 0;
}

/* The row's member of options_to_json(), whose keys have '_' for '-'. */
static const json_t *value_of(const json_t *values, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "%s", name);
    for (char *c = key; *c; c++)
        *c = *c == '-' ? '_' : *c;
    return json_object_get(values, key);
}

enum status options_checksum(const struct command *command,
                             const struct pretrain_options *o, uint32_t *crc,
                             struct error *err) {
    json_t *values = options_to_json(command, o);
    bool complete = values != NULL;
    *crc = 0;
    for (const struct option *row = command->options; complete && row->name; row++) {
        if (!decides_learning(row))
            continue;
        char *text = json_dumps(value_of(values, row->name), JSON_ENCODE_ANY);
        complete = text != NULL;
        *crc = file_crc32c(*crc, row->name, strlen(row->name));
        *crc = file_crc32c(*crc, text, complete ? strlen(text) : 0);
        free(text);
    }
    json_decref(values);
    return complete ? OK : error_set(err, ERR_MEMORY, "out of memory for the options");
}
