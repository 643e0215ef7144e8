/* sublayer - forward and backward of the one residual block.
 *
 * One function each way for all arrangements, instead of one a paper: a switch is a NULL
 * or a false that most lines pass over. The passes over rows are three, each reading and
 * writing its tensors once, whatever is switched on:
 *
 *   norm              at the input (norm.h)
 *   middle            between the two matrices: GELU, head scales, a norm (middle.h)
 *   residual          after the second: scales, norm, dropout, sum, norm (residual.h)
 *
 * Kept for backward, a token and layer: query, key and value (3 D), the context (D), a
 * log-sum-exp a head, fc1's output (F), and of each norm its input with two floats. Not
 * kept: norms' outputs, GELU's, dropout's masks, P. They are made again from what is
 * kept, into the workspace, just before backward reads them: one more pass over a row
 * against D floats a token and layer.
 *
 * Backward takes the steps in the opposite order. dv becomes the skip's gradient and dz
 * the branch's; du, the gradient of what the branch read, gets the skip's share last. */
#include "encoder/sublayer.h"

#include <stdio.h>
#include <string.h>

#include "encoder/columns.h"
#include "encoder/encoder.h"
#include "encoder/middle.h"
#include "encoder/rows.h"

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

/* Where u stands, and the output. */
static struct tensor normed_of(const struct sublayer *s, const struct workspace *w,
                               int64_t rows) {
    return tensor_head(s->normed.data ? s->normed : w->normed[0], rows);
}
static struct tensor output_of(const struct sublayer *s, const struct workspace *w,
                               int64_t rows) {
    return tensor_head(s->y.data ? s->y : w->normed[s->turn], rows);
}

static const struct norm *or_null(const struct norm *n) { return n->kind ? n : NULL; }

static struct residual residual_of(const struct sublayer *s, const struct stage *st) {
    const struct arrangement *a = &s->config->arrangement;
    return (struct residual){
        .alpha = (float)a->resid_alpha,
        .kappa = (float)a->dual_stream,
        .gain = s->resid_gain,
        .head_scale = sublayer_scales_after(s) ? s->head_scale : NULL,
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
    return (struct middle){
        .gelu = !s->attention, .mid = or_null(&s->mid), .team = device_team(s->device)};
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

/* Head scales that attention itself applies. */
static const float *core_scale(const struct sublayer *s) {
    return sublayer_scales_before(s) ? s->head_scale->value : NULL;
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
                      probs_stream(s, st), core_scale(s), context, s->lse);
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

/* The formulas of sublayer.h from top to bottom; what backward needs is noted on the way.
 */
void sublayer_forward(struct sublayer *s, const struct stage *stage,
                      const struct workspace *w, struct streams *io) {
    const struct residual residual = residual_of(s, stage);
    const struct tensor z = tensor_head(s->z.data ? s->z : w->branch, stage->rows_out);
    const struct tensor y = output_of(s, w, stage->rows_out);
    const struct tensor v = s->post.kind ? tensor_head(s->v, stage->rows_out) : y;
    struct tensor u = s->x = io->x;
    s->origin = io->origin;
    s->skip = picked_rows(s, stage, io->x);
    if (s->attention && s->config->arrangement.bottom_skip)
        io->bottom = s->skip;
    if (s->pre.kind) {
        u = normed_of(s, w, stage->rows_in);
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
    io->origin =
        sublayer_rebuilds_output(s) ? (struct origin){&s->post, v} : (struct origin){0};
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

/* dcore of attention: through the output matrix and the norm. It stands in `room` until
 * the input's gradient takes its place. */
static struct tensor attention_output_backward(struct sublayer *s, const struct stage *st,
                                               const struct workspace *w,
                                               struct tensor room, struct tensor dz) {
    const struct middle middle = middle_of(s);
    const struct tensor context = tensor_head(s->context, st->rows_out);
    const struct tensor dcore = {room.data, context.dtype, st->rows_out, context.columns};
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
    const struct tensor dcore = attention_output_backward(s, st, w, du, dz);
    const struct projections p = projections_of(s, st, s->hidden);
    const struct projections d = projections_of(s, st, w->wide);
    attention_backward(s->attention, st->attention, p.heads, probs_rate(s, st),
                       probs_stream(s, st), core_scale(s), s->lse, dcore, d.heads,
                       core_scale(s) ? s->head_scale->gradient : NULL);
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
                         const struct residual *residual, struct tensor x,
                         struct tensor dv, struct tensor dz, struct tensor dsecond,
                         struct tensor dbottom) {
    const struct tensor v = tensor_head(s->v, stage->rows_out);
    if (s->post.kind && !residual->post)
        norm_backward(&s->post, dv, dv, v, norm_rows_out(stage));
    residual_branch_backward(residual, dv, dz, v, stage->pick ? s->skip : x,
                             tensor_head(s->z, stage->rows_out), dsecond, dbottom,
                             s->output.bias->gradient);
}

/* The input, made again where it was not kept. */
static struct tensor input_again(const struct sublayer *s, const struct workspace *w,
                                 int64_t rows) {
    if (!s->origin.norm)
        return s->x;
    const struct tensor x = tensor_head(w->normed[0], rows);
    norm_rebuild(s->origin.norm, x, s->origin.input);
    return x;
}

/* What the core read. */
static struct tensor normed_again(const struct sublayer *s, const struct workspace *w,
                                  struct tensor x) {
    if (!s->pre.kind)
        return x;
    const struct tensor u = normed_of(s, w, x.rows);
    if (!s->normed.data)
        norm_rebuild(&s->pre, u, x);
    return u;
}

void sublayer_backward(struct sublayer *s, const struct stage *stage,
                       const struct workspace *w, struct streams *d, int *turn) {
    const struct residual residual = residual_of(s, stage);
    const struct tensor dv = d->x, dz = tensor_head(w->branch, stage->rows_out);
    const struct tensor du = tensor_head(w->dx[!*turn], stage->rows_in);
    const struct tensor x = input_again(s, w, stage->rows_in);
    const struct tensor u = normed_again(s, w, x);
    const struct norm *pre = norm_is_by_rows(&s->pre) ? &s->pre : NULL;
    if (s->adds_bottom)
        d->bottom = tensor_head(w->dbottom, stage->rows_out);
    end_backward(s, stage, &residual, x, dv, dz, d->second,
                 s->adds_bottom ? d->bottom : (struct tensor){0});
    if (s->attention)
        attention_core_backward(s, stage, w, du, dz, u);
    else
        feed_forward_core_backward(s, stage, w, du, dz, u);
    if (s->pre.kind && !pre)
        norm_backward(&s->pre, du, du, x, norm_rows_in(stage));
    residual_skip_backward(&residual, pre, du, x, tensor_head(dv, stage->tokens_out),
                           s->attention ? d->bottom : (struct tensor){0}, stage->pick);
    d->x = du;
    *turn = !*turn;
}
