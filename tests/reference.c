/* reference - the encoder in double precision and plain loops.
 *
 * Written from the formulas in encoder/sublayer.h, not from the code: every row is
 * computed, nothing is fused, picked or kept, the sums are in double. It shares with the
 * encoder what names things (configuration, parameters, draws of dropout), so that the
 * two compute the same function of the same numbers and can be compared to rounding.
 *
 * With `single` or `bf16` it rounds where a plain encoder of that precision would: by how
 * much it then differs from itself is how much any encoder may. */

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encoder/bf16.h"
#include "tests/reference_run.h"

/* ---- Parameters. ---- */

static double *zeros(int64_t count) {
    double *x = calloc((size_t)count + 1, sizeof *x);
    assert(x);
    return x;
}

void reference_open(struct reference *r, const struct config *config,
                    const struct parameters *parameters) {
    *r = (struct reference){
        .config = config,
        .parameters = parameters,
        .values = calloc((size_t)parameters->count, sizeof *r->values)};
    assert(r->values);
    for (int i = 0; i < parameters->count; i++) {
        const struct parameter *row = parameters->rows[i];
        r->values[i] = zeros((int64_t)row->count);
        for (size_t j = 0; j < row->count; j++)
            r->values[i][j] = (double)row->value[j];
    }
}

void reference_close(struct reference *r) {
    for (int i = 0; i < r->parameters->count; i++)
        free(r->values[i]);
    free(r->values);
}

void reference_take_buffers(struct reference *r) {
    for (int i = 0; i < r->parameters->count; i++) {
        const struct parameter *row = r->parameters->rows[i];
        for (size_t j = 0; row->is_buffer && j < row->count; j++)
            r->values[i][j] = (double)row->value[j];
    }
}

int reference_find(const struct reference *r, const char *format, ...) {
    char name[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    for (int i = 0; i < r->parameters->count; i++)
        if (strcmp(r->parameters->rows[i]->name, name) == 0)
            return i;
    return -1;
}

const double *reference_get(const struct reference *r, int layer, const char *name) {
    const char *prefix = config_prefix(r->config);
    const int i = layer < 0
                      ? reference_find(r, "%s.%s", prefix, name)
                      : reference_find(r, "%s.encoder.layer.%d.%s", prefix, layer, name);
    return i < 0 ? NULL : r->values[i];
}

struct pair reference_get_pair(const struct reference *r, int layer, const char *name) {
    char full[128];
    struct pair p;
    snprintf(full, sizeof full, "%s.weight", name);
    p.weight = reference_get(r, layer, full);
    snprintf(full, sizeof full, "%s.bias", name);
    p.bias = reference_get(r, layer, full);
    return p;
}

/* ---- Parts. ---- */

static double to_bf16(double x) { return (double)bf16_float(bf16_of((float)x)); }

/* A sum's next value; bf16 products add up in more than float's precision here. */
static double summed(const struct reference *r, double x) {
    return r->single ? (double)(float)x : x;
}

/* y (n, out) = x (n, in) W^T + b. With `single` each partial sum is rounded and the sum
 * begins at another term: one of the orders that a fast product may take. */
static void linear(const struct reference *r, double *y, const double *x, struct pair p,
                   int64_t n, int64_t in, int64_t out) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t o = 0; o < out; o++) {
            double sum = 0;
            for (int64_t k = 0; k < in; k++) {
                const int64_t t = (k + r->single) % in;
                const double w = p.weight[o * in + t];
                sum = summed(r, sum + x[i * in + t] * (r->bf16 ? to_bf16(w) : w));
            }
            y[i * out + o] = stored(r, sum + p.bias[o]);
        }
}

static double gelu(double x) { return x * 0.5 * erfc(-x / sqrt(2)); }

