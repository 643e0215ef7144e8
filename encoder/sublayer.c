/* sublayer - forward and backward of the one residual block. */
#include "encoder/sublayer.h"

#include <stdio.h>
#include <string.h>

#include "encoder/columns.h"
#include "encoder/encoder.h"
#include "encoder/middle.h"
#include "encoder/rows.h"

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

static bool scales_before(const struct sublayer *s) {
    return s->head_scale && s->config->arrangement.head_scale == HEAD_SCALE_PRE_PROJ;
}

static bool scales_after(const struct sublayer *s) {
    return s->head_scale && s->config->arrangement.head_scale == HEAD_SCALE_POST_PROJ;
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

void workspace_layout(struct workspace *w, struct arena *arena,
                      const struct config *config, enum dtype dtype, int64_t max_rows,
                      int64_t max_picked, bool train) {
    const int64_t d = config->hidden_size, f = config->intermediate_size;
    const int64_t stream = config_stream_size(config);
    w->wide = tensor_take(arena, dtype, max_rows, most(train ? 3 * d : d, f));
    w->branch = tensor_take(arena, dtype, max_rows, stream);
    if (!train)
        return;
    w->dcore = tensor_take(arena, dtype, max_rows, d);
    for (int i = 0; i < 2; i++)
        w->dx[i] = tensor_take(arena, DTYPE_F32, max_rows, stream);
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
    if (s->pre.kind)
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
    if (s->out.kind || scales_after(s))
        s->z = tensor_take(arena, dtype, max_rows_out, stream);
    if (s->post.kind)
        s->v = tensor_take(arena, reads_f32(&s->post) ? DTYPE_F32 : dtype, max_rows_out,
                           stream);
    s->y =
        tensor_take(arena, is_read_as_f32(s) ? DTYPE_F32 : dtype, max_rows_out, stream);
}

/* ---- Both directions. ---- */

static int threads_of(const struct sublayer *s) { return device_threads(s->device); }

/* The rows that a norm at the sublayer's input sees, and one at its end. */
static struct norm_rows norm_rows_in(const struct stage *st) {
    return (struct norm_rows){st->tokens_in, st->batch_norms, st->targets};
}
static struct norm_rows norm_rows_out(const struct stage *st) {
    return (struct norm_rows){st->tokens_out, st->batch_norms, st->targets};
}

/* The buffer's first rows as a matrix of its own width. */
static struct tensor shaped(struct tensor buffer, int64_t rows, int64_t columns) {
    return (struct tensor){buffer.data, buffer.dtype, rows, columns};
}

/* `count` rows of query, key and value's common matrix, of its values or gradients. */
static struct tensor in_matrix(const struct sublayer *s, float *data, int64_t first,
                               int64_t count) {
    const int64_t columns = s->in_weight->shape[1];
    return tensor_f32(data + first * columns, count, columns);
}

static const struct norm *or_null(const struct norm *n) { return n->kind ? n : NULL; }

static struct residual residual_of(const struct sublayer *s, const struct stage *st) {
    const struct arrangement *a = &s->config->arrangement;
    return (struct residual){
        .alpha = (float)a->resid_alpha,
        .kappa = (float)a->dual_stream,
        .gain = s->resid_gain,
        .head_scale = scales_after(s) ? s->head_scale : NULL,
        .out = or_null(&s->out),
        .post = norm_is_by_rows(&s->post) ? &s->post : NULL,
        .center = a->stream_center == STREAM_CENTER_AFTER_DROPOUT,
        .rate = st->train ? (float)s->config->hidden_dropout_prob : 0,
        .stream = rng_stream(st->seed, RNG_DROPOUT, s->dropout_site, st->step),
        .names = st->attention.queries,
        .team = device_team(s->device),
    };
}

static struct middle middle_of(const struct sublayer *s) {
    return (struct middle){.gelu = !s->attention,
                           .head_scale = scales_before(s) ? s->head_scale : NULL,
                           .mid = or_null(&s->mid),
                           .team = device_team(s->device)};
}

/* Where query, key and value stand in (rows_in, 3 D); with picked rows key and value are
 * (rows_in, 2 D) and the queries (rows_out, D) follow. */
struct projections {
    struct tensor joint, query; /* query.data NULL: part of joint */
    struct heads heads;
};

static struct projections projections_of(const struct sublayer *s, const struct stage *st,
                                         struct tensor buffer) {
    const int64_t d = s->config->hidden_size;
    struct projections p = {0};
    if (!st->pick) {
        p.joint = shaped(buffer, st->rows_in, 3 * d);
        p.heads.q = heads_view(p.joint, 0);
        p.heads.k = heads_view(p.joint, d);
        p.heads.v = heads_view(p.joint, 2 * d);
        return p;
    }
    p.joint = shaped(buffer, st->rows_in, 2 * d);
    p.query =
        (struct tensor){rows_at(p.joint, st->rows_in), buffer.dtype, st->rows_out, d};
    p.heads.q = heads_view(p.query, 0);
    p.heads.k = heads_view(p.joint, 0);
    p.heads.v = heads_view(p.joint, d);
    return p;
}

static float probs_rate(const struct sublayer *s, const struct stage *st) {
    return st->train ? (float)s->config->attention_probs_dropout_prob : 0;
}

static struct rng probs_stream(const struct sublayer *s, const struct stage *st) {
    return rng_stream(st->seed, RNG_DROPOUT, s->dropout_site - 1, st->step);
}

/* ---- Forward. ---- */

static struct tensor attention_core(struct sublayer *s, const struct stage *st,
                                    struct tensor u) {
    const int64_t d = s->config->hidden_size;
    const struct projections p = projections_of(s, st, s->hidden);
    float *weight = s->in_weight->value, *bias = s->in_bias->value;
    if (!st->pick) {
        device_product(s->device, p.joint, u, in_matrix(s, weight, 0, 3 * d), bias);
    } else {
        struct tensor picked = s->skip;
        if (s->pre.kind) {
            picked = tensor_head(s->picked_normed, st->rows_out);
            rows_gather(picked, u, st->pick, st->tokens_out, threads_of(s));
        }
        device_product(s->device, p.joint, u, in_matrix(s, weight, d, 2 * d), bias + d);
        device_product(s->device, p.query, picked, in_matrix(s, weight, 0, d), bias);
    }
    const struct tensor context = tensor_head(s->context, st->rows_out);
    attention_forward(s->attention, st->attention, p.heads, probs_rate(s, st),
                      probs_stream(s, st), context, s->lse);
    return context;
}

static struct tensor feed_forward_core(struct sublayer *s, const struct stage *st,
                                       struct tensor u) {
    const int64_t f = s->config->intermediate_size;
    const struct tensor hidden = tensor_head(s->hidden, st->rows_in);
    device_product(s->device, hidden, u, in_matrix(s, s->in_weight->value, 0, f),
                   s->in_bias->value);
    return hidden;
}

/* What the output matrix reads: the core itself, or in w->wide what follows from it. */
static struct tensor finished_core(const struct sublayer *s, const struct workspace *w,
                                   struct tensor core) {
    const struct middle middle = middle_of(s);
    if (middle_is_identity(&middle))
        return core;
    const struct tensor c = shaped(w->wide, core.rows, core.columns);
    middle_forward(&middle, c, core);
    return c;
}

/* The rows of x that the output has. */
static struct tensor picked_rows(struct sublayer *s, const struct stage *st,
                                 struct tensor x) {
    if (!st->pick)
        return x;
    const struct tensor picked = tensor_head(s->picked, st->rows_out);
    rows_gather(picked, x, st->pick, st->tokens_out, threads_of(s));
    return picked;
}

void sublayer_forward(struct sublayer *s, const struct stage *stage,
                      const struct workspace *w, struct streams *io) {
    const struct residual residual = residual_of(s, stage);
    const struct tensor z = tensor_head(s->z.data ? s->z : w->branch, stage->rows_out);
    const struct tensor y = tensor_head(s->y, stage->rows_out);
    const struct tensor v = s->post.kind ? tensor_head(s->v, stage->rows_out) : y;
    struct tensor u = s->x = io->x;
    s->skip = picked_rows(s, stage, io->x);
    if (s->attention && s->config->arrangement.bottom_skip)
        io->bottom = s->skip;
    if (s->pre.kind) {
        u = tensor_head(s->normed, stage->rows_in);
        norm_forward(&s->pre, u, s->x, norm_rows_in(stage));
    }
    const struct tensor core =
        s->attention ? attention_core(s, stage, u) : feed_forward_core(s, stage, u);
    linear_forward(&s->output, z, finished_core(s, w, core));
    residual_forward(&residual, y, v, s->skip, z,
                     s->adds_bottom ? io->bottom : (struct tensor){0}, io->second);
    if (s->post.kind && !residual.post)
        norm_forward(&s->post, y, v, norm_rows_out(stage));
    io->x = y;
}

/* ---- Backward. ---- */

/* Is a product with rows first .. first + count - 1 of the in-matrix to be added? They
 * are whole parts, all written once in every backward. */
static bool adds_to_parts(const struct sublayer *s, int64_t first, int64_t count) {
    const int64_t rows = s->in_weight->shape[0];
    bool adds = false;
    for (int64_t part = first / rows; part < (first + count) / rows; part++)
        adds = parameters_adds(s->in_parts[part]);
    return adds;
}

/* From the gradient of (part of) the core's projections to weight and input. */
static void in_backward(const struct sublayer *s, struct tensor dx, struct tensor dy,
                        struct tensor x, int64_t first) {
    device_product_weight(s->device,
                          in_matrix(s, s->in_weight->gradient, first, dy.columns), dy, x,
                          adds_to_parts(s, first, dy.columns));
    device_product_input(s->device, dx, dy,
                         in_matrix(s, s->in_weight->value, first, dy.columns));
}

/* dcore of attention: through the output matrix, the norm and the head scales. */
static struct tensor attention_output_backward(struct sublayer *s, const struct stage *st,
                                               const struct workspace *w,
                                               struct tensor dz) {
    const struct middle middle = middle_of(s);
    const struct tensor context = tensor_head(s->context, st->rows_out);
    const struct tensor dcore = tensor_head(w->dcore, st->rows_out);
    struct tensor c = context;
    linear_backward_input(&s->output, dcore, dz);
    if (!middle_is_identity(&middle)) {
        c = shaped(w->wide, st->rows_out, context.columns);
        middle_backward(&middle, dcore, c, context, NULL);
    }
    linear_backward_weight(&s->output, dz, c);
    return dcore;
}

/* Rows of projections beyond the real ones are nobody's keys or queries: no gradient. */
static void projection_backward(const struct sublayer *s, struct tensor dx,
                                struct tensor dy, struct tensor x, int64_t first,
                                int64_t tokens) {
    rows_clear(dy, tokens);
    columns_sum(s->in_bias->gradient + first, dy, threads_of(s));
    in_backward(s, dx, dy, x, first);
}

static void attention_core_backward(struct sublayer *s, const struct stage *st,
                                    const struct workspace *w, struct tensor du,
                                    struct tensor dz, struct tensor u) {
    const struct tensor dcore = attention_output_backward(s, st, w, dz);
    const struct projections p = projections_of(s, st, s->hidden);
    const struct projections d = projections_of(s, st, w->wide);
    attention_backward(s->attention, st->attention, p.heads, probs_rate(s, st),
                       probs_stream(s, st), s->lse, dcore, d.heads);
    if (!st->pick) {
        projection_backward(s, du, d.joint, u, 0, st->tokens_in);
        return;
    }
    const struct tensor picked =
        s->pre.kind ? tensor_head(s->picked_normed, st->rows_out) : s->skip;
    const struct tensor dpicked = tensor_head(w->dpicked, st->rows_out);
    projection_backward(s, du, d.joint, u, s->config->hidden_size, st->tokens_in);
    projection_backward(s, dpicked, d.query, picked, 0, st->tokens_out);
    rows_scatter(du, dpicked, st->pick, st->tokens_out, threads_of(s));
}

/* fc1's output becomes c again where it stands: it is not needed after. */
static void feed_forward_core_backward(struct sublayer *s, const struct stage *st,
                                       const struct workspace *w, struct tensor du,
                                       struct tensor dz, struct tensor u) {
    const struct middle middle = middle_of(s);
    const struct tensor hidden = tensor_head(s->hidden, st->rows_in);
    const struct tensor dhidden = shaped(w->wide, st->rows_in, hidden.columns);
    linear_backward_input(&s->output, dhidden, dz);
    middle_backward(&middle, dhidden, hidden, hidden, s->in_bias->gradient);
    linear_backward_weight(&s->output, dz, hidden);
    in_backward(s, du, dhidden, u, 0);
}

/* From the output's gradient in dv to the branch's, dz; dv becomes that of v. */
static void end_backward(const struct sublayer *s, const struct stage *stage,
                         const struct residual *residual, struct tensor dv,
                         struct tensor dz, struct tensor dsecond, struct tensor dbottom) {
    const struct tensor v = tensor_head(s->v, stage->rows_out);
    if (s->post.kind && !residual->post)
        norm_backward(&s->post, dv, dv, v, norm_rows_out(stage));
    residual_branch_backward(residual, dv, dz, v, s->skip,
                             tensor_head(s->z, stage->rows_out), dsecond, dbottom,
                             s->output.bias->gradient);
}

void sublayer_backward(struct sublayer *s, const struct stage *stage,
                       const struct workspace *w, struct streams *d, int *turn) {
    const struct residual residual = residual_of(s, stage);
    const struct tensor dv = d->x, dz = tensor_head(w->branch, stage->rows_out);
    const struct tensor du = tensor_head(w->dx[!*turn], stage->rows_in);
    const struct tensor u = s->pre.kind ? tensor_head(s->normed, stage->rows_in) : s->x;
    const struct norm *pre = norm_is_by_rows(&s->pre) ? &s->pre : NULL;
    if (s->adds_bottom)
        d->bottom = tensor_head(w->dbottom, stage->rows_out);
    end_backward(s, stage, &residual, dv, dz, d->second,
                 s->adds_bottom ? d->bottom : (struct tensor){0});
    if (s->attention)
        attention_core_backward(s, stage, w, du, dz, u);
    else
        feed_forward_core_backward(s, stage, w, du, dz, u);
    if (s->pre.kind && !pre)
        norm_backward(&s->pre, du, du, s->x, norm_rows_in(stage));
    residual_skip_backward(&residual, pre, du, s->x, tensor_head(dv, stage->tokens_out),
                           s->attention ? d->bottom : (struct tensor){0}, stage->pick);
    d->x = du;
    *turn = !*turn;
}
