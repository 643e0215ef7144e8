/* onednn - matrix products, their cache by shape, and the guard against short teams. */
#include "encoder/onednn.h"

#include <math.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cpus.h"

/* The products are all C (m, n) = A (m, k) B (k, n) [+ bias] [+ C]; `kind` says which of
 * A and B is read transposed. */
enum kind {
    FORWARD,            /* x W^T */
    FORWARD_BIAS,       /* x W^T + bias */
    INPUT_GRADIENT,     /* dy W */
    WEIGHT_GRADIENT_ADD /* dy^T x + dW */
};

struct shape {
    enum kind kind;
    int64_t m, n, k;
};

struct product {
    struct shape shape;
    uint64_t last_used; /* 0 = an empty place */
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, c, bias;
};

/* A cache of sets: a shape belongs to one set and pushes out its least recently used. */
enum { SETS = 64, WAYS = 8 };

struct device {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    int threads;
    char description[128];
    uint64_t clock;
    struct product cache[SETS][WAYS];
    struct error failure; /* the first one since device_check() */
};

/* ---- What differs between oneDNN 2.x and 3.x. ---- */
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t layout; /* a handle */

static dnnl_status_t layout_make(layout *l, const dnnl_dims_t dims,
                                 const dnnl_dims_t strides) {
    return dnnl_memory_desc_create_with_strides(l, 2, dims, dnnl_f32, strides);
}
static void layout_free(layout *l) {
    if (*l)
        dnnl_memory_desc_destroy(*l);
}
static dnnl_status_t memory_make(dnnl_memory_t *m, const layout *l, dnnl_engine_t e) {
    return dnnl_memory_create(m, *l, e, DNNL_MEMORY_NONE);
}
static dnnl_status_t matmul_describe(dnnl_primitive_desc_t *pd, dnnl_engine_t e,
                                     const layout *a, const layout *b, const layout *bias,
                                     const layout *c, dnnl_primitive_attr_t attributes) {
    return dnnl_matmul_primitive_desc_create(pd, e, *a, *b, bias ? *bias : NULL, *c,
                                             attributes);
}
static dnnl_status_t append_sum(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef);
}
#else
typedef dnnl_memory_desc_t layout; /* a plain struct */

static dnnl_status_t layout_make(layout *l, const dnnl_dims_t dims,
                                 const dnnl_dims_t strides) {
    return dnnl_memory_desc_init_by_strides(l, 2, dims, dnnl_f32, strides);
}
static void layout_free(layout *l) { (void)l; }
static dnnl_status_t memory_make(dnnl_memory_t *m, const layout *l, dnnl_engine_t e) {
    return dnnl_memory_create(m, l, e, DNNL_MEMORY_NONE);
}
static dnnl_status_t matmul_describe(dnnl_primitive_desc_t *pd, dnnl_engine_t e,
                                     const layout *a, const layout *b, const layout *bias,
                                     const layout *c, dnnl_primitive_attr_t attributes) {
    dnnl_matmul_desc_t matmul;
    const dnnl_status_t status = dnnl_matmul_desc_init(&matmul, a, b, bias, c);
    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(pd, &matmul, attributes, e, NULL);
}
static dnnl_status_t append_sum(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_sum(ops, 1);
}
#endif

#define TRY_DNNL(call)                          \
    do {                                        \
        dnnl_status_t try_dnnl_status = (call); \
        if (try_dnnl_status != dnnl_success)    \
            return try_dnnl_status;             \
    } while (0)

/* ---- Making products. ---- */

struct layouts {
    layout a, b, c, bias;
};

/* A row-major matrix of `rows` x `columns`, or one stored as its transpose. */
static dnnl_status_t layout_matrix(layout *l, int64_t rows, int64_t columns,
                                   bool transposed) {
    const dnnl_dims_t dims = {rows, columns};
    const dnnl_dims_t strides = {transposed ? 1 : columns, transposed ? rows : 1};
    return layout_make(l, dims, strides);
}