/* 0 or 1 / (1 - rate): what dropout multiplies channel `j` of a row by. */
static double mask(double rate, struct rng stream, uint32_t sequence, uint32_t token,
                   uint32_t third, int64_t j) {
    if (rate == 0)
        return 1;
    const struct rng_block b =
        rng_draw(stream, sequence, token, third, (uint32_t)(j / 8));
    const uint32_t draw = b.word[j % 8 / 2] >> (16 * (j % 2)) & 0xffff;
    return draw >= dropout_threshold((float)rate) ? 1 / (1 - rate) : 0;
}

/* ---- The stack. ---- */

static struct site main_site(const struct run *u, int layer, const char *name) {
    const struct arrangement *a = &u->r->config->arrangement;
    return (struct site){a->norm, layer < 0 ? a->final_eps : a->norm_eps, layer, name};
}

static struct site aux_site(const struct run *u, int layer, const char *name) {
    const struct arrangement *a = &u->r->config->arrangement;
    return (struct site){a->norm_aux, a->norm_eps, layer, name};
}

static struct rng stream(const struct run *u, uint32_t site) {
    return rng_stream(u->pass.seed, RNG_DROPOUT, site, u->pass.step);
}

static void drop_rows(const struct run *u, double *x, int64_t width, uint32_t site) {
    const double rate = u->pass.train ? u->r->config->hidden_dropout_prob : 0;
    for (int64_t i = 0; i < u->n; i++)
        for (int64_t c = 0; c < width; c++)
            x[i * width + c] *=
                mask(rate, stream(u, site), u->sequence[i], u->token[i], 0, c);
}

/* One query row of one head: scores, softmax, dropout and the weighted sum of values, a
 * key at a time. */
static void attend(const struct run *u, double *out, const double *q, const double *k,
                   const double *v, int64_t row, int64_t head, int64_t first,
                   int64_t last, uint32_t site) {
    const int64_t d = u->d, e = d / u->heads, column = head * e;
    const double rate = u->pass.train ? u->r->config->attention_probs_dropout_prob : 0;
    double *p = zeros(last - first), sum = 0, max = -INFINITY;
    for (int64_t j = first; j < last; j++) {
        for (int64_t c = 0; c < e; c++)
            p[j - first] += q[row * d + column + c] * k[j * d + column + c];
        p[j - first] /= sqrt((double)e);
        p[j - first] = stored(u->r, p[j - first]);
        max = fmax(max, p[j - first]);
    }
    for (int64_t j = first; j < last; j++)
        sum += p[j - first] = exp(p[j - first] - max);
    for (int64_t j = first; j < last; j++)
        for (int64_t c = 0; c < e; c++)
            out[row * d + column + c] += p[j - first] / sum * v[j * d + column + c] *
                                         mask(rate, stream(u, site), u->sequence[row],
                                              u->token[row], (uint32_t)head, j - first);
    free(p);
}

static void attention(const struct run *u, int layer, double *c, const double *x) {
    static const char *const names[] = {"attention.self.query", "attention.self.key",
                                        "attention.self.value"};
    double *qkv[3];
    for (int i = 0; i < 3; i++) {
        qkv[i] = zeros(u->n * u->d);
        linear(u->r, qkv[i], x, reference_get_pair(u->r, layer, names[i]), u->n, u->s,
               u->d);
    }
    for (int64_t b = 0; b < u->batch->num_sequences; b++)
        for (int64_t i = u->batch->starts[b]; i < u->batch->starts[b + 1]; i++)
            for (int64_t h = 0; h < u->heads; h++)
                attend(u, c, qkv[0], qkv[1], qkv[2], i, h, u->batch->starts[b],
                       u->batch->starts[b + 1], (uint32_t)(1 + 3 * layer));
    store(u->r, c, u->n * u->d);
    for (int i = 0; i < 3; i++)
        free(qkv[i]);
}

static void feed_forward(const struct run *u, int layer, double *c, const double *x) {
    linear(u->r, c, x, reference_get_pair(u->r, layer, "intermediate.dense"), u->n, u->s,
           u->f);
    for (int64_t i = 0; i < u->n * u->f; i++)
        c[i] = stored(u->r, gelu(c[i]));
}

