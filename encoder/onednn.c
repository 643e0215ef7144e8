/* onednn - the device: products by shape, copies of weights, the guard against short
 * teams.
 *
 * Products are cached by shape because making one is dear (0.2 to 1 ms) and finding it is
 * not (a hash and eight comparisons). Row counts are rounded to few numbers, so that the
 * cache holds all of a training after its first steps. Shapes are fixed when a primitive
 * is made: sizes left open until it runs cost 30 % in bf16.
 *
 * Operands are copied into blocks where that pays. For weights the copy is made just
 * before the product, from f32 masters: in bf16 it is the conversion that is needed
 * anyway. For weight gradients, dW = dy^T x sums over rows, so dy's columns are turned
 * into rows and x put into blocks. Together with the passes of that time this took a step
 * of 4 layers of base size with 1,024 tokens from 778 to 683 ms in f32 and from 530 to
 * 361 ms in bf16 (one thread). */
#include "encoder/onednn.h"

#include <assert.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cpus.h"
#include "encoder/bf16.h"
#include "encoder/onednn_product.h"
#include "encoder/pack.h"

/* A cache of sets: a shape belongs to one set and pushes out its least recently used. */
enum { SETS = 64, WAYS = 8 };

struct device {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct team team;
    enum dtype dtype;
    bool packs_f32;                 /* products of f32 gain from weights in blocks */
    struct arena weights;           /* of the product that runs, in blocks */
    struct arena inputs, gradients; /* the operands of a weight gradient */
    char description[128];
    uint64_t clock;
    struct product cache[SETS][WAYS];
    struct error failure; /* the first one since device_check() */
};

/* ---- Finding products. ---- */

static struct product *cache_set(struct device *d, struct product_shape s) {
    const uint64_t mixed =
        ((uint64_t)s.m * 0x9E3779B97F4A7C15 + (uint64_t)s.n) * 0xC2B2AE3D27D4EB4F +
        (uint64_t)s.k * 128 + (uint64_t)s.in * 64 + (uint64_t)s.out * 32 +
        (uint64_t)(s.a_transposed * 16 + s.b_transposed * 8 + s.b_packed * 4 +
                   s.bias * 2 + s.add);
    return d->cache[(mixed * 0x9E3779B97F4A7C15) >> 32 & (SETS - 1)];
}

static void fail(struct device *d, const char *what, struct product_shape s,
                 dnnl_status_t status) {
    if (d->failure.status == OK)
        error_set(&d->failure, status == dnnl_out_of_memory ? ERR_MEMORY : ERR_FAILED,
                  "oneDNN could not %s a product of %lld x %lld by %lld (status %d)",
                  what, (long long)s.m, (long long)s.k, (long long)s.n, (int)status);
}

