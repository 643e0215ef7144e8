/* attention - fused forward and backward of one head of one sequence at a time.
 *
 * A task is one head of one sequence, on one thread: 384 of them in a batch of 32
 * sequences of base size, handed out as threads become free, as sequences have different
 * lengths.
 *
 *   forward    K and V are put into the form that products read, once a task; then 32
 *              queries at a time: scores (32, T), softmax and dropout in place, times V
 *   backward   the same blocks: scores again, P from the kept log-sum-exp, dP = dO V^T,
 *              dS, then the block's share of dQ, dK, dV
 *
 * Why fused: a layer's P alone is B H T^2 floats, 201 MB for 16 x 512 tokens, written and
 * read several times; 32 rows of it are 64 KB and stay in the second cache. What is
 * computed twice is Q K^T, one product of seven; attention in all is 3 % of a step's
 * arithmetic at 128 tokens a sequence and 10 % at 512.
 *
 * Scores and their sums are f32 in either type. Dropout draws 16 bits a probability from
 * (sequence, token, head, key), so that backward draws the same mask and nothing is kept.
 */
#include "encoder/attention.h"

#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <string.h>

#include "encoder/bf16.h"
#include "encoder/columns.h"
#include "encoder/small_product.h"
#include "encoder/vector.h"

enum { QUERIES = 32 }; /* rows of P that exist at a time */

/* ---- A thread's scratch. ---- */

/* Matrices in the form in which a product reads them (small_product.h): kt and vt are
 * transposed; k, v, q and dcontext are the right-hand side of a sum over their rows;
 * left-hand sides are read where they lie. Columns are padded with zeros: e to `width`,
 * keys to `ld`. */
struct scratch {
    int64_t width, ld;
    void *kt, *vt;      /* (e, keys) */
    void *k, *v;        /* (keys, e) */
    void *q, *dcontext; /* (QUERIES, e) */
    float *dk, *dv;     /* (keys, e) */
    float *p, *dp;      /* (QUERIES, keys) */
    uint16_t *rounded;  /* p or dp in bf16 */
    uint32_t *pairs;    /* the same, pairs along queries */
    float *out;         /* (QUERIES, e) */
    uint32_t *draws;    /* a row of keys */
};

struct cursor {
    uint32_t *base; /* NULL only measures */
    int64_t used;   /* words */
};

static void *take(struct cursor *c, int64_t words) {
    uint32_t *at = c->base ? c->base + c->used : NULL;
    c->used += words;
    return at;
}

static struct scratch scratch_take(struct cursor *c, int64_t head_size, int64_t keys) {
    const int64_t width = small_product_round(head_size), ld = small_product_round(keys);
    return (struct scratch){
        .width = width,
        .ld = ld,
        .kt = take(c, width * ld),
        .vt = take(c, width * ld),
        .k = take(c, ld * width),
        .v = take(c, ld * width),
        .q = take(c, QUERIES * width),
        .dcontext = take(c, QUERIES * width),
        .dk = take(c, ld * width),
        .dv = take(c, ld * width),
        .p = take(c, QUERIES * ld),
        .dp = take(c, QUERIES * ld),
        .rounded = take(c, QUERIES * ld / 2),
        .pairs = take(c, QUERIES * ld / 2),
        .out = take(c, QUERIES * width),
        .draws = take(c, ld),
    };
}

void attention_layout(struct attention *a, struct arena *arena, int64_t max_keys) {
    struct cursor c = {0};
    scratch_take(&c, a->head_size, max_keys);
    a->scratch_each = c.used;
    a->scratch = ARENA_TAKE(arena, float, a->scratch_each * a->threads);
}

static struct scratch scratch_of_thread(const struct attention *a, int64_t keys) {
    float *base = a->scratch + omp_get_thread_num() * a->scratch_each;
    return scratch_take(&(struct cursor){(uint32_t *)base, 0}, a->head_size, keys);
}

/* ---- Rows of P. ---- */

/* x becomes exp(scale (x - max x)); returns its sum and the log-sum-exp of scale x. */
HOT static float softmax_row(float *x, int64_t count, float scale, float *lse) {
    float max = x[0], sum = 0;
#pragma omp simd reduction(max : max)
    for (int64_t i = 0; i < count; i++)
        max = x[i] > max ? x[i] : max;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += x[i] = vector_exp(scale * (x[i] - max));
    *lse = scale * max + logf(sum);
    return sum;
}

