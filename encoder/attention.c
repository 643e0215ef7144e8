/* attention - fused forward and backward of one head of one sequence at a time. */
#include "encoder/attention.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "encoder/small_product.h"
#include "encoder/vector.h"

enum { QUERIES = 32 }; /* rows of P that exist at a time */

/* A thread's scratch. Columns are padded with zeros: e to `width`, keys to `ld`. */
struct scratch {
    int64_t width, ld;
    float *kt, *vt;                /* (e, keys): K^T and V^T */
    float *k, *v, *dk, *dv;        /* (keys, e) */
    float *q, *context, *dcontext; /* (QUERIES, e) */
    float *p, *dp;                 /* (QUERIES, keys) */
    uint32_t *draws;               /* a row of keys */
};

/* Places the arrays from `base`; returns the floats used. NULL only measures. */
static int64_t scratch_place(struct scratch *s, float *base, int64_t head_size,
                             int64_t keys) {
    const int64_t width = small_product_round(head_size), ld = small_product_round(keys);
    struct {
        float **array;
        int64_t floats;
    } const places[] = {{&s->kt, width * ld},
                        {&s->vt, width * ld},
                        {&s->k, ld * width},
                        {&s->v, ld * width},
                        {&s->dk, ld * width},
                        {&s->dv, ld * width},
                        {&s->q, QUERIES * width},
                        {&s->context, QUERIES * width},
                        {&s->dcontext, QUERIES * width},
                        {&s->p, QUERIES * ld},
                        {&s->dp, QUERIES * ld}};
    int64_t used = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        *places[i].array = base ? base + used : NULL;
        used += places[i].floats;
    }
    s->width = width;
    s->ld = ld;
    s->draws = base ? (uint32_t *)(base + used) : NULL;
    return used + ld;
}

void attention_layout(struct attention *a, struct arena *arena, int64_t max_keys) {
    struct scratch s;
    a->scratch_each = scratch_place(&s, NULL, a->head_size, max_keys);
    a->scratch = ARENA_TAKE(arena, float, a->scratch_each * a->threads);
}

static struct scratch scratch_of_thread(const struct attention *a, int64_t keys) {
    struct scratch s;
    scratch_place(&s, a->scratch + omp_get_thread_num() * a->scratch_each, a->head_size,
                  keys);
    return s;
}

/* One head's channels of `rows` rows, each padded with zeros to `width`. */
static void gather(float *to, int64_t width, const float *from, int64_t stride,
                   int64_t rows, int64_t head_size) {
    for (int64_t r = 0; r < rows; r++) {
        memcpy(to + r * width, from + r * stride, (size_t)head_size * sizeof *to);
        memset(to + r * width + head_size, 0, (size_t)(width - head_size) * sizeof *to);
    }
}

HOT static void scatter(float *to, int64_t stride, const float *from, int64_t width,
                        int64_t rows, int64_t head_size, float factor) {
    for (int64_t r = 0; r < rows; r++)
#pragma omp simd
        for (int64_t c = 0; c < head_size; c++)
            to[r * stride + c] = from[r * width + c] * factor;
}

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

/* x of one row of scores becomes dropped P; p also gives dS from dp (the gradient of the
 * dropped P, without the mask): dS = P (mask dp - delta). */
HOT static void backward_row(float *restrict x, float *restrict dp, int64_t count,
                             float scale, float lse, float delta,
                             const uint16_t *restrict draws, uint32_t threshold,
                             float keep_scale) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        const float p = vector_exp(scale * x[i] - lse);
        const float mask = draws[i] >= threshold ? keep_scale : 0;
        x[i] = p * mask;
        dp[i] = p * (mask * dp[i] - delta);
    }
}

HOT static float dot(const float *x, const float *y, int64_t count) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * y[i];
    return sum;
}

/* What one (sequence, head) works on. */
struct task {
    int64_t head, head_size, num_heads;
    int64_t keys;        /* rows of k and v */
    int64_t first, last; /* query rows */
    const float *q, *k, *v;
    int64_t q_stride, kv_stride, d;
    float scale;
    struct mask mask;
    struct row_names names;
};

static struct task task_of(const struct attention *a, const struct attention_rows *rows,
                           int64_t index, struct heads x, struct mask mask) {
    const int64_t sequence = index / a->num_heads, head = index % a->num_heads;
    const int64_t key = rows->key_starts[sequence], column = head * a->head_size;
    return (struct task){
        .head = head,
        .head_size = a->head_size,
        .num_heads = a->num_heads,
        .keys = rows->key_starts[sequence + 1] - key,
        .first = rows->query_starts[sequence],
        .last = rows->query_starts[sequence + 1],
        .q = x.q.data + column,
        .k = x.k.data + key * x.k.stride + column,
        .v = x.v.data + key * x.v.stride + column,
        .q_stride = x.q.stride,
        .kv_stride = x.k.stride,
        .d = a->num_heads * a->head_size,
        .scale = 1 / sqrtf((float)a->head_size),
        .mask = mask,
        .names = rows->queries,
    };
}

/* s->p = Q K^T of `count` queries from row `first`. */
static void scores(const struct task *t, const struct scratch *s, int64_t first,
                   int64_t count) {
    const struct operand q = {t->q + first * t->q_stride, t->q_stride, 1};
    small_product(count, s->ld, t->head_size, q, s->kt, s->ld, s->p, s->ld, 0);
}

