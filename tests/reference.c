/* reference - the encoder in double precision and plain loops. */
#include "tests/reference.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encoder/bf16.h"
#include "encoder/norm.h"

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

/* The named parameter below "<prefix>." and, when layer >= 0, "encoder.layer.N."; NULL
 * when the arrangement has none. */
static const double *get(const struct reference *r, int layer, const char *name) {
    const char *prefix = config_prefix(r->config);
    const int i = layer < 0
                      ? reference_find(r, "%s.%s", prefix, name)
                      : reference_find(r, "%s.encoder.layer.%d.%s", prefix, layer, name);
    return i < 0 ? NULL : r->values[i];
}

/* "<name>.weight" and "<name>.bias". */
struct pair {
    const double *weight, *bias;
};

static struct pair get_pair(const struct reference *r, int layer, const char *name) {
    char full[128];
    struct pair p;
    snprintf(full, sizeof full, "%s.weight", name);
    p.weight = get(r, layer, full);
    snprintf(full, sizeof full, "%s.bias", name);
    p.bias = get(r, layer, full);
    return p;
}

/* ---- Parts. ---- */

static double to_bf16(double x) { return (double)bf16_float(bf16_of((float)x)); }

static double stored(const struct reference *r, double x) {
    return r->bf16 ? to_bf16(x) : r->single ? (double)(float)x : x;
}

/* A sum's next value; bf16 products add up in more than float's precision here. */
static double summed(const struct reference *r, double x) {
    return r->single ? (double)(float)x : x;
}

static void store(const struct reference *r, double *x, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        x[i] = stored(r, x[i]);
}

/* y (n, out) = x (n, in) W^T + b */
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

/* ---- A run and its norms. ---- */

struct run {
    const struct reference *r;
    const struct batch *batch;
    struct pass pass;
    int64_t n, d, f, heads;
    uint32_t *sequence, *token; /* names of the rows */
    double *x, *second, *bottom;
    double penalty;
};

/* A norm's place: layer -1 = none, and its tensors' name there. */
struct site {
    const struct norm_kind *kind;
    double eps;
    int layer;
    const char *name;
};

static struct site main_site(const struct run *u, int layer, const char *name) {
    const struct arrangement *a = &u->r->config->arrangement;
    return (struct site){a->norm, layer < 0 ? a->final_eps : a->norm_eps, layer, name};
}

static struct site aux_site(const struct run *u, int layer, const char *name) {
    const struct arrangement *a = &u->r->config->arrangement;
    return (struct site){a->norm_aux, a->norm_eps, layer, name};
}

static bool takes_batch(const struct run *u, const struct site *s) {
    return s->kind->buffers && u->pass.train && !u->pass.freeze_statistics;
}

static const double *buffer(const struct run *u, const struct site *s, const char *name) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s", s->name, name);
    return get(u->r, s->layer, full);
}

/* y = (x - mean) / sqrt(square), a row at a time over groups of channels. */
static void scale_rows(double *y, const double *x, bool centred, double eps, int64_t n,
                       int64_t width) {
    for (int64_t i = 0; i < n; i++, x += width, y += width) {
        double mean = 0, square = 0;
        for (int64_t c = 0; centred && c < width; c++)
            mean += x[c] / (double)width;
        for (int64_t c = 0; c < width; c++)
            square += (x[c] - mean) * (x[c] - mean) / (double)width;
        for (int64_t c = 0; c < width; c++)
            y[c] = (x[c] - mean) / sqrt(square + eps);
    }
}

/* Mean over rows of (x - origin)^power of channel c. */
static double moment(const double *x, double origin, int power, int64_t c, int64_t n,
                     int64_t width) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += pow(x[i * width + c] - origin, power) / (double)n;
    return sum;
}

static void batch_norm(struct run *u, double *y, const double *x, const struct site *s,
                       int64_t n, int64_t width) {
    const double *penalty = u->r->config->arrangement.norm_penalty;
    for (int64_t c = 0; c < width; c++) {
        const double rm = buffer(u, s, "running_mean")[c],
                     rv = buffer(u, s, "running_var")[c];
        double mean = rm, var = rv;
        if (takes_batch(u, s)) {
            mean = moment(x, 0, 1, c, n, width);
            var = moment(x, mean, 2, c, n, width);
            u->penalty +=
                penalty[0] * (rm - mean) * (rm - mean) + penalty[1] * fabs(rv - var);
        }
        for (int64_t i = 0; i < n; i++)
            y[i * width + c] = (x[i * width + c] - mean) / sqrt(fmax(var, s->eps));
    }
}