static void scale_heads(const struct run *u, int layer, double *x) {
    const double *scale = reference_get(u->r, layer, "attention.self.head_scale");
    for (int64_t i = 0; i < u->n * u->d; i++)
        x[i] *= scale[i % u->d / (u->d / u->heads)];
}

static const struct sublayer_names {
    const char *pre, *mid, *out, *post, *gain, *output;
} names[2] = {
    {"attention.LayerNorm", "attention.self.inner_attn_ln", "attention.output.attn_ln",
     "attention.output.LayerNorm", "attention.output.resid_scale",
     "attention.output.dense"},
    {"intermediate.LayerNorm", "intermediate.ffn_layernorm", "output.out_layernorm",
     "output.LayerNorm", "output.resid_scale", "output.dense"}};

/* Rows of `width` channels without their mean, their first `kept` close together. */
static void center(double *to, const double *from, int64_t n, int64_t width,
                   int64_t kept) {
    for (int64_t i = 0; i < n; i++) {
        double mean = 0;
        for (int64_t c = 0; c < width; c++)
            mean += from[i * width + c] / (double)width;
        for (int64_t c = 0; c < kept; c++)
            to[i * kept + c] = from[i * width + c] - mean;
    }
}

/* v = alpha (gain * x) + z (+ bottom); second += kappa z. v goes to x. */
static void add(struct run *u, int layer, int is_ffn, const double *z) {
    const struct arrangement *a = &u->r->config->arrangement;
    const int bit = is_ffn ? SITES_FFN : SITES_ATTN;
    const double *gain =
        a->resid_gain & bit ? reference_get(u->r, layer, names[is_ffn].gain) : NULL;
    for (int64_t i = 0; i < u->n * u->s; i++) {
        u->second[i] += a->dual_stream * z[i];
        u->x[i] = a->resid_alpha * (gain ? gain[i % u->s] : 1) * u->x[i] + z[i] +
                  (is_ffn && a->bottom_skip ? u->bottom[i] : 0);
    }
    store(u->r, u->x, u->n * u->s);
}

/* z: from the sublayer's input x to the branch's output, before dropout. */
static void branch(struct run *u, int layer, int is_ffn, double *z) {
    const struct arrangement *a = &u->r->config->arrangement;
    const int bit = is_ffn ? SITES_FFN : SITES_ATTN;
    const int64_t width = is_ffn ? u->f : u->d;
    const struct sublayer_names *s = &names[is_ffn];
    double *in = zeros(u->n * u->s), *c = zeros(u->n * width);
    memcpy(in, u->x, (size_t)(u->n * u->s) * sizeof *in);
    if (a->pre_norm)
        reference_normalise(u, in, u->x, main_site(u, layer, s->pre), u->n, u->s);
    (is_ffn ? feed_forward : attention)(u, layer, c, in);
    if (!is_ffn && a->head_scale == HEAD_SCALE_PRE_PROJ)
        scale_heads(u, layer, c);
    if (a->mid_norm & bit)
        reference_normalise(u, c, c, aux_site(u, layer, s->mid), u->n, width);
    linear(u->r, z, c, reference_get_pair(u->r, layer, s->output), u->n, width, u->s);
    if (!is_ffn && a->head_scale == HEAD_SCALE_POST_PROJ)
        scale_heads(u, layer, z);
    if (a->out_norm & bit)
        reference_normalise(u, z, z, aux_site(u, layer, s->out), u->n, u->s);
    free(in);
    free(c);
}

static void run_sublayer(struct run *u, int layer, int is_ffn) {
    const struct arrangement *a = &u->r->config->arrangement;
    double *z = zeros(u->n * u->s);
    if (!is_ffn)
        memcpy(u->bottom, u->x, (size_t)(u->n * u->s) * sizeof *u->x);
    branch(u, layer, is_ffn, z);
    drop_rows(u, z, u->s, (uint32_t)(1 + 3 * layer + (is_ffn ? 2 : 1)));
    if (a->stream_center == STREAM_CENTER_AFTER_DROPOUT)
        center(z, z, u->n, u->s, u->s);
    add(u, layer, is_ffn, z);
    if (a->post_norm)
        reference_normalise(u, u->x, u->x, main_site(u, layer, names[is_ffn].post), u->n,
                            u->s);
    free(z);
}