static dnnl_status_t layouts_make(struct layouts *l, struct shape s) {
    const bool forward = s.kind == FORWARD || s.kind == FORWARD_BIAS;
    TRY_DNNL(layout_matrix(&l->a, s.m, s.k, s.kind == WEIGHT_GRADIENT_ADD));
    TRY_DNNL(layout_matrix(&l->b, s.k, s.n, forward));
    TRY_DNNL(layout_matrix(&l->c, s.m, s.n, false));
    return layout_matrix(&l->bias, 1, s.n, false);
}

static dnnl_status_t attributes_make(dnnl_primitive_attr_t *attributes, enum kind kind) {
    dnnl_post_ops_t ops;
    TRY_DNNL(dnnl_primitive_attr_create(attributes));
    if (kind != WEIGHT_GRADIENT_ADD)
        return dnnl_success;
    TRY_DNNL(dnnl_post_ops_create(&ops));
    dnnl_status_t status = append_sum(ops);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(*attributes, ops);
    dnnl_post_ops_destroy(ops);
    return status;
}

static dnnl_status_t primitive_make(struct product *p, const struct layouts *l,
                                    dnnl_engine_t engine) {
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t description = NULL;
    const layout *bias = p->shape.kind == FORWARD_BIAS ? &l->bias : NULL;
    dnnl_status_t status = attributes_make(&attributes, p->shape.kind);
    if (status == dnnl_success)
        status =
            matmul_describe(&description, engine, &l->a, &l->b, bias, &l->c, attributes);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&p->primitive, description);
    if (description)
        dnnl_primitive_desc_destroy(description);
    if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    return status;
}

static dnnl_status_t memories_make(struct product *p, const struct layouts *l,
                                   dnnl_engine_t engine) {
    TRY_DNNL(memory_make(&p->a, &l->a, engine));
    TRY_DNNL(memory_make(&p->b, &l->b, engine));
    TRY_DNNL(memory_make(&p->c, &l->c, engine));
    return memory_make(&p->bias, &l->bias, engine);
}

static void product_free(struct product *p) {
    const dnnl_memory_t memories[] = {p->a, p->b, p->c, p->bias};
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++)
        if (memories[i])
            dnnl_memory_destroy(memories[i]);
    if (p->primitive)
        dnnl_primitive_destroy(p->primitive);
    *p = (struct product){0};
}

static dnnl_status_t product_make(struct product *p, struct shape shape,
                                  dnnl_engine_t engine) {
    struct layouts l = {0};
    *p = (struct product){.shape = shape};
    dnnl_status_t status = layouts_make(&l, shape);
    if (status == dnnl_success)
        status = primitive_make(p, &l, engine);
    if (status == dnnl_success)
        status = memories_make(p, &l, engine);
    layout_free(&l.a);
    layout_free(&l.b);
    layout_free(&l.c);
    layout_free(&l.bias);
    if (status != dnnl_success)
        product_free(p);
    return status;
}

/* ---- Finding and running them. ---- */

static bool same_shape(struct shape a, struct shape b) {
    return a.kind == b.kind && a.m == b.m && a.n == b.n && a.k == b.k;
}

static struct product *cache_set(struct device *d, struct shape s) {
    const uint64_t mixed =
        ((uint64_t)s.m * 0x9E3779B97F4A7C15 + (uint64_t)s.n) * 0xC2B2AE3D27D4EB4F +
        (uint64_t)s.k * 4 + (uint64_t)s.kind;
    return d->cache[(mixed * 0x9E3779B97F4A7C15) >> 32 & (SETS - 1)];
}

static void fail(struct device *d, const char *what, struct shape s,
                 dnnl_status_t status) {
    if (d->failure.status == OK)
        error_set(&d->failure, status == dnnl_out_of_memory ? ERR_MEMORY : ERR_FAILED,
                  "oneDNN could not %s a product of %lld x %lld by %lld (status %d)",
                  what, (long long)s.m, (long long)s.k, (long long)s.n, (int)status);
}