static void forward_block(const struct task *t, const struct scratch *s, int64_t first,
                          int64_t count, float *context, float *lse) {
    float sums[QUERIES];
    scores(t, s, first, count);
    for (int64_t i = 0; i < count; i++) {
        float *p = s->p + i * s->ld;
        const int64_t row = first + i;
        sums[i] = softmax_row(p, t->keys, t->scale, &lse[row * t->num_heads + t->head]);
        dropout_row(p, t->keys, t->mask.rate, t->mask.stream, t->names.sequence[row],
                    t->names.token[row], (uint32_t)t->head);
    }
    small_product(count, s->width, t->keys, (struct operand){s->p, s->ld, 1}, s->v,
                  s->width, s->context, s->width, 0);
    for (int64_t i = 0; i < count; i++)
        scatter(context + (first + i) * t->d + t->head * t->head_size, 0,
                s->context + i * s->width, 0, 1, t->head_size, 1 / sums[i]);
}

void attention_forward(const struct attention *a, struct attention_rows rows,
                       struct heads x, float rate, struct rng stream,
                       struct tensor context, float *lse) {
#pragma omp parallel for schedule(dynamic) num_threads(a->threads)
    for (int64_t i = 0; i < rows.num_sequences * a->num_heads; i++) {
        const struct task t = task_of(a, &rows, i, x, mask_of(rate, stream));
        const struct scratch s = scratch_of_thread(a, t.keys);
        small_product_transpose(s.kt, s.ld, t.k, t.kv_stride, t.keys, t.head_size);
        gather(s.v, s.width, t.v, t.kv_stride, t.keys, t.head_size);
        for (int64_t first = t.first; first < t.last; first += QUERIES)
            forward_block(&t, &s, first,
                          t.last - first < QUERIES ? t.last - first : QUERIES,
                          context.data, lse);
    }
}

/* Dropped P into s->p, dS into s->dp, for `count` queries whose dO V^T is in s->dp. */
static void backward_rows(const struct task *t, const struct scratch *s, int64_t first,
                          int64_t count, const float *context, const float *dcontext,
                          const float *lse) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = first + i, at = row * t->d + t->head * t->head_size;
        const float delta = dot(context + at, dcontext + at, t->head_size);
        if (t->mask.rate > 0)
            rng_fill(t->mask.stream, t->names.sequence[row], t->names.token[row],
                     (uint32_t)t->head, 0, (uint32_t)(t->keys + 7) / 8, s->draws);
        backward_row(s->p + i * s->ld, s->dp + i * s->ld, t->keys, t->scale,
                     lse[row * t->num_heads + t->head], delta, (const uint16_t *)s->draws,
                     t->mask.threshold, t->mask.keep_scale);
    }
}

static void backward_block(const struct task *t, const struct scratch *s, int64_t first,
                           int64_t count, const float *context, const float *dcontext,
                           const float *lse, struct heads_view dq) {
    const int64_t column = t->head * t->head_size, at = first * t->d + column;
    scores(t, s, first, count);
    small_product(count, s->ld, t->head_size, (struct operand){dcontext + at, t->d, 1},
                  s->vt, s->ld, s->dp, s->ld, 0);
    backward_rows(t, s, first, count, context, dcontext, lse);
    gather(s->q, s->width, t->q + first * t->q_stride, t->q_stride, count, t->head_size);
    gather(s->dcontext, s->width, dcontext + at, t->d, count, t->head_size);
    small_product(t->keys, s->width, count, (struct operand){s->p, 1, s->ld}, s->dcontext,
                  s->width, s->dv, s->width, first > t->first);
    small_product(t->keys, s->width, count, (struct operand){s->dp, 1, s->ld}, s->q,
                  s->width, s->dk, s->width, first > t->first);
    small_product(count, s->width, t->keys, (struct operand){s->dp, s->ld, 1}, s->k,
                  s->width, s->context, s->width, 0);
    scatter(dq.data + first * dq.stride + column, dq.stride, s->context, s->width, count,
            t->head_size, t->scale);
}

static void clear(struct heads_view x, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r++)
        memset(x.data + r * x.stride, 0, (size_t)columns * sizeof *x.data);
}

void attention_backward(const struct attention *a, struct attention_rows rows,
                        struct heads x, float rate, struct rng stream,
                        struct tensor context, const float *lse, struct tensor dcontext,
                        struct heads dx) {
#pragma omp parallel for schedule(dynamic) num_threads(a->threads)
    for (int64_t i = 0; i < rows.num_sequences * a->num_heads; i++) {
        const struct task t = task_of(a, &rows, i, x, mask_of(rate, stream));
        const struct scratch s = scratch_of_thread(a, t.keys);
        const int64_t key = rows.key_starts[i / a->num_heads];
        const int64_t column = t.head * t.head_size;
        const struct heads_view dk_head = {dx.k.data + key * dx.k.stride + column,
                                           dx.k.stride};
        const struct heads_view dv_head = {dx.v.data + key * dx.v.stride + column,
                                           dx.v.stride};
        if (t.first == t.last) { /* no query reads this sequence */
            clear(dk_head, t.keys, t.head_size);
            clear(dv_head, t.keys, t.head_size);
            continue;
        }
        small_product_transpose(s.kt, s.ld, t.k, t.kv_stride, t.keys, t.head_size);
        small_product_transpose(s.vt, s.ld, t.v, t.kv_stride, t.keys, t.head_size);
        gather(s.k, s.width, t.k, t.kv_stride, t.keys, t.head_size);
        for (int64_t first = t.first; first < t.last; first += QUERIES)
            backward_block(&t, &s, first,
                           t.last - first < QUERIES ? t.last - first : QUERIES,
                           context.data, dcontext.data, lse, dx.q);
        scatter(dk_head.data, dx.k.stride, s.dk, s.width, t.keys, t.head_size, t.scale);
        scatter(dv_head.data, dx.v.stride, s.dv, s.width, t.keys, t.head_size, 1);
    }
}
