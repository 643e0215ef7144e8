/* fold - a model without the multiplications that inference can do without, computing the
 * same.
 *
 *   W (s x + t) + b  =  (W diag(s)) x + (b + W t)
 *
 * All folding is this identity: s and t of a norm's gain and bias, or of the line that a
 * norm with running statistics is outside training, go into the matrices that read it.
 * What reads the stream itself (a skip) cannot take a factor, which is why post norms
 * stay. */
#include "encoder/fold.h"

#include <math.h>
#include <stdlib.h>

#include "encoder/norm.h"

/* ---- Head scales. ---- */

static void scale_rows(struct rewrite_linear l, const float *scale) {
    const int64_t out = l.weight->shape[0], in = l.weight->shape[1];
    for (int64_t o = 0; o < out; o++) {
        for (int64_t i = 0; i < in; i++)
            l.weight->value[o * in + i] *= scale[o];
        l.bias->value[o] *= scale[o];
    }
}

static enum status fold_head_scale(struct rewrite *r, int layer, float *repeated,
                                   struct error *err) {
    const struct config *c = &r->config;
    const int64_t size = c->hidden_size / c->num_attention_heads;
    struct rewrite_tensor *scale;
    struct rewrite_linear output;
    TRY(rewrite_need(r, &scale, c->num_attention_heads, 0, err,
                     "encoder.layer.%d.attention.self.head_scale", layer));
    TRY(rewrite_writer(r, 2 * layer, &output, err));
    for (int64_t i = 0; i < c->hidden_size; i++)
        repeated[i] = scale->value[i / size];
    if (c->arrangement.head_scale == HEAD_SCALE_PRE_PROJ)
        rewrite_fold_input(output, repeated, NULL);
    else
        scale_rows(output, repeated);
    rewrite_remove(scale);
    return OK;
}

static enum status fold_head_scales(struct rewrite *r, float *room, struct error *err) {
    struct arrangement *a = &r->config.arrangement;
    const bool is_normed =
        a->head_scale == HEAD_SCALE_PRE_PROJ && (a->mid_norm & SITES_ATTN);
    if (a->head_scale == HEAD_SCALE_NONE || is_normed)
        return OK;
    for (int layer = 0; layer < r->config.num_hidden_layers; layer++)
        TRY(fold_head_scale(r, layer, room, err));
    a->head_scale = HEAD_SCALE_NONE;
    return OK;
}

/* ---- Mid norms. ---- */

static enum status fold_mid_norm(struct rewrite *r, int i, struct error *err) {
    const struct config *c = &r->config;
    const char *name =
        i % 2 ? "intermediate.ffn_layernorm" : "attention.self.inner_attn_ln";
    const int64_t width = i % 2 ? c->intermediate_size : c->hidden_size;
    struct rewrite_tensor *gain, *bias;
    struct rewrite_linear output;
    TRY(rewrite_need(r, &gain, width, 0, err, "encoder.layer.%d.%s.weight", i / 2, name));
    TRY(rewrite_need(r, &bias, width, 0, err, "encoder.layer.%d.%s.bias", i / 2, name));
    TRY(rewrite_writer(r, i, &output, err));
    rewrite_fold_input(output, gain->value, bias->value);
    for (int64_t j = 0; j < width; j++) {
        gain->value[j] = 1;
        bias->value[j] = 0;
    }
    return OK;
}

static enum status fold_mid_norms(struct rewrite *r, struct error *err) {
    for (int i = 0; i < rewrite_num_writers(r); i++)
        if (r->config.arrangement.mid_norm & (i % 2 ? SITES_FFN : SITES_ATTN))
            TRY(fold_mid_norm(r, i, err));
    return OK;
}

/* ---- Pre and final norms. ---- */

/* Room for a line y = scale x + shift of each channel. */
struct line {
    float *scale, *shift, *origin;
};

/* The buffers of a site, as a norm sees them. */
static enum status find_buffers(const struct rewrite *r, const char *site, struct norm *n,
                                struct parameter values[NORM_MOST_BUFFERS],
                                struct error *err) {
    const struct norm_buffer *rows = n->kind->buffers;
    for (int i = 0; rows[i].name; i++) {
        struct rewrite_tensor *t = rewrite_find(r, "%s.%s", site, rows[i].name);
        if (!t)
            return error_set(err, ERR_INCOMPATIBLE, "%s: %s.%s is missing", r->directory,
                             site, rows[i].name);
        values[i].value = t->value;
        n->buffers[i] = &values[i];
    }
    return OK;
}