/* The product of this shape, made when it is not there. NULL after a failure. */
static struct product *find(struct device *d, struct shape s) {
    struct product *set = cache_set(d, s), *oldest = set;
    for (int way = 0; way < WAYS; way++) {
        if (set[way].last_used && same_shape(set[way].shape, s)) {
            set[way].last_used = ++d->clock;
            return &set[way];
        }
        if (set[way].last_used < oldest->last_used)
            oldest = &set[way];
    }
    product_free(oldest);
    const dnnl_status_t status = product_make(oldest, s, d->engine);
    if (status != dnnl_success) {
        fail(d, "make", s, status);
        return NULL;
    }
    oldest->last_used = ++d->clock;
    return oldest;
}

static void run(struct device *d, struct shape s, const void *a, const void *b, void *c,
                const float *bias) {
    struct product *p = find(d, s);
    if (!p)
        return;
    /* oneDNN takes all data by plain pointers; only C is written. */
    dnnl_memory_set_data_handle(p->a, (void *)a);
    dnnl_memory_set_data_handle(p->b, (void *)b);
    dnnl_memory_set_data_handle(p->c, c);
    dnnl_memory_set_data_handle(p->bias, (void *)bias);
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, p->a},
                                         {DNNL_ARG_WEIGHTS, p->b},
                                         {DNNL_ARG_DST, p->c},
                                         {DNNL_ARG_BIAS, p->bias}};
    dnnl_status_t status =
        dnnl_primitive_execute(p->primitive, d->stream, bias ? 4 : 3, arguments);
    if (status == dnnl_success)
        status = dnnl_stream_wait(d->stream);
    if (status != dnnl_success)
        fail(d, "run", s, status);
}

void device_product(struct device *d, struct tensor y, struct tensor x,
                    struct tensor weight, const float *bias) {
    const struct shape shape = {bias ? FORWARD_BIAS : FORWARD, x.rows, weight.rows,
                                x.columns};
    if (x.rows > 0)
        run(d, shape, x.data, weight.data, y.data, bias);
}

void device_product_input(struct device *d, struct tensor dx, struct tensor dy,
                          struct tensor weight) {
    const struct shape shape = {INPUT_GRADIENT, dy.rows, weight.columns, dy.columns};
    if (dy.rows > 0)
        run(d, shape, dy.data, weight.data, dx.data, NULL);
}

void device_product_weight(struct device *d, struct tensor dweight, struct tensor dy,
                           struct tensor x) {
    const struct shape shape = {WEIGHT_GRADIENT_ADD, dy.columns, x.columns, x.rows};
    if (x.rows > 0)
        run(d, shape, dy.data, x.data, dweight.data, NULL);
}

/* ---- Opening. ---- */

/* The team that an OpenMP region of `threads` really gets. */
static int team_of(int threads) {
    int team = 1;
#pragma omp parallel num_threads(threads)
#pragma omp single
    team = omp_get_num_threads();
    return team;
}

enum { PROBE_M = 192, PROBE_N = 160, PROBE_K = 64 };

/* Does a product write every element? x[i] and w[i] are small integers, so that sums are
 * exact in any order. */
static bool product_is_whole(struct device *d, float *x, float *w, float *y) {
    for (int i = 0; i < PROBE_M * PROBE_K; i++)
        x[i] = (float)(i % 7 - 3);
    for (int i = 0; i < PROBE_N * PROBE_K; i++)
        w[i] = (float)(i % 5 - 2);
    for (int i = 0; i < PROBE_M * PROBE_N; i++)
        y[i] = NAN;
    device_product(d, tensor_f32(y, PROBE_M, PROBE_N), tensor_f32(x, PROBE_M, PROBE_K),
                   tensor_f32(w, PROBE_N, PROBE_K), NULL);
    for (int i = 0; i < PROBE_M * PROBE_N; i++) {
        float sum = 0;
        for (int k = 0; k < PROBE_K; k++)
            sum += x[i / PROBE_N * PROBE_K + k] * w[i % PROBE_N * PROBE_K + k];
        if (!(y[i] == sum))
            return false;
    }
    return true;
}

