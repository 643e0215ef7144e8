/* config - what an encoder is: sizes, the switches of its LayerNorm arrangement, dropout,
 * labels.
 *
 * It is config.json of a Hugging Face directory (model_type roberta, roberta-prelayernorm
 * or normglue) with the switches of the one generic sublayer beside HF's keys. Absent
 * switches of a `roberta` file are Post-LN's, of a `roberta-prelayernorm` file Pre-LN's.
 * Unknown keys are ignored, as HF does. */
#ifndef ENCODER_CONFIG_H
#define ENCODER_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/notice.h"

enum norm_sites { SITES_NONE = 0, SITES_ATTN = 1, SITES_FFN = 2, SITES_BOTH = 3 };
enum head_scale { HEAD_SCALE_NONE, HEAD_SCALE_PRE_PROJ, HEAD_SCALE_POST_PROJ };
/* Who keeps the stream's mean at zero: nobody, the output matrices, whose columns have
 * mean zero, or each token's branch after dropout. */
enum stream_center {
    STREAM_CENTER_NONE,
    STREAM_CENTER_WRITERS,
    STREAM_CENTER_AFTER_DROPOUT,
    STREAM_CENTER_AUTO /* writers without dropout, else after_dropout */
};
enum norm_affine { AFFINE_BOTH, AFFINE_GAIN, AFFINE_NONE };
enum init_rule {
    INIT_RULE_NORMAL,
    INIT_RULE_XAVIER_NORMAL,
    INIT_RULE_XAVIER_UNIFORM,
    INIT_RULE_TORCH_LINEAR
};
enum init_targets { INIT_TARGETS_VO12, INIT_TARGETS_ALL };
/* What norm_stat sets, in the order of its row's words. */
enum norm_setting {
    NORM_MOMENTUM,           /* share of a running statistic that a step keeps */
    NORM_MOMENTUM_BACKWARD,  /* the same of what backward remembers */
    NORM_WARMUP,             /* steps on the statistics of their own batch */
    NORM_WINDOW,             /* steps whose statistics are averaged */
    NORM_FILTER,             /* 1 = leave out batches unlike the window */
    NORM_GROUPS,             /* of channels scaled a token at a time first; 0 = none */
    NORM_BWD_SCALE,          /* 1 = backward divides by the batch's statistic always */
    NORM_COMPENSATION_AFTER, /* step from which backward is rescaled */
    NORM_SETTINGS
};
struct norm_kind; /* encoder/norm.h */

/* One row a switch: ROW(field of struct arrangement, key in config.json, kind, least,
 * most, words, help). `words` are the values of a word, or what a number may be called
 * instead: such names stand for a function of the depth and are resolved to a number when
 * set. Options, config.json, --help and the choice of model_type all read these rows. */