/* The product of this shape, made when it is not there. NULL after a failure. */
static struct product *find(struct device *d, struct product_shape s) {
    struct product *set = cache_set(d, s), *oldest = set;
    for (int way = 0; way < WAYS; way++) {
        if (set[way].last_used && product_is_same(set[way].shape, s)) {
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

static void run(struct device *d, struct product_shape s, const void *a, const void *b,
                void *c, const float *bias) {
    struct product *p = s.m > 0 && s.k > 0 ? find(d, s) : NULL;
    if (!p)
        return;
    const dnnl_status_t status = product_run(p, d->stream, a, b, c, bias);
    if (status != dnnl_success)
        fail(d, "run", s, status);
}

/* ---- Operands in the layouts that products read fastest. ---- */

/* Room of at least `bytes`; what it held is lost. */
static void grow(struct device *d, struct arena *room, size_t bytes) {
    struct error err;
    if (bytes <= room->size)
        return;
    arena_close(room);
    if (arena_open(room, bytes, &err) != OK && d->failure.status == OK)
        d->failure = err;
}

static size_t most_bytes(enum dtype dtype, int64_t rows, int64_t columns) {
    const size_t a = pack_bytes(dtype, rows, columns),
                 b = pack_bytes(dtype, columns, rows);
    return a > b ? a : b;
}

void device_reserve(struct device *d, int64_t rows, int64_t columns) {
    if (d->dtype == DTYPE_BF16 || d->packs_f32)
        grow(d, &d->weights, most_bytes(d->dtype, rows, columns));
}

/* Columns of dy that are turned into rows at a time, and rows of dy and x that are summed
 * at a time: so many stay in the cache. */
enum { TURNED = 1024, TURNED_UNIT = 64, SUMMED = 2048 };

static int64_t turned_at_once(int64_t columns) {
    const int64_t count = (columns + TURNED - 1) / TURNED;
    return ((columns + count - 1) / count + TURNED_UNIT - 1) / TURNED_UNIT * TURNED_UNIT;
}

static size_t turned_bytes(enum dtype dtype, int64_t rows, int64_t columns) {
    return (size_t)(turned_at_once(columns) * pack_even(rows)) * dtype_bytes(dtype);
}

/* Parts of nearly equal length. */
static int64_t summed_at_once(int64_t rows) {
    const int64_t count = (rows + SUMMED - 1) / SUMMED;
    return tensor_round_rows((rows + count - 1) / count);
}

void device_reserve_rows(struct device *d, int64_t rows, int64_t outputs,
                         int64_t inputs) {
    if (d->dtype == DTYPE_F32 && !d->packs_f32)
        return;
    const int64_t most = rows < SUMMED ? rows : SUMMED; /* of any smaller batch, too */
    grow(d, &d->inputs, pack_bytes(d->dtype, most, inputs));
    grow(d, &d->gradients, turned_bytes(d->dtype, most, outputs));
}

size_t device_bytes(const struct device *d) {
    return d->weights.size + d->inputs.size + d->gradients.size;
}

/* From how many rows on an f32 product gains more than the copy costs. */
enum { FORWARD_ROWS = 2048, GRADIENT_ROWS = 256 };

/* Is the copy to be made? In f32 where there is room and it pays. */
static bool packs_weight(struct device *d, enum dtype dtype, int64_t rows,
                         int64_t least_rows, struct tensor weight) {
    const bool fits = most_bytes(dtype, weight.rows, weight.columns) <= d->weights.size;
    assert(fits || dtype == DTYPE_F32 || d->failure.status != OK);
    return fits && (dtype == DTYPE_BF16 || (d->packs_f32 && rows >= least_rows));
}

/* In bf16 where the sum is long enough; in f32 only rows of x that lie far apart slow
 * the product down. */
enum { LEAST_SUM = 32, FAR_APART = 2048 };

static bool packs_operands(const struct device *d, struct tensor dy, struct tensor x) {
    const int64_t rows = x.rows > 0 ? summed_at_once(x.rows) : 0;
    const bool fits = pack_bytes(x.dtype, rows, x.columns) <= d->inputs.size &&
                      turned_bytes(dy.dtype, rows, dy.columns) <= d->gradients.size;
    return fits && x.rows >= LEAST_SUM &&
           (x.dtype == DTYPE_BF16 || (d->packs_f32 && x.columns >= FAR_APART));
}

/* ---- Products. ---- */

void device_product(struct device *d, struct tensor y, struct tensor x,
                    struct tensor weight, const float *bias) {
    const bool pack = packs_weight(d, x.dtype, x.rows, FORWARD_ROWS, weight);
    const struct product_shape shape = {.m = x.rows,
                                        .n = weight.rows,
                                        .k = x.columns,
                                        .in = x.dtype,
                                        .out = y.dtype,
                                        .b_transposed = true,
                                        .b_packed = pack,
                                        .bias = bias != NULL};
    if (pack)
        pack_transposed(d->weights.base, x.dtype, weight, d->team.threads);
    run(d, shape, x.data, pack ? d->weights.base : weight.data, y.data, bias);
}

static void product_input(struct device *d, struct tensor dx, struct tensor dy,
                          struct tensor weight, bool add) {
    const bool pack = packs_weight(d, dy.dtype, dy.rows, GRADIENT_ROWS, weight);
    const struct product_shape shape = {.m = dy.rows,
                                        .n = weight.columns,
                                        .k = dy.columns,
                                        .in = dy.dtype,
                                        .out = dx.dtype,
                                        .b_packed = pack,
                                        .add = add};
    if (pack)
        pack_plain(d->weights.base, dy.dtype, weight, d->team.threads);
    run(d, shape, dy.data, pack ? d->weights.base : weight.data, dx.data, NULL);
}

void device_product_input(struct device *d, struct tensor dx, struct tensor dy,
                          struct tensor weight) {
    product_input(d, dx, dy, weight, false);
}

void device_product_input_add(struct device *d, struct tensor dx, struct tensor dy,
                              struct tensor weight) {
    product_input(d, dx, dy, weight, true);
}

/* Columns of dy become rows, x lies in blocks. */
static void product_weight_part(struct device *d, struct tensor dweight, struct tensor dy,
                                struct tensor x, bool add) {
    const int64_t step = turned_at_once(dy.columns);
    pack_plain(d->inputs.base, x.dtype, x, d->team.threads);
    for (int64_t first = 0; first < dy.columns; first += step) {
        const int64_t left = dy.columns - first, count = left < step ? left : step;
        const struct product_shape shape = {.m = count,
                                            .n = x.columns,
                                            .k = pack_even(x.rows),
                                            .in = x.dtype,
                                            .b_packed = true,
                                            .add = add};
        pack_columns(d->gradients.base, dy, first, count, d->team.threads);
        run(d, shape, d->gradients.base, d->inputs.base,
            tensor_floats(dweight) + first * x.columns, NULL);
    }
}

static void product_weight_packed(struct device *d, struct tensor dweight,
                                  struct tensor dy, struct tensor x, bool add) {
    const int64_t step = summed_at_once(x.rows);
    for (int64_t first = 0; first < x.rows; first += step) {
        const int64_t left = x.rows - first, count = left < step ? left : step;
        product_weight_part(d, dweight, tensor_rows(dy, first, count),
                            tensor_rows(x, first, count), add || first > 0);
    }
}

void device_product_weight(struct device *d, struct tensor dweight, struct tensor dy,
                           struct tensor x, bool add) {
    const struct product_shape shape = {.m = dy.columns,
                                        .n = x.columns,
                                        .k = x.rows,
                                        .in = x.dtype,
                                        .a_transposed = true,
                                        .add = add};
    if (packs_operands(d, dy, x))
        product_weight_packed(d, dweight, dy, x, add);
    else
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

/* The guard: one product on NaN, compared element by element. A fault seen here would
 * else show as a model that learns nothing. */
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
                         d->team.threads);
    return OK;
}

static void set_threads(struct device *d, int threads, const struct notices *notices) {
    const int wanted = threads > 0 ? threads : cpus_usable();
    omp_set_dynamic(0);
    d->team.threads = team_of(wanted);
    if (d->team.threads < wanted)
        notice(notices,
               "OpenMP grants %d of %d threads (see OMP_THREAD_LIMIT); going on "
               "with %d",
               d->team.threads, wanted, d->team.threads);
    omp_set_num_threads(d->team.threads);
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
    const int threads = d->team.threads;
    const char *isa = "other";
    for (size_t i = 0; i < sizeof isa_names / sizeof *isa_names; i++)
        if ((unsigned)dnnl_get_effective_cpu_isa() == isa_names[i].isa)
            isa = isa_names[i].name;
    snprintf(d->description, sizeof d->description,
             "oneDNN %d.%d.%d, %s, %s, %d thread%s", v->major, v->minor, v->patch, isa,
             dtype_name(d->dtype), threads, threads == 1 ? "" : "s");
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
    d->packs_f32 = product_can_pack(DTYPE_F32, d->engine);
    describe(d);
    *out = d;
    return OK;
}

int device_threads(const struct device *d) { return d->team.threads; }

struct team *device_team(struct device *d) {
    return &d->team;
}

bool device_has_bf16(const struct device *d) {
    const unsigned needed = dnnl_cpu_isa_avx512_core_bf16;
    return bf16_is_native() &&
           ((unsigned)dnnl_get_effective_cpu_isa() & needed) == needed &&
           product_can_pack(DTYPE_BF16, d->engine);
}

enum status device_set_dtype(struct device *d, enum dtype dtype, struct error *err) {
    if (dtype == DTYPE_BF16 && !device_has_bf16(d))
        return error_set(err, ERR_USAGE,
                         "--dtype bf16: this processor has no products of bf16 (%s)",
                         d->description);
    d->dtype = dtype;
    describe(d);
    return OK;
}

enum dtype device_dtype(const struct device *d) { return d->dtype; }

enum status device_set_dtype_named(struct device *d, const char *word,
                                   struct error *err) {
    const bool automatic = strcmp(word, "auto") == 0;
    const bool bf16 = automatic ? device_has_bf16(d) : strcmp(word, "bf16") == 0;
    return device_set_dtype(d, bf16 ? DTYPE_BF16 : DTYPE_F32, err);
}

const char *device_description(const struct device *d) { return d->description; }

enum status device_check(struct device *d, struct error *err) {
    if (d->team.failed)
        return error_set(err, ERR_MEMORY, "out of memory for the threads' scratch");
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
    team_close(&d->team);
    arena_close(&d->weights);
    arena_close(&d->inputs);
    arena_close(&d->gradients);
    if (d->stream)
        dnnl_stream_destroy(d->stream);
    if (d->engine)
        dnnl_engine_destroy(d->engine);
    free(d);
}