/* What a row's dropout needs: nothing is drawn, and every draw kept, when rate is 0. */
struct mask {
    float rate, keep_scale;
    uint32_t threshold;
    struct rng stream;
};

static struct mask mask_of(float rate, struct rng stream) {
    return (struct mask){rate, 1 / (1 - rate), dropout_threshold(rate), stream};
}

/* x of one row of scores becomes P; returns rowsum(dropped P dP), which is delta in
 * dS = P (mask dP - delta): from the very numbers that it is to cancel with, so that dS
 * has no part that is common to all keys. */
HOT static float probabilities_row(float *restrict x, const float *restrict dp,
                                   int64_t count, float scale, float lse,
                                   const uint16_t *restrict draws, uint32_t threshold,
                                   float keep_scale) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) {
        x[i] = vector_exp(scale * x[i] - lse);
        sum += draws[i] >= threshold ? x[i] * dp[i] : 0;
    }
    return sum * keep_scale;
}

/* P in x becomes dropped P, dP in dp becomes dS. */
HOT static void backward_row(float *restrict x, float *restrict dp, int64_t count,
                             float delta, const uint16_t *restrict draws,
                             uint32_t threshold, float keep_scale) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        const float mask = draws[i] >= threshold ? keep_scale : 0;
        dp[i] = x[i] * (mask * dp[i] - delta);
        x[i] *= mask;
    }
}

HOT static void scale_row(float *x, float factor, int64_t count) {
#pragma omp simd
    for (int64_t c = 0; c < count; c++)
        x[c] *= factor;
}

/* ---- One (sequence, head). ---- */

struct task {
    enum dtype dtype;
    int64_t head, head_size, num_heads;
    int64_t keys;              /* rows of k and v */
    int64_t first, last;       /* query rows */
    struct heads_view q, k, v; /* this head's; k and v from the sequence's first row */
    float scale, head_scale;   /* of scores, of the output */
    struct mask mask;
    struct row_names names;
};

/* Row `row` of a view, `column` elements further. */
static void *at(enum dtype dtype, struct heads_view x, int64_t row, int64_t column) {
    unsigned char *data = x.data;
    return data + (size_t)(row * x.stride + column) * dtype_bytes(dtype);
}

static struct heads_view part_of(const struct attention *a, struct heads_view x,
                                 int64_t row, int64_t head) {
    return (struct heads_view){at(a->dtype, x, row, head * a->head_size), x.stride};
}

static struct task task_of(const struct attention *a, const struct attention_rows *rows,
                           int64_t index, struct heads x, struct mask mask,
                           const float *head_scale) {
    const int64_t sequence = index / a->num_heads, head = index % a->num_heads;
    const int64_t key = rows->key_starts[sequence];
    return (struct task){
        .dtype = a->dtype,
        .head = head,
        .head_size = a->head_size,
        .num_heads = a->num_heads,
        .keys = rows->key_starts[sequence + 1] - key,
        .first = rows->query_starts[sequence],
        .last = rows->query_starts[sequence + 1],
        .q = part_of(a, x.q, 0, head),
        .k = part_of(a, x.k, key, head),
        .v = part_of(a, x.v, key, head),
        .scale = 1 / sqrtf((float)a->head_size),
        .head_scale = head_scale ? head_scale[head] : 1,
        .mask = mask,
        .names = rows->queries,
    };
}

static int64_t words(const struct task *t, int64_t count) {
    return small_product_words(t->dtype, count);
}

/* The left-hand side of rows from `row` on, where they lie. */
static struct operand rows_of(const struct task *t, struct heads_view x, int64_t row) {
    return (struct operand){at(t->dtype, x, row, 0), words(t, x.stride), 1};
}

/* The right-hand side of `count` rows from `row` on, for a sum over channels ... */
static void transpose(const struct task *t, void *to, int64_t ld, struct heads_view x,
                      int64_t count) {
    small_product_transpose(to, ld, x.data, words(t, x.stride), count,
                            words(t, t->head_size));
}

/* ... and for a sum over the rows. */
static void pair(const struct task *t, const struct scratch *s, void *to,
                 struct heads_view x, int64_t row, int64_t count) {
    small_product_pair(t->dtype, to, s->width, at(t->dtype, x, row, 0), x.stride, count,
                       t->head_size);
}

