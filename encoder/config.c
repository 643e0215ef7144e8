/* config - what an encoder is: sizes, the switches of its LayerNorm arrangement, dropout,
 * labels.
 *
 * An arrangement is data: independent switches over one sublayer. This file only
 * bundles them (presets), checks those that exclude each other, and decides what
 * transformers would call the result. The rows of the keys are in field.c, config.json in
 * config_file.c. */
#include "encoder/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "encoder/field.h"
#include "encoder/norm.h"

/* Turc et al., arXiv:1908.08962, table 1; heads of 64 channels, F = 4 D. */
static const struct {
    const char *name;
    int64_t layers, hidden;
} sizes[] = {
    {"tiny", 2, 128},   {"mini", 4, 256},  {"small", 4, 512},
    {"medium", 8, 512}, {"base", 12, 768}, {"large", 24, 1024},
};
const char *const config_size_names = "tiny|mini|small|medium|base|large";

/* The defaults of every switch. What is not named is 0, false or the first word of its
 * row: HF's eps of 1e-5 is what published RoBERTa files state, not the 1e-12 of the
 * class. */
static struct arrangement post_ln(void) {
    struct arrangement a = {
        .post_norm = true,
        .embed_norm = true,
        .resid_alpha = 1,
        .dual_out = 1,
        .norm = &norm_ln,
        .norm_aux = &norm_ln,
        .norm_eps = 1e-5,
        .final_eps = 1e-5,
        .initializer_range = 0.02,
        .init_gain = 1,
    };
    for (int i = 0; i < NORM_SETTINGS; i++)
        a.norm_stat[i] = NAN;
    return a;
}

void config_default(struct config *c) {
    *c = (struct config){
        .model_type = "roberta",
        .arch = "postln",
        .vocab_size = 50265,
        .max_position_embeddings = 514,
        .type_vocab_size = 1,
        .pad_token_id = 1,
        .eos_token_id = 2,
        .hidden_size = 768,
        .num_hidden_layers = 12,
        .num_attention_heads = 12,
        .intermediate_size = 3072,
        .hidden_dropout_prob = 0.1,
        .attention_probs_dropout_prob = 0.1,
        .classifier_dropout = NAN,
        .arrangement = post_ln(),
    };
}

enum status config_set_size(struct config *c, const char *size, struct error *err) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!strcmp(sizes[i].name, size)) {
            c->num_hidden_layers = sizes[i].layers;
            c->hidden_size = sizes[i].hidden;
            c->num_attention_heads = sizes[i].hidden / 64;
            c->intermediate_size = 4 * sizes[i].hidden;
            return OK;
        }
    return error_set(err, ERR_USAGE, "size: expected %s, found \"%s\"", config_size_names,
                     size);
}

static enum status unknown_arch(const char *arch, struct error *err) {
    const char *names[64];
    char list[512] = "";
    int count = 0;
    for (const struct preset *p = config_presets; p->name; p++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", count ? ", " : "", p->name);
        names[count++] = p->name;
    }
    const char *near = options_nearest(arch, names, count);
    return error_set(err, ERR_USAGE, "arch: expected one of %s, found \"%s\"%s%s%s", list,
                     arch, near ? "; did you mean \"" : "", near ? near : "",
                     near ? "\"?" : "");
}