#define CONFIG_SWITCHES(ROW)                                                            \
    ROW(pre_norm, "pre_norm", FIELD_FLAG, 0, 1, "0|1", "norm at each sublayer's input") \
    ROW(post_norm, "post_norm", FIELD_FLAG, 0, 1, "0|1", "norm after the residual add") \
    ROW(mid_norm, "mid_norm", FIELD_WORD, 0, 3, "none|attn|ffn|both",                   \
        "norm before a sublayer's output matrix")                                       \
    ROW(out_norm, "out_norm", FIELD_WORD, 0, 3, "none|attn|ffn|both",                   \
        "norm on a branch's output, before dropout")                                    \
    ROW(head_scale, "head_scale", FIELD_WORD, 0, 2, "none|pre_proj|post_proj",          \
        "a learned scale a head, before or after the output projection")                \
    ROW(resid_gain, "resid_gain", FIELD_WORD, 0, 3, "none|attn|ffn|both",               \
        "a learned gain a channel on the skip")                                         \
    ROW(resid_alpha, "resid_alpha", FIELD_NUMBER, 0, 1e6, "auto",                       \
        "constant on the skip; auto = (2 layers)^(1/4)")                                \
    ROW(bottom_skip, "bottom_skip", FIELD_FLAG, 0, 1, "0|1",                            \
        "skip from a layer's input to before its last norm")                            \
    ROW(dual_stream, "dual_stream", FIELD_NUMBER, 0, 1e6, "",                           \
        "scale of the second residual stream, 0 = off")                                 \
    ROW(dual_out, "dual_out", FIELD_NUMBER, -1e6, 1e6, "",                              \
        "weight of the first stream in a dual-stream output")                           \
    ROW(embed_norm, "embed_norm", FIELD_FLAG, 0, 1, "0|1", "norm after the embeddings") \
    ROW(final_norm, "final_norm", FIELD_FLAG, 0, 1, "0|1", "norm after the last layer") \
    ROW(norm, "norm", FIELD_NORM, 0, 0, "", "kind of the pre, post and final norms")    \
    ROW(norm_aux, "norm_aux", FIELD_NORM, 0, 0, "", "kind of all other norms")          \
    ROW(norm_affine, "norm_affine", FIELD_WORD, 0, 2, "both|gain|none",                 \
        "what the pre, post and final norms learn")                                     \
    ROW(norm_eps, "layer_norm_eps", FIELD_NUMBER, 0, 1, "", "added to variances")       \
    ROW(final_eps, "final_eps", FIELD_NUMBER, 0, 1, "", "the same in the final norm")   \
    ROW(norm_stat, "norm_stat", FIELD_NUMBERS, 0, 1e7,                                  \
        "momentum|momentum_backward|warmup|window|filter|groups|bwd_scale|"             \
        "compensation_after",                                                           \
        "settings of a batch-statistic norm, unset = its own")                          \
    ROW(norm_penalty, "norm_penalty", FIELD_NUMBERS, 0, 1e6, "mean|var",                \
        "weights of bn's penalty in a mean loss, 0 = none")                             \
    ROW(stream_center, "stream_center", FIELD_WORD, 0, 3,                               \
        "none|writers|after_dropout|auto",                                              \
        "what keeps the stream's mean at 0; auto = writers without dropout")            \
    ROW(init, "init", FIELD_WORD, 0, 3,                                                 \
        "normal|xavier_normal|xavier_uniform|torch_linear",                             \
        "rule of the linear layers' initial weights")                                   \
    ROW(initializer_range, "initializer_range", FIELD_NUMBER, 0, 10, "",                \
        "standard deviation of the normal rule and of the embeddings")                  \
    ROW(init_gain, "init_gain", FIELD_NUMBER, 0, 1e6, "deepnorm|subln|depth",           \
        "factor on the initial weights of init_targets")                                \
    ROW(init_targets, "init_targets", FIELD_WORD, 0, 1, "vo12|all",                     \
        "value, output and feed-forward matrices, or every one")

/* The switches of the generic sublayer. Each is independent of the others; a preset only
 * bundles values. resid_alpha and init_gain are numbers here, already resolved from
 * `auto`, `deepnorm` ... */
struct arrangement {
    bool pre_norm, post_norm, embed_norm, final_norm, bottom_skip;
    enum norm_sites mid_norm, out_norm, resid_gain; /* resid_gain: none, ffn or both */
    enum head_scale head_scale;
    enum stream_center stream_center; /* never auto once checked */
    double resid_alpha;               /* constant on the skip */
    double dual_stream,
        dual_out; /* kappa of ResiDual's second stream (0 = off), weight of the first */
    const struct norm_kind *norm, *norm_aux; /* at pre/post/final sites; at all others */
    enum norm_affine norm_affine;            /* of the pre/post/final sites */
    double norm_eps, final_eps;
    double norm_stat[NORM_SETTINGS]; /* NaN = not set, or nothing to the kind */
    double norm_penalty[2];          /* of batch mean and variance, 0 = none */
    enum init_rule init;
    double initializer_range; /* of the normal rule and of the embeddings */
    double init_gain;
    enum init_targets init_targets;
};

