/* options - the rows of `normglue pretrain`. */
#ifndef PRETRAIN_OPTIONS_H
#define PRETRAIN_OPTIONS_H

#include "base/options.h"
#include "encoder/config.h"
#include "tokenizer/tokenizer.h"

#define OPTIONS_SWITCH_FIELD(field, ...) const char *field;

/* NaN, OPTION_UNSET_INTEGER and NULL = not given. */
struct pretrain_options {
    struct options_state *state; /* base/options keeps it first */
    struct option_list train, valid;
    const char *tokenizer, *cache_dir, *invalid_utf8, *packing;
    const char *model, *output, *arch, *size;
    const char *lr_scheduler_type, *resume, *progress, *dtype;
    struct {
        CONFIG_SWITCHES(OPTIONS_SWITCH_FIELD)
    } switches;
    int64_t hidden_size, num_hidden_layers, num_attention_heads, intermediate_size,
        max_position_embeddings;
    int64_t max_seq_length, per_device_train_batch_size, gradient_accumulation_steps,
        max_steps, warmup_steps, eval_steps, logging_steps, save_steps, save_total_limit,
        seed, threads, max_tokens;
    double hidden_dropout_prob, attention_probs_dropout_prob;
    double mlm_probability, mask_token_probability, random_token_probability;
    double num_train_epochs, learning_rate, warmup_ratio, weight_decay, adam_beta1,
        adam_beta2, adam_epsilon, max_grad_norm;
    bool overwrite;
};

extern const struct option pretrain_option_table[];

enum invalid_utf8 options_invalid_utf8(const struct pretrain_options *o);

/* The encoder that the options describe: the one in `source` (NULL without --model), or
 * --size, --arch and what is given beside them. Without a source vocab_size and the
 * special ids are still to be set. */
enum status options_config(const struct command *command,
                           const struct pretrain_options *o, const char *source,
                           struct config *config, struct error *err) MUST_CHECK;

/* CRC32C of the options that decide what is learnt, so that a run is not resumed with
 * others. ERR_MEMORY alone can happen. */
enum status options_checksum(const struct command *command,
                             const struct pretrain_options *o, uint32_t *crc,
                             struct error *err) MUST_CHECK;

#endif