enum status config_set_switches(struct config *c, const char *switches,
                                struct error *err) {
    char text[512], *rest;
    if (strlen(switches) >= sizeof text)
        return error_set(err, ERR_USAGE, "switches of %zu characters, at most %zu",
                         strlen(switches), sizeof text - 1);
    strcpy(text, switches);
    for (char *word = strtok_r(text, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        if (!equals)
            return error_set(err, ERR_USAGE, "expected key=value, found \"%s\"", word);
        *equals = 0;
        TRY(config_set_switch(c, word, equals + 1, err));
    }
    return OK;
}

/* The arch is only a label: a switch that is set later does not change it, and the label
 * is never read to decide anything. */
enum status config_set_arch(struct config *c, const char *arch, struct error *err) {
    for (const struct preset *p = config_presets; p->name; p++)
        if (!strcmp(p->name, arch)) {
            c->arrangement = post_ln();
            snprintf(c->arch, sizeof c->arch, "%s", p->name);
            return config_set_switches(c, p->switches, err);
        }
    return unknown_arch(arch, err);
}

enum status config_set_switch(struct config *c, const char *key, const char *value,
                              struct error *err) {
    const struct field *f = field_find(key);
    if (!f || !f->is_switch)
        return error_set(err, ERR_USAGE, "%s: no such switch of an arrangement", key);
    /* final_eps means "as the others" until somebody sets it */
    double eps = c->arrangement.norm_eps;
    const struct norm_kind *norm = c->arrangement.norm;
    TRY(field_parse(f, c, value, err));
    for (int i = 0; i < NORM_SETTINGS && c->arrangement.norm != norm; i++)
        c->arrangement.norm_stat[i] = NAN; /* another kind has settings of its own */
    if (c->arrangement.final_eps == eps && strcmp(f->name, "final_eps"))
        c->arrangement.final_eps = c->arrangement.norm_eps;
    return OK;
}

/* Rules of single switches against each other. */
static enum status check_sites(const struct arrangement *a, struct error *err) {
    if (!a->pre_norm && !a->post_norm)
        return error_set(err, ERR_USAGE,
                         "pre_norm and post_norm are both 0: expected at least one");
    if (a->dual_stream > 0 && !(a->post_norm && a->final_norm))
        return error_set(err, ERR_USAGE,
                         "dual_stream %g needs post_norm=1 and final_norm=1",
                         a->dual_stream);
    if (a->dual_out != 1 && !(a->dual_stream > 0))
        return error_set(err, ERR_USAGE, "dual_out %g needs dual_stream above 0",
                         a->dual_out);
    if (!a->norm_aux->forward_row || a->norm_aux->implies_channel)
        return error_set(err, ERR_USAGE,
                         "norm_aux=%s: this norm stands at the pre, post and final sites "
                         "only: set norm",
                         a->norm_aux->name);
    if ((a->norm_penalty[0] > 0 || a->norm_penalty[1] > 0) && a->norm != &norm_bn)
        return error_set(err, ERR_USAGE, "norm_penalty needs norm=bn, found norm=%s",
                         a->norm->name);
    return OK;
}

/* A stream of mean zero, and one that leaves a channel out. */
static enum status check_stream(const struct config *c, struct error *err) {
    const struct arrangement *a = &c->arrangement;
    if (a->stream_center != STREAM_CENTER_NONE && a->post_norm)
        return error_set(err, ERR_USAGE,
                         "stream_center needs post_norm=0: that norm writes the stream");
    if (a->stream_center == STREAM_CENTER_WRITERS && c->hidden_dropout_prob > 0)
        return error_set(err, ERR_USAGE,
                         "stream_center=writers needs hidden_dropout_prob 0, found %g: "
                         "what dropout leaves has another mean (see after_dropout)",
                         c->hidden_dropout_prob);
    if (!a->norm->implies_channel)
        return OK;
    if (a->post_norm || a->embed_norm || a->out_norm != SITES_NONE ||
        a->head_scale == HEAD_SCALE_POST_PROJ)
        return error_set(err, ERR_USAGE,
                         "norm=%s needs post_norm=0, embed_norm=0, out_norm=none and no "
                         "head_scale=post_proj: its stream has hidden_size - 1 channels",
                         a->norm->name);
    if (a->stream_center != STREAM_CENTER_WRITERS)
        return error_set(err, ERR_USAGE,
                         "norm=%s needs stream_center=writers and hidden_dropout_prob 0",
                         a->norm->name);
    if (c->hidden_size < 2)
        return error_set(err, ERR_USAGE, "norm=%s needs hidden_size 2 at least",
                         a->norm->name);
    return OK;
}

static void resolve_center(struct config *c) {
    if (c->arrangement.stream_center == STREAM_CENTER_AUTO)
        c->arrangement.stream_center = c->hidden_dropout_prob > 0
                                           ? STREAM_CENTER_AFTER_DROPOUT
                                           : STREAM_CENTER_WRITERS;
}

/* Sizes against each other; each alone is bounded by its row. */
static enum status check_sizes(const struct config *c, struct error *err) {
    if (c->hidden_size % c->num_attention_heads)
        return error_set(err, ERR_USAGE,
                         "hidden_size %lld is not a multiple of num_attention_heads %lld",
                         (long long)c->hidden_size, (long long)c->num_attention_heads);
    if (config_max_tokens(c) < 1)
        return error_set(err, ERR_USAGE,
                         "max_position_embeddings %lld leaves no room beyond "
                         "pad_token_id %lld: positions begin at pad_token_id + 1",
                         (long long)c->max_position_embeddings,
                         (long long)c->pad_token_id);
    int64_t largest =
        c->pad_token_id > c->eos_token_id ? c->pad_token_id : c->eos_token_id;
    if (c->bos_token_id > largest)
        largest = c->bos_token_id;
    if (largest >= c->vocab_size)
        return error_set(err, ERR_USAGE,
                         "special token id %lld is outside the vocabulary of %lld",
                         (long long)largest, (long long)c->vocab_size);
    return OK;
}

/* Do the switches compute what the preset computes? How weights start does not matter,
 * and eps only where the final norm's differs from the others'. */
static bool computes(const struct config *c, const char *preset) {
    static const char *const ignored[] = {"norm_eps",     "final_eps",
                                          "init",         "init_gain",
                                          "init_targets", "initializer_range"};
    struct config other;
    struct error err;
    config_default(&other);
    if (config_set_arch(&other, preset, &err) != OK)
        return false;
    for (const struct field *f = config_fields; f->name; f++) {
        bool skip = !f->is_switch;
        for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
            skip |= !strcmp(f->name, ignored[i]);
        if (!skip && !field_equal(f, c, &other))
            return false;
    }
    return !c->arrangement.final_norm ||
           c->arrangement.final_eps == c->arrangement.norm_eps;
}

enum status config_check(struct config *c, struct error *err) {
    for (const struct field *f = config_fields; f->name; f++)
        TRY(field_check(f, c, err));
    TRY(check_sizes(c, err));
    resolve_center(c);
    TRY(check_sites(&c->arrangement, err));
    TRY(check_stream(c, err));
    TRY(norm_check_settings(c, err));
    const char *type = computes(c, "postln")  ? "roberta"
                       : computes(c, "preln") ? "roberta-prelayernorm"
                                              : "normglue";
    snprintf(c->model_type, sizeof c->model_type, "%s", type);
    return OK;
}

enum status config_describe(const struct config *c, struct buffer *out,
                            struct error *err) {
    const bool is_preln = !strcmp(c->model_type, "roberta-prelayernorm");
    const char *name = *c->arch ? c->arch : is_preln ? "preln" : "postln";
    struct config preset = *c;
    struct error unknown;
    char text[FIELD_TEXT];
    TRY(buffer_print(out, err, "%s", name));
    if (config_set_arch(&preset, name, &unknown) != OK ||
        config_check(&preset, &unknown) != OK)
        return OK;
    for (const struct field *f = config_fields; f->name; f++) {
        if (!f->is_switch || field_equal(f, c, &preset))
            continue;
        const char *value = field_format(f, c, text);
        const int quoted = *value == '"';
        TRY(buffer_print(out, err, " %s=%.*s", f->name, (int)strlen(value) - 2 * quoted,
                         value + quoted));
    }
    return OK;
}

int64_t config_stream_size(const struct config *c) {
    return c->hidden_size - c->arrangement.norm->implies_channel;
}

int64_t config_centered_stream(const struct config *c) {
    return c->arrangement.stream_center == STREAM_CENTER_WRITERS ? c->hidden_size : 0;
}

const char *config_prefix(const struct config *c) {
    return strcmp(c->model_type, "roberta-prelayernorm") ? "roberta"
                                                         : "roberta_prelayernorm";
}