struct label {
    char name[64];
};

struct config {
    char model_type[32];
    char arch[32]; /* the preset's name, a label only */
    int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads,
        intermediate_size;
    int64_t max_position_embeddings, type_vocab_size;
    int64_t pad_token_id, bos_token_id, eos_token_id;
    double hidden_dropout_prob, attention_probs_dropout_prob;
    double classifier_dropout; /* NaN = hidden_dropout_prob */
    struct arrangement arrangement;
    char finetuning_task[32]; /* "" = none */
    int num_labels;           /* 0 = no classification head; 1 = regression */
    struct label labels[64];  /* id2label */
};

/* Longest sequence of tokens the position table can hold: position ids begin at
 * pad_token_id + 1. */
static inline int64_t config_max_tokens(const struct config *c) {
    return c->max_position_embeddings - c->pad_token_id - 1;
}

/* Channels of the residual stream: hidden_size, or one less where the norm takes the last
 * for minus the sum of the others. */
int64_t config_stream_size(const struct config *c);
/* hidden_size where output matrices keep the stream's mean at zero, else 0: the `stream`
 * of a linear layer that reads or writes it. */
int64_t config_centered_stream(const struct config *c);

/* One row of the table of named arrangements: `switches` is read as option text
 * ("pre_norm=1 post_norm=0 ..."), applied over the defaults (Post-LN). */
struct preset {
    const char *name, *switches, *paper, *summary;
};
extern const struct preset config_presets[]; /* ends with a NULL name */
/* Named sizes for help: "tiny|mini|...". */
extern const char *const config_size_names;

/* Sets sizes to `base`'s defaults of RoBERTa (vocab 50265, 768, 12, 12, 3072, 514) and
 * Post-LN. */
void config_default(struct config *c);
/* Sizes by name: tiny, mini, small, medium, base, large (Turc et al., arXiv:1908.08962).
 * ERR_USAGE lists the names. */
enum status config_set_size(struct config *c, const char *size,
                            struct error *err) MUST_CHECK;
/* The named arrangement, resolved for c's depth: set the sizes first. All switches are
 * reset. ERR_USAGE with "did you mean" and the list. */
enum status config_set_arch(struct config *c, const char *arch,
                            struct error *err) MUST_CHECK;
/* One switch ("head_scale", "post_proj"); '-' and '_' are the same in `key`. Setting
 * norm_eps moves final_eps along while they are equal. ERR_USAGE names what was expected.
 */
enum status config_set_switch(struct config *c, const char *key, const char *value,
                              struct error *err) MUST_CHECK;
/* Several, as a preset's row has them: "key=value key=value ...". */
enum status config_set_switches(struct config *c, const char *switches,
                                struct error *err) MUST_CHECK;
/* Ranges, heads dividing hidden, switches that exclude each other: one sentence each.
 * Sets model_type from the switches (roberta, roberta-prelayernorm or normglue), and
 * resolves stream_center=auto and what norm_stat leaves out. */
enum status config_check(struct config *c, struct error *err) MUST_CHECK;

/* Adds the preset's name and the switches that differ from it: "preln embed_norm=0". Of a
 * name that is no preset the name alone. `c` has been checked. */
enum status config_describe(const struct config *c, struct buffer *out,
                            struct error *err) MUST_CHECK;

/* <directory>/config.json. Errors are ERR_INPUT with the key's name. */
enum status config_read(struct config *c, const char *directory,
                        struct error *err) MUST_CHECK;
/* `task_head`: "MaskedLM", "SequenceClassification" or "Model", for `architectures`. */
enum status config_write(const struct config *c, const char *directory,
                         const char *task_head, struct error *err) MUST_CHECK;
/* "roberta" or "roberta_prelayernorm": what stands before every encoder tensor's name. */
const char *config_prefix(const struct config *c);

#endif
