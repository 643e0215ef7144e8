/* convert - a Pre-LN model into one with RMSNorm or CRMSNorm that computes the same.
 *
 * Why it is exact: LN(x) = gain (x - mean x) / rms(x - mean x) + bias. If every writer's
 * output has mean zero, so has the stream, and (x - mean x) is x: RMSNorm. Writers reach
 * that by losing the mean of each column; dropout would give it back, hence
 * after_dropout.
 *
 * 15 arrangements were converted: the logits agree to 1e-5 in f32. */
#include "encoder/convert.h"

#include <stdio.h>
#include <string.h>

#include "encoder/norm.h"

/* Does a vector with a mean of its own enter the stream after the output matrix? */
static bool writes_after_matrix(const struct arrangement *a) {
    return a->out_norm != SITES_NONE || a->head_scale == HEAD_SCALE_POST_PROJ;
}

/* The switch that stands in the way; NULL = none. */
static const char *obstacle(const struct arrangement *a, bool is_narrow) {
    return a->norm != &norm_ln ? "norm is not ln"
           : a->post_norm      ? "post_norm=1: that norm writes the stream with its mean"
           : !a->final_norm    ? "final_norm=0: the head reads the stream with its mean"
           : a->resid_gain     ? "resid_gain changes the stream's mean"
           : a->stream_center  ? "stream_center is set already"
           : is_narrow && a->embed_norm
               ? "embed_norm=1: prerms has it, precrms has no place for it"
           : is_narrow && writes_after_matrix(a)
               ? "out_norm or head_scale=post_proj: prerms has it, precrms has no place "
                 "for it"
               : NULL;
}

/* What the target asks, or what arrangement and dropout need. */
static enum status choose_center(struct rewrite *r, struct convert_target target,
                                 bool is_narrow, const struct notices *notices,
                                 struct error *err) {
    struct config *c = &r->config;
    const bool is_auto = !strcmp(target.stream_center, "auto");
    const bool after_dropout =
        is_auto ? !is_narrow &&
                      (writes_after_matrix(&c->arrangement) || c->hidden_dropout_prob > 0)
                : !strcmp(target.stream_center, "after_dropout");
    if (after_dropout && is_narrow)
        return error_set(err, ERR_USAGE, "stream_center: precrms needs writers");
    if (!after_dropout && writes_after_matrix(&c->arrangement))
        return error_set(err, ERR_USAGE,
                         "stream_center: out_norm and head_scale=post_proj need "
                         "after_dropout");
    if (!after_dropout && c->hidden_dropout_prob > 0) {
        notice(notices,
               "%s: hidden_dropout_prob %g becomes 0: centred output matrices are exact "
               "without dropout only",
               r->directory, c->hidden_dropout_prob);
        c->hidden_dropout_prob = 0;
    }
    c->arrangement.stream_center =
        after_dropout ? STREAM_CENTER_AFTER_DROPOUT : STREAM_CENTER_WRITERS;
    return OK;
}

/* What the final norm loses must go into a head. */
static enum status check_head(const struct rewrite *r, const struct rewrite_site *site,
                              bool is_narrow, struct error *err) {
    if (!site->is_final || site->num_readers || !(site->bias || is_narrow))
        return OK;
    return error_set(err, ERR_INCOMPATIBLE,
                     "%s: expected a head that reads the final norm, found none",
                     r->directory);
}

static enum status convert_sites(struct rewrite *r, bool is_narrow, struct error *err) {
    for (int i = 0; i < rewrite_num_sites(r); i++) {
        struct rewrite_site site;
        TRY(rewrite_site(r, i, &site, err));
        TRY(check_head(r, &site, is_narrow, err));
        for (int j = 0; j < site.num_readers; j++) {
            const float *shift = site.bias ? site.bias->value : NULL;
            const float *gain = site.weight ? site.weight->value : NULL;
            rewrite_fold_input(site.readers[j], NULL, shift);
            if (is_narrow)
                rewrite_fold_input(site.readers[j], gain, NULL);
            if (is_narrow)
                rewrite_imply_input(site.readers[j]);
        }
        rewrite_remove(site.bias);
        if (is_narrow)
            rewrite_remove(site.weight);
    }
    return OK;
}

static enum status convert_writers(struct rewrite *r, bool is_narrow, struct error *err) {
    const bool center = r->config.arrangement.stream_center == STREAM_CENTER_WRITERS;
    for (int i = 0; i < rewrite_num_writers(r); i++) {
        struct rewrite_linear writer;
        TRY(rewrite_writer(r, i, &writer, err));
        if (center)
            rewrite_center_output(writer);
        if (is_narrow)
            rewrite_drop_output(writer);
    }
    return OK;
}

enum status convert_model(struct rewrite *r, struct convert_target target,
                          const struct notices *notices, struct error *err) {
    struct arrangement *a = &r->config.arrangement;
    const bool is_narrow = !strcmp(target.arch, "precrms");
    const char *reason = obstacle(a, is_narrow);
    if (reason)
        return error_set(err, ERR_INCOMPATIBLE, "%s: cannot become %s: %s", r->directory,
                         target.arch, reason);
    TRY(choose_center(r, target, is_narrow, notices, err));
    TRY(convert_sites(r, is_narrow, err));
    TRY(convert_writers(r, is_narrow, err));
    a->norm = is_narrow ? &norm_crms : &norm_rms;
    a->norm_affine =
        is_narrow || a->norm_affine == AFFINE_NONE ? AFFINE_NONE : AFFINE_GAIN;
    snprintf(r->config.arch, sizeof r->config.arch, "%s", target.arch);
    return OK;
}