static void embed(struct run *u) {
    const struct config *c = u->r->config;
    const double *word = reference_get(u->r, -1, "embeddings.word_embeddings.weight"),
                 *position =
                     reference_get(u->r, -1, "embeddings.position_embeddings.weight"),
                 *type =
                     reference_get(u->r, -1, "embeddings.token_type_embeddings.weight");
    for (int64_t i = 0; i < u->n; i++)
        for (int64_t j = 0; j < u->d; j++)
            u->x[i * u->d + j] =
                word[u->batch->input_ids[i] * u->d + j] +
                position[(u->token[i] + c->pad_token_id + 1) * u->d + j] + type[j];
    store(u->r, u->x, u->n * u->d);
    if (c->arrangement.embed_norm)
        reference_normalise(u, u->x, u->x, aux_site(u, -1, "embeddings.LayerNorm"), u->n,
                            u->d);
    drop_rows(u, u->x, u->d, 0);
    if (c->arrangement.stream_center != STREAM_CENTER_NONE)
        center(u->x, u->x, u->n, u->d, u->s);
    for (int64_t i = 0; i < u->n * u->s; i++)
        u->second[i] = c->arrangement.dual_stream * u->x[i];
}

/* y = final_norm ? N(x) : x, with dual_stream dual_out x + N(second). */
static void finish(struct run *u, double *output) {
    const struct arrangement *a = &u->r->config->arrangement;
    const bool is_dual = a->dual_stream > 0;
    double *y = is_dual ? u->second : u->x;
    if (a->final_norm)
        reference_normalise(u, y, y, main_site(u, -1, "LayerNorm"), u->n, u->s);
    for (int64_t i = 0; i < u->batch->num_output_rows; i++) {
        const int64_t row = u->batch->output_rows[i];
        for (int64_t j = 0; j < u->s; j++)
            output[i * u->s + j] =
                y[row * u->s + j] + (is_dual ? a->dual_out * u->x[row * u->s + j] : 0);
    }
}

/* Which sequence and token a row is: what dropout's draws are named by. */
static void name_rows(struct run *u) {
    for (int64_t b = 0; b < u->batch->num_sequences; b++)
        for (int64_t i = u->batch->starts[b]; i < u->batch->starts[b + 1]; i++) {
            u->sequence[i] = u->batch->sequence_numbers[b];
            u->token[i] = (uint32_t)(i - u->batch->starts[b]);
        }
}

double reference_forward(const struct reference *r, const struct batch *batch,
                         struct pass pass, double *output) {
    const int64_t n = batch->num_tokens, d = r->config->hidden_size;
    struct run u = {.r = r,
                    .batch = batch,
                    .pass = pass,
                    .n = n,
                    .d = d,
                    .s = config_stream_size(r->config),
                    .f = r->config->intermediate_size,
                    .heads = r->config->num_attention_heads,
                    .sequence = calloc((size_t)n + 1, sizeof *u.sequence),
                    .token = calloc((size_t)n + 1, sizeof *u.token),
                    .x = zeros(n * d),
                    .second = zeros(n * d),
                    .bottom = zeros(n * d)};
    assert(u.sequence && u.token);
    name_rows(&u);
    embed(&u);
    for (int layer = 0; layer < (int)r->config->num_hidden_layers; layer++)
        for (int is_ffn = 0; is_ffn < 2; is_ffn++)
            run_sublayer(&u, layer, is_ffn);
    finish(&u, output);
    free(u.sequence);
    free(u.token);
    free(u.x);
    free(u.second);
    free(u.bottom);
    return u.penalty * (double)batch->num_output_rows;
}