/* `count` rows of P or dP become an operand: in bf16 rounded first. */
static void round_rows(const struct task *t, const struct scratch *s, const float *p,
                       int64_t count) {
    if (t->dtype == DTYPE_BF16)
        bf16_from_floats(s->rounded, p, count * s->ld);
}

/* The left-hand side of a sum over keys ... */
static struct operand by_keys(const struct task *t, const struct scratch *s,
                              const float *p) {
    if (t->dtype == DTYPE_F32)
        return (struct operand){p, s->ld, 1};
    return (struct operand){s->rounded, s->ld / 2, 1};
}

/* ... and of a sum over queries. */
static struct operand by_queries(const struct task *t, const struct scratch *s,
                                 const float *p, int64_t count) {
    if (t->dtype == DTYPE_F32)
        return (struct operand){p, 1, s->ld};
    small_product_pair(t->dtype, s->pairs, s->ld, s->rounded, s->ld, count, s->ld);
    return (struct operand){s->pairs, 1, s->ld};
}

/* Writes `count` rows of floats, times `factor`, to rows from `row` on. */
static void scatter(const struct task *t, const struct scratch *s, struct heads_view to,
                    int64_t row, float *from, int64_t count, float factor) {
    for (int64_t i = 0; i < count; i++, from += s->width) {
        scale_row(from, factor, t->head_size);
        if (t->dtype == DTYPE_BF16)
            bf16_from_floats(at(t->dtype, to, row + i, 0), from, t->head_size);
        else
            memcpy(at(t->dtype, to, row + i, 0), from,
                   (size_t)t->head_size * sizeof *from);
    }
}

/* s->p = Q K^T of `count` queries from row `first`. */
static void scores(const struct task *t, const struct scratch *s, int64_t first,
                   int64_t count) {
    small_product(t->dtype, count, s->ld, words(t, t->head_size), rows_of(t, t->q, first),
                  s->kt, s->ld, s->p, s->ld, 0);
}

static int64_t block_of(const struct task *t, int64_t first) {
    return t->last - first < QUERIES ? t->last - first : QUERIES;
}

/* ---- Forward. ---- */

static void forward_block(const struct task *t, const struct scratch *s, int64_t first,
                          struct heads_view context, float *lse) {
    const int64_t count = block_of(t, first);
    float sums[QUERIES];
    scores(t, s, first, count);
    for (int64_t i = 0; i < count; i++) {
        float *p = s->p + i * s->ld;
        const int64_t row = first + i;
        sums[i] = softmax_row(p, t->keys, t->scale, &lse[row * t->num_heads + t->head]);
        dropout_row(p, t->keys, t->mask.rate, t->mask.stream, t->names.sequence[row],
                    t->names.token[row], (uint32_t)t->head);
    }
    round_rows(t, s, s->p, count);
    small_product(t->dtype, count, s->width, words(t, t->keys), by_keys(t, s, s->p), s->v,
                  s->width, s->out, s->width, 0);
    for (int64_t i = 0; i < count; i++)
        scatter(t, s, context, first + i, s->out + i * s->width, 1,
                t->head_scale / sums[i]);
}

void attention_forward(const struct attention *a, struct attention_rows rows,
                       struct heads x, float rate, struct rng stream,
                       const float *head_scale, struct tensor context, float *lse) {
#pragma omp parallel for schedule(dynamic) num_threads(a->threads)
    for (int64_t i = 0; i < rows.num_sequences * a->num_heads; i++) {
        const struct task t = task_of(a, &rows, i, x, mask_of(rate, stream), head_scale);
        const struct scratch s = scratch_of_thread(a, t.keys);
        transpose(&t, s.kt, s.ld, t.k, t.keys);
        pair(&t, &s, s.v, t.v, 0, t.keys);
        for (int64_t first = t.first; first < t.last; first += QUERIES)
            forward_block(&t, &s, first, heads_view(context, t.head * t.head_size), lse);
    }
}

/* ---- Backward. ---- */

/* What a task reads and writes, beside x. */
struct gradients {
    struct heads_view dcontext, dq; /* this head's */
    float *lse;                     /* becomes rowsum(P dP) */
};