static void remove_buffers(const struct rewrite *r, const char *site) {
    const struct norm_buffer *rows = r->config.arrangement.norm->buffers;
    for (int i = 0; rows && rows[i].name; i++)
        rewrite_remove(rewrite_find(r, "%s.%s", site, rows[i].name));
}

/* Gain and bias alone, or with the running statistics of a kind whose line is fixed. */
static enum status line_of(const struct rewrite *r, const struct rewrite_site *site,
                           bool is_fixed, struct line *line, struct error *err) {
    const struct arrangement *a = &r->config.arrangement;
    const int64_t width = config_stream_size(&r->config);
    struct parameter values[NORM_MOST_BUFFERS] = {0};
    struct norm n = {.kind = a->norm,
                     .settings = a->norm_stat,
                     .width = width,
                     .eps = (float)(site->is_final ? a->final_eps : a->norm_eps)};
    for (int64_t c = 0; c < width; c++) {
        line->origin[c] = 0;
        line->scale[c] = 1;
    }
    if (is_fixed) {
        TRY(find_buffers(r, site->name, &n, values, err));
        n.kind->running(&n, line->origin, line->scale);
    }
    for (int64_t c = 0; c < width; c++) {
        line->scale[c] *= site->weight ? site->weight->value[c] : 1;
        line->shift[c] =
            (site->bias ? site->bias->value[c] : 0) - line->scale[c] * line->origin[c];
    }
    return OK;
}

static enum status fold_site(const struct rewrite *r, int i, bool is_fixed,
                             struct line *line, struct error *err) {
    struct rewrite_site site;
    TRY(rewrite_site(r, i, &site, err));
    TRY(line_of(r, &site, is_fixed, line, err));
    for (int j = 0; j < site.num_readers; j++)
        rewrite_fold_input(site.readers[j], line->scale, line->shift);
    rewrite_remove(site.weight);
    rewrite_remove(site.bias);
    if (is_fixed)
        remove_buffers(r, site.name);
    return OK;
}

/* Is all that the norm does outside training a line of each channel? */
static bool is_line(const struct arrangement *a) {
    const double groups = a->norm_stat[NORM_GROUPS];
    return a->norm->buffers && (isnan(groups) || groups == 0);
}

/* The final norm must have somewhere to go. */
static enum status can_fold_sites(const struct rewrite *r, bool *can, struct error *err) {
    const struct arrangement *a = &r->config.arrangement;
    struct rewrite_site last;
    *can = !a->post_norm && !norm_is_none(a->norm);
    if (!*can || !a->final_norm)
        return OK;
    TRY(rewrite_site(r, rewrite_num_sites(r) - 1, &last, err));
    *can = last.num_readers > 0;
    return OK;
}

static enum status fold_sites(struct rewrite *r, struct line *line, struct error *err) {
    struct arrangement *a = &r->config.arrangement;
    const bool is_fixed = is_line(a);
    bool can;
    TRY(can_fold_sites(r, &can, err));
    if (!can)
        return OK;
    for (int i = 0; i < rewrite_num_sites(r); i++)
        TRY(fold_site(r, i, is_fixed, line, err));
    a->norm_affine = AFFINE_NONE;
    if (is_fixed) {
        a->norm_penalty[0] = a->norm_penalty[1] = 0;
        return config_set_switch(&r->config, "norm", "none", err);
    }
    return OK;
}

enum status fold_model(struct rewrite *r, struct error *err) {
    const size_t width = (size_t)r->config.hidden_size;
    float *room = calloc(3 * width, sizeof *room);
    if (!room)
        return error_set(err, ERR_MEMORY, "%s: out of memory", r->directory);
    struct line line = {room, room + width, room + 2 * width};
    enum status status = fold_head_scales(r, room, err);
    if (status == OK)
        status = fold_mid_norms(r, err);
    if (status == OK)
        status = fold_sites(r, &line, err);
    free(room);
    return status;
}