/* PowerNorm and Unified Normalization while they warm up. */
static void quadratic_mean(const struct run *u, double *y, const double *x,
                           const struct site *s, int64_t n, int64_t width) {
    const bool is_power = strcmp(s->kind->name, "pn") == 0;
    const double *settings = u->r->config->arrangement.norm_stat;
    const int64_t groups = is_power ? (int64_t)settings[NORM_GROUPS] : 0;
    memmove(y, x, (size_t)(n * width) * sizeof *y);
    if (groups)
        scale_rows(y, y, false, s->eps, n * groups, width / groups);
    for (int64_t c = 0; c < width; c++) {
        const double square =
            takes_batch(u, s)
                ? moment(y, 0, 2, c, n, width)
                : buffer(u, s, is_power ? "running_phi" : "running_square")[c];
        for (int64_t i = 0; i < n; i++)
            y[i * width + c] /= sqrt(square + s->eps);
    }
}

/* The kind's own forward, without gain and bias. */
static void own_forward(const struct run *u, double *y, const double *x,
                        const struct site *s, int64_t n, int64_t width) {
    struct team team = {.threads = 1};
    struct norm norm = {.kind = s->kind,
                        .settings = u->r->config->arrangement.norm_stat,
                        .width = width,
                        .eps = (float)s->eps,
                        .team = &team};
    struct arena measure = {0}, arena;
    struct error err;
    team_reserve(&team, 0, 3 * width);
    norm_layout(&norm, &measure, n);
    const bool is_open = arena_open(&arena, measure.used + 64, &err) == OK;
    assert(is_open && !s->kind->buffers);
    norm_layout(&norm, &arena, n);
    float *in = calloc((size_t)(2 * n * width), sizeof *in), *out = in + n * width;
    assert(in);
    for (int64_t i = 0; i < n * width; i++)
        in[i] = (float)x[i];
    norm_forward(&norm, tensor_f32(out, n, width), tensor_f32(in, n, width),
                 (struct norm_rows){.real = n});
    for (int64_t i = 0; i < n * width; i++)
        y[i] = (double)out[i];
    free(in);
    arena_close(&arena);
    team_close(&team);
}

static const char *const formulas[] = {"ln", "rms", "bn", "pn", "un"};
enum { LN, RMS, BN, FORMULAS = sizeof formulas / sizeof *formulas };

static int formula_of(const struct norm_kind *kind) {
    int i = 0;
    while (i < FORMULAS && strcmp(kind->name, formulas[i]) != 0)
        i++;
    return i;
}

bool reference_is_exact(const struct reference *r) {
    return formula_of(r->config->arrangement.norm) < FORMULAS &&
           formula_of(r->config->arrangement.norm_aux) < FORMULAS;
}

static void normalise(struct run *u, double *y, const double *x, struct site s, int64_t n,
                      int64_t width) {
    const struct pair p = get_pair(u->r, s.layer, s.name);
    const int formula = formula_of(s.kind);
    if (formula <= RMS)
        scale_rows(y, x, formula == LN, s.eps, n, width);
    else if (formula == BN)
        batch_norm(u, y, x, &s, n, width);
    else if (formula < FORMULAS)
        quadratic_mean(u, y, x, &s, n, width);
    else
        own_forward(u, y, x, &s, n, width);
    for (int64_t i = 0; i < n * width; i++)
        y[i] = y[i] * (p.weight ? p.weight[i % width] : 1) +
               (p.bias ? p.bias[i % width] : 0);
    store(u->r, y, n * width);
}

/* ---- The stack. ---- */

static struct rng stream(const struct run *u, uint32_t site) {
    return rng_stream(u->pass.seed, RNG_DROPOUT, site, u->pass.step);
}

static void drop_rows(const struct run *u, double *x, uint32_t site) {
    const double rate = u->pass.train ? u->r->config->hidden_dropout_prob : 0;
    for (int64_t i = 0; i < u->n; i++)
        for (int64_t c = 0; c < u->d; c++)
            x[i * u->d + c] *=
                mask(rate, stream(u, site), u->sequence[i], u->token[i], 0, c);
}

/* One query row of one head. */
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
        linear(u->r, qkv[i], x, get_pair(u->r, layer, names[i]), u->n, u->d, u->d);
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
    linear(u->r, c, x, get_pair(u->r, layer, "intermediate.dense"), u->n, u->d, u->f);
    for (int64_t i = 0; i < u->n * u->f; i++)
        c[i] = stored(u->r, gelu(c[i]));
}

