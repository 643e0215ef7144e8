/* sublayer_declare - parameters and memory of the one residual block.
 *
 * Names and their order are those of Hugging Face's RoBERTa, with names of its kind for
 * what RoBERTa has not; the order is also that of the parameters in memory. query, key
 * and value lie one after the other (`adjoins`), so that they are one matrix (3 D, D) for
 * the product and three tensors in a file.
 *
 * Layout decides what is kept and where it stands; nothing below allocates. */
#include <stdio.h>
#include <string.h>

#include "encoder/encoder.h"
#include "encoder/middle.h"
#include "encoder/sublayer.h"

/* ---- Declaring. ---- */

/* What a sublayer's tensors are called below "<prefix>.encoder.layer.N.". */
static const struct names {
    const char *pre, *mid, *out, *post, *resid_gain, *output;
    enum norm_sites site; /* its bit in mid_norm, out_norm and resid_gain */
} attention_names = {"attention.LayerNorm",
                     "attention.self.inner_attn_ln",
                     "attention.output.attn_ln",
                     "attention.output.LayerNorm",
                     "attention.output.resid_scale",
                     "attention.output.dense",
                     SITES_ATTN},
  feed_forward_names = {"intermediate.LayerNorm",
                        "intermediate.ffn_layernorm",
                        "output.out_layernorm",
                        "output.LayerNorm",
                        "output.resid_scale",
                        "output.dense",
                        SITES_FFN};

struct declaration {
    struct sublayer *s;
    struct parameters *p;
    const struct names *names;
    char layer[64]; /* "roberta.encoder.layer.3" */
};

static void declare_norm(const struct declaration *d, struct norm *n, bool on, bool main,
                         int64_t width, const char *name) {
    const struct arrangement *a = &d->s->config->arrangement;
    char full[128];
    if (!on)
        return;
    snprintf(full, sizeof full, "%s.%s", d->layer, name);
    norm_declare(n, main ? norm_main(a, false) : norm_aux(a), width,
                 device_team(d->s->device), d->p, full);
}

/* query, key, value, out, fc1, fc2: `targeted` says whether init_gain reaches it when
 * init_targets is vo12. */
static struct parameter_spec matrix_spec(const struct sublayer *s, bool targeted,
                                         enum parameter_side side) {
    const struct arrangement *a = &s->config->arrangement;
    return (struct parameter_spec){
        .init = PARAMETER_LINEAR,
        .gain = targeted || a->init_targets == INIT_TARGETS_ALL ? a->init_gain : 1,
        .decay = true,
        .is_product = true,
        .side = side,
        .stream = config_centered_stream(s->config)};
}

static void declare_query_key_value(const struct declaration *d) {
    static const char *const parts[] = {"query", "key", "value"};
    const int64_t width = d->s->config->hidden_size;
    const int64_t stream = config_stream_size(d->s->config);
    struct parameter *first_bias = NULL;
    for (int i = 0; i < 3; i++) {
        struct parameter_spec spec = matrix_spec(d->s, i == 2, PARAMETER_READS);
        spec.adjoins = i > 0;
        struct parameter *p = parameters_add(
            d->p, spec, width, stream, "%s.attention.self.%s.weight", d->layer, parts[i]);
        d->s->in_parts[i] = p;
    }
    for (int i = 0; i < 3; i++) {
        const struct parameter_spec spec = {.init = PARAMETER_ZERO, .adjoins = i > 0};
        struct parameter *p = parameters_add(
            d->p, spec, width, 0, "%s.attention.self.%s.bias", d->layer, parts[i]);
        first_bias = first_bias ? first_bias : p;
    }
    d->s->in_weight = d->s->in_parts[0];
    d->s->in_bias = first_bias;
}

static void declare_fc1(const struct declaration *d) {
    const struct config *c = d->s->config;
    const struct parameter_spec bias = {.init = PARAMETER_ZERO};
    d->s->in_weight = d->s->in_parts[0] = parameters_add(
        d->p, matrix_spec(d->s, true, PARAMETER_READS), c->intermediate_size,
        config_stream_size(c), "%s.intermediate.dense.weight", d->layer);
    d->s->in_bias = parameters_add(d->p, bias, c->intermediate_size, 0,
                                   "%s.intermediate.dense.bias", d->layer);
}

static void declare_scales(const struct declaration *d) {
    const struct config *c = d->s->config;
    const struct parameter_spec one = {.init = PARAMETER_ONE};
    if (d->s->attention && c->arrangement.head_scale != HEAD_SCALE_NONE)
        d->s->head_scale = parameters_add(d->p, one, c->num_attention_heads, 0,
                                          "%s.attention.self.head_scale", d->layer);
    if (c->arrangement.resid_gain & d->names->site)
        d->s->resid_gain = parameters_add(d->p, one, config_stream_size(c), 0, "%s.%s",
                                          d->layer, d->names->resid_gain);
}