/* Dropped P into s->p, dS into s->dp, for `count` queries whose dO V^T is in s->dp. */
static void backward_rows(const struct task *t, const struct scratch *s, int64_t first,
                          int64_t count, float *lse) {
    const struct mask *m = &t->mask;
    const uint16_t *draws = (const uint16_t *)s->draws;
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = first + i;
        float *p = s->p + i * s->ld, *dp = s->dp + i * s->ld;
        if (m->rate > 0)
            rng_fill(m->stream, t->names.sequence[row], t->names.token[row],
                     (uint32_t)t->head, 0, (uint32_t)(t->keys + 7) / 8, s->draws);
        float *kept = &lse[row * t->num_heads + t->head];
        const float delta = probabilities_row(p, dp, t->keys, t->scale, *kept, draws,
                                              m->threshold, m->keep_scale);
        backward_row(p, dp, t->keys, delta, draws, m->threshold, m->keep_scale);
        *kept = delta;
    }
}

/* dv and dk (keys, e) += P^T or dP^T of the block times its rows of dO or Q. */
static void add_to_keys(const struct task *t, const struct scratch *s, const float *p,
                        int64_t count, const void *rows, float *sum, bool is_first) {
    small_product(t->dtype, t->keys, s->width, words(t, count),
                  by_queries(t, s, p, count), rows, s->width, sum, s->width, !is_first);
}

/* P and dS are operands twice, by keys and by queries: in bf16 each is rounded once and
 * put into pairs along either index. */
static void backward_block(const struct task *t, const struct scratch *s, int64_t first,
                           const struct gradients *g) {
    const int64_t count = block_of(t, first);
    const bool is_first = first == t->first;
    scores(t, s, first, count);
    small_product(t->dtype, count, s->ld, words(t, t->head_size),
                  rows_of(t, g->dcontext, first), s->vt, s->ld, s->dp, s->ld, 0);
    backward_rows(t, s, first, count, g->lse);
    pair(t, s, s->q, t->q, first, count);
    pair(t, s, s->dcontext, g->dcontext, first, count);
    round_rows(t, s, s->p, count);
    add_to_keys(t, s, s->p, count, s->dcontext, s->dv, is_first);
    round_rows(t, s, s->dp, count);
    add_to_keys(t, s, s->dp, count, s->q, s->dk, is_first);
    small_product(t->dtype, count, s->width, words(t, t->keys), by_keys(t, s, s->dp),
                  s->k, s->width, s->out, s->width, 0);
    scatter(t, s, g->dq, first, s->out, count, t->scale * t->head_scale);
}

static void clear(const struct task *t, struct heads_view x) {
    for (int64_t r = 0; r < t->keys; r++)
        memset(at(t->dtype, x, r, 0), 0, (size_t)t->head_size * dtype_bytes(t->dtype));
}

static void backward_task(const struct task *t, const struct scratch *s,
                          const struct gradients *g, struct heads_view dk,
                          struct heads_view dv) {
    if (t->first == t->last) { /* no query reads this sequence */
        clear(t, dk);
        clear(t, dv);
        return;
    }
    transpose(t, s->kt, s->ld, t->k, t->keys);
    transpose(t, s->vt, s->ld, t->v, t->keys);
    pair(t, s, s->k, t->k, 0, t->keys);
    for (int64_t first = t->first; first < t->last; first += QUERIES)
        backward_block(t, s, first, g);
    scatter(t, s, dk, 0, s->dk, t->keys, t->scale * t->head_scale);
    scatter(t, s, dv, 0, s->dv, t->keys, t->head_scale);
}

void attention_backward(const struct attention *a, struct attention_rows rows,
                        struct heads x, float rate, struct rng stream,
                        const float *head_scale, float *lse, struct tensor dcontext,
                        struct heads dx, float *dscale) {
#pragma omp parallel for schedule(dynamic) num_threads(a->threads)
    for (int64_t i = 0; i < rows.num_sequences * a->num_heads; i++) {
        const struct task t = task_of(a, &rows, i, x, mask_of(rate, stream), head_scale);
        const struct scratch s = scratch_of_thread(a, t.keys);
        const int64_t key = rows.key_starts[i / a->num_heads];
        const struct gradients g = {heads_view(dcontext, t.head * t.head_size),
                                    part_of(a, dx.q, 0, t.head), lse};
        backward_task(&t, &s, &g, part_of(a, dx.k, key, t.head),
                      part_of(a, dx.v, key, t.head));
    }
    if (head_scale)
        columns_sum(dscale,
                    tensor_f32(lse, rows.query_starts[rows.num_sequences], a->num_heads),
                    a->threads);
}