static void scale_heads(const struct run *u, int layer, double *x) {
    const double *scale = get(u->r, layer, "attention.self.head_scale");
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

/* v = alpha (gain * x) + z (+ bottom); second += kappa z. v goes to x. */
static void add(struct run *u, int layer, int is_ffn, const double *z) {
    const struct arrangement *a = &u->r->config->arrangement;
    const int bit = is_ffn ? SITES_FFN : SITES_ATTN;
    const double *gain =
        a->resid_gain & bit ? get(u->r, layer, names[is_ffn].gain) : NULL;
    for (int64_t i = 0; i < u->n * u->d; i++) {
        u->second[i] += a->dual_stream * z[i];
        u->x[i] = a->resid_alpha * (gain ? gain[i % u->d] : 1) * u->x[i] + z[i] +
                  (is_ffn && a->bottom_skip ? u->bottom[i] : 0);
    }
    store(u->r, u->x, u->n * u->d);
}

/* z: from the sublayer's input x to the branch's output, before dropout. */
static void branch(struct run *u, int layer, int is_ffn, double *z) {
    const struct arrangement *a = &u->r->config->arrangement;
    const int bit = is_ffn ? SITES_FFN : SITES_ATTN;
    const int64_t width = is_ffn ? u->f : u->d;
    const struct sublayer_names *s = &names[is_ffn];
    double *in = zeros(u->n * u->d), *c = zeros(u->n * width);
    memcpy(in, u->x, (size_t)(u->n * u->d) * sizeof *in);
    if (a->pre_norm)
        normalise(u, in, u->x, main_site(u, layer, s->pre), u->n, u->d);
    (is_ffn ? feed_forward : attention)(u, layer, c, in);
    if (!is_ffn && a->head_scale == HEAD_SCALE_PRE_PROJ)
        scale_heads(u, layer, c);
    if (a->mid_norm & bit)
        normalise(u, c, c, aux_site(u, layer, s->mid), u->n, width);
    linear(u->r, z, c, get_pair(u->r, layer, s->output), u->n, width, u->d);
    if (!is_ffn && a->head_scale == HEAD_SCALE_POST_PROJ)
        scale_heads(u, layer, z);
    if (a->out_norm & bit)
        normalise(u, z, z, aux_site(u, layer, s->out), u->n, u->d);
    free(in);
    free(c);
}

static void run_sublayer(struct run *u, int layer, int is_ffn) {
    const struct arrangement *a = &u->r->config->arrangement;
    double *z = zeros(u->n * u->d);
    if (!is_ffn)
        memcpy(u->bottom, u->x, (size_t)(u->n * u->d) * sizeof *u->x);
    branch(u, layer, is_ffn, z);
    drop_rows(u, z, (uint32_t)(1 + 3 * layer + (is_ffn ? 2 : 1)));
    add(u, layer, is_ffn, z);
    if (a->post_norm)
        normalise(u, u->x, u->x, main_site(u, layer, names[is_ffn].post), u->n, u->d);
    free(z);
}

static void embed(struct run *u) {
    const struct config *c = u->r->config;
    const double *word = get(u->r, -1, "embeddings.word_embeddings.weight"),
                 *position = get(u->r, -1, "embeddings.position_embeddings.weight"),
                 *type = get(u->r, -1, "embeddings.token_type_embeddings.weight");
    for (int64_t i = 0; i < u->n; i++)
        for (int64_t j = 0; j < u->d; j++)
            u->x[i * u->d + j] =
                word[u->batch->input_ids[i] * u->d + j] +
                position[(u->token[i] + c->pad_token_id + 1) * u->d + j] + type[j];
    store(u->r, u->x, u->n * u->d);
    if (c->arrangement.embed_norm)
        normalise(u, u->x, u->x, aux_site(u, -1, "embeddings.LayerNorm"), u->n, u->d);
    drop_rows(u, u->x, 0);
    for (int64_t i = 0; i < u->n * u->d; i++)
        u->second[i] = c->arrangement.dual_stream * u->x[i];
}

/* y = final_norm ? N(x) : x, with dual_stream dual_out x + N(second). */
static void finish(struct run *u, double *output) {
    const struct arrangement *a = &u->r->config->arrangement;
    const bool is_dual = a->dual_stream > 0;
    double *y = is_dual ? u->second : u->x;
    if (a->final_norm)
        normalise(u, y, y, main_site(u, -1, "LayerNorm"), u->n, u->d);
    for (int64_t i = 0; i < u->batch->num_output_rows; i++) {
        const int64_t row = u->batch->output_rows[i];
        for (int64_t j = 0; j < u->d; j++)
            output[i * u->d + j] =
                y[row * u->d + j] + (is_dual ? a->dual_out * u->x[row * u->d + j] : 0);
    }
}

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