void sublayer_declare(struct sublayer *s, const struct config *config,
                      struct device *device, const struct attention *attention,
                      struct parameters *p, int64_t layer) {
    const struct arrangement *a = &config->arrangement;
    const int64_t width = config_stream_size(config);
    const int64_t core = attention ? config->hidden_size : config->intermediate_size;
    struct declaration d = {s, p, attention ? &attention_names : &feed_forward_names, ""};
    char name[128];
    *s = (struct sublayer){.config = config, .device = device, .attention = attention};
    s->dropout_site = (uint32_t)(DROPOUT_SITE_LAYERS + 3 * layer + (attention ? 1 : 2));
    s->adds_bottom = !attention && a->bottom_skip;
    s->is_last = !attention && layer == config->num_hidden_layers - 1;
    s->turn = (int)((2 * layer + !attention) % (2 + a->bottom_skip));
    snprintf(d.layer, sizeof d.layer, "%s.encoder.layer.%lld", config_prefix(config),
             (long long)layer);
    declare_norm(&d, &s->pre, a->pre_norm, true, width, d.names->pre);
    if (attention)
        declare_query_key_value(&d);
    else
        declare_fc1(&d);
    declare_norm(&d, &s->mid, a->mid_norm & d.names->site, false, core, d.names->mid);
    snprintf(name, sizeof name, "%s.%s", d.layer, d.names->output);
    linear_declare(&s->output, device, p, matrix_spec(s, true, PARAMETER_WRITES), core,
                   width, name);
    declare_scales(&d);
    declare_norm(&d, &s->out, a->out_norm & d.names->site, false, width, d.names->out);
    declare_norm(&d, &s->post, a->post_norm, true, width, d.names->post);
    device_reserve(device, attention ? 3 * core : core, width);
    residual_reserve(device_team(device), width);
    middle_reserve(device_team(device), core);
}

/* ---- Laying out. ---- */

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Outputs of a post norm that are in use at the same time: a sublayer's input and output,
 * and with bottom_skip the layer's input. A pre norm's goes no further. */
static int outputs_at_once(const struct config *c) {
    const struct arrangement *a = &c->arrangement;
    return a->post_norm && !a->pre_norm ? 2 + a->bottom_skip : a->pre_norm ? 1 : 0;
}

void workspace_layout(struct workspace *w, struct arena *arena,
                      const struct config *config, enum dtype dtype, int64_t max_rows,
                      int64_t max_picked, bool train) {
    const int64_t d = config->hidden_size, f = config->intermediate_size;
    const int64_t stream = config_stream_size(config);
    w->wide = tensor_take(arena, dtype, max_rows, most(train ? 3 * d : d, f));
    w->branch = tensor_take(arena, dtype, max_rows, stream);
    for (int i = 0; i < outputs_at_once(config); i++)
        if (!train || i == 0)
            w->normed[i] = tensor_take(arena, dtype, max_rows, stream);
    if (!train)
        return;
    for (int i = 0; i < 2; i++) {
        w->dx[i] = tensor_take(arena, DTYPE_F32, max_rows, d); /* dcore may be wider */
        w->dx[i].columns = stream;
        if (i + 1 < outputs_at_once(config)) /* forward alone needs it */
            w->normed[i + 1] = (struct tensor){w->dx[i].data, dtype, max_rows, stream};
    }
    w->dpicked = tensor_take(arena, DTYPE_F32, max_picked, stream);
    if (config->arrangement.bottom_skip)
        w->dbottom = tensor_take(arena, DTYPE_F32, max_rows, stream);
}

/* A norm over a batch reads f32; its output is an operand of products. */
static bool reads_f32(const struct norm *n) { return n->kind && !norm_is_by_rows(n); }

/* Is the output read by such a norm: the next sublayer's, or the final one? */
static bool is_read_as_f32(const struct sublayer *s) {
    const struct arrangement *a = &s->config->arrangement;
    return reads_f32(&s->pre) || (s->is_last && a->final_norm && a->norm->buffers);
}

void sublayer_layout(struct sublayer *s, struct arena *arena, int64_t max_rows_in,
                     int64_t max_rows_out, bool picks) {
    const struct config *c = s->config;
    const enum dtype dtype = device_dtype(s->device);
    const int64_t d = c->hidden_size, stream = config_stream_size(c);
    norm_layout(&s->pre, arena, max_rows_in);
    norm_layout(&s->mid, arena, max_rows_out);
    norm_layout(&s->out, arena, max_rows_out);
    norm_layout(&s->post, arena, max_rows_out);
    if (s->pre.kind && !norm_is_by_rows(&s->pre))
        s->normed = tensor_take(arena, dtype, max_rows_in, stream);
    s->hidden = tensor_take(arena, dtype, max_rows_in,
                            s->attention ? 3 * d : c->intermediate_size);
    if (s->attention) {
        s->context = tensor_take(arena, dtype, max_rows_out, d);
        s->lse = ARENA_TAKE(arena, float, max_rows_out * c->num_attention_heads);
    }
    if (picks)
        s->picked = tensor_take(arena, dtype, max_rows_out, stream);
    if (picks && s->pre.kind)
        s->picked_normed = tensor_take(arena, dtype, max_rows_out, stream);
    if (s->out.kind || sublayer_scales_after(s))
        s->z = tensor_take(arena, dtype, max_rows_out, stream);
    if (s->post.kind)
        s->v = tensor_take(arena, reads_f32(&s->post) ? DTYPE_F32 : dtype, max_rows_out,
                           stream);
    if (!sublayer_rebuilds_output(s))
        s->y = tensor_take(arena, is_read_as_f32(s) ? DTYPE_F32 : dtype, max_rows_out,
                           stream);
}