static enum status probe(struct device *d, struct error *err) {
    const size_t elements =
        PROBE_M * PROBE_K + PROBE_N * PROBE_K + (size_t)PROBE_M * PROBE_N;
    float *memory = malloc(elements * sizeof *memory);
    if (!memory)
        return error_set(err, ERR_MEMORY, "out of memory for the product check");
    float *w = memory + PROBE_M * PROBE_K, *y = w + PROBE_N * PROBE_K;
    const bool whole = product_is_whole(d, memory, w, y);
    free(memory);
    TRY(device_check(d, err));
    if (!whole)
        return error_set(err, ERR_FAILED,
                         "oneDNN leaves a product unfinished with %d threads here; try "
                         "--threads 1",
                         d->threads);
    return OK;
}

static void set_threads(struct device *d, int threads, const struct notices *notices) {
    const int wanted = threads > 0 ? threads : cpus_usable();
    omp_set_dynamic(0);
    d->threads = team_of(wanted);
    if (d->threads < wanted)
        notice(notices,
               "OpenMP grants %d of %d threads (see OMP_THREAD_LIMIT); going on "
               "with %d",
               d->threads, wanted, d->threads);
    omp_set_num_threads(d->threads);
}

struct isa_name {
    unsigned isa;
    const char *name;
};

static const struct isa_name isa_names[] = {
    {dnnl_cpu_isa_sse41, "sse41"},
    {dnnl_cpu_isa_avx, "avx"},
    {dnnl_cpu_isa_avx2, "avx2"},
    {dnnl_cpu_isa_avx512_core, "avx512_core"},
    {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
    {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
};

static void describe(struct device *d) {
    const dnnl_version_t *v = dnnl_version();
    const char *isa = "other";
    for (size_t i = 0; i < sizeof isa_names / sizeof *isa_names; i++)
        if ((unsigned)dnnl_get_effective_cpu_isa() == isa_names[i].isa)
            isa = isa_names[i].name;
    snprintf(d->description, sizeof d->description, "oneDNN %d.%d.%d, %s, %d thread%s",
             v->major, v->minor, v->patch, isa, d->threads, d->threads == 1 ? "" : "s");
}

enum status device_open(struct device **out, int threads, const struct notices *notices,
                        struct error *err) {
    *out = NULL;
    struct device *d = calloc(1, sizeof *d);
    if (!d)
        return error_set(err, ERR_MEMORY, "out of memory for the device");
    set_threads(d, threads, notices);
    dnnl_status_t status = dnnl_engine_create(&d->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = dnnl_stream_create(&d->stream, d->engine, dnnl_stream_default_flags);
    enum status result = OK;
    if (status != dnnl_success)
        result =
            error_set(err, ERR_FAILED, "oneDNN does not start (status %d)", (int)status);
    if (result == OK)
        result = probe(d, err);
    if (result != OK) {
        device_close(d);
        return result;
    }
    describe(d);
    *out = d;
    return OK;
}

int device_threads(const struct device *d) { return d->threads; }

const char *device_description(const struct device *d) { return d->description; }

enum status device_check(struct device *d, struct error *err) {
    if (d->failure.status == OK)
        return OK;
    *err = d->failure;
    d->failure = (struct error){0};
    return err->status;
}

void device_close(struct device *d) {
    if (!d)
        return;
    for (int set = 0; set < SETS; set++)
        for (int way = 0; way < WAYS; way++)
            product_free(&d->cache[set][way]);
    if (d->stream)
        dnnl_stream_destroy(d->stream);
    if (d->engine)
        dnnl_engine_destroy(d->engine);
    free(d);
}
