/* bench_products - what a training step could reach: oneDNN's rate for its products
 * alone, each in its best layout, and the processor's rate in registers.
 *
 * usage: bench_products dtype=f32|bf16 threads=N
 *
 * Answers as bench_step does. A line "step COUNT M:N:K:TIMES,..." times the three
 * products of linear layers from K to N channels on M rows (y = x W^T, dx = dy W, dW =
 * dy^T x, of which dW is f32): "step=SECONDS rate=FLOPS_PER_SECOND", where SECONDS counts
 * each layer TIMES times. The layouts of both operands are chosen for every product when
 * its shape is first seen: as a plain matrix, as its transpose, or as oneDNN asks for;
 * copying into them is not counted. A line "step COUNT peak" runs multiply-adds on
 * registers. */
#include <immintrin.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"

static bool is_bf16;
static dnnl_engine_t engine;
static dnnl_stream_t stream;

static void fail(const char *what, const char *text) {
    fprintf(stderr, "bench_products: %s %s\n", what, text);
    exit(2);
}

static void need(dnnl_status_t status, const char *what) {
    if (status != dnnl_success)
        fail("oneDNN failed to", what);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- oneDNN 2.x and 3.x: a matrix of two dimensions, and a product. ---- */

enum layout { PLAIN, TRANSPOSED, ANY, LAYOUTS };

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t matrix; /* a pointer */
static matrix describe(const dnnl_dims_t dims, dnnl_data_type_t type, enum layout l) {
    static const dnnl_format_tag_t tags[] = {dnnl_ab, dnnl_ba, dnnl_format_tag_any};
    matrix m;
    need(dnnl_memory_desc_create_with_tag(&m, 2, dims, type, tags[l]), "describe");
    return m;
}
static dnnl_status_t plan(dnnl_primitive_desc_t *p, matrix a, matrix b, matrix c) {
    return dnnl_matmul_primitive_desc_create(p, engine, a, b, NULL, c, NULL);
}
static const_dnnl_memory_desc_t asked(dnnl_primitive_desc_t p, dnnl_query_t what) {
    return dnnl_primitive_desc_query_md(p, what, 0);
}
#else
typedef dnnl_memory_desc_t matrix; /* a struct */
static matrix describe(const dnnl_dims_t dims, dnnl_data_type_t type, enum layout l) {
    static const dnnl_format_tag_t tags[] = {dnnl_ab, dnnl_ba, dnnl_format_tag_any};
    matrix m;
    need(dnnl_memory_desc_init_by_tag(&m, 2, dims, type, tags[l]), "describe");
    return m;
}
static dnnl_status_t plan(dnnl_primitive_desc_t *p, matrix a, matrix b, matrix c) {
    dnnl_matmul_desc_t d;
    const dnnl_status_t status = dnnl_matmul_desc_init(&d, &a, &b, NULL, &c);
    return status == dnnl_success ? dnnl_primitive_desc_create(p, &d, NULL, engine, NULL)
                                  : status;
}
static const dnnl_memory_desc_t *asked(dnnl_primitive_desc_t p, dnnl_query_t what) {
    return dnnl_primitive_desc_query_md(p, what, 0);
}
#endif

/* ---- Products. ---- */

enum { MOST_LAYERS = 32 };

struct product {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[3];
    struct arena room[3];
    double seconds;
};

/* 0.01 everywhere: the operands' values do not matter, but zeros might. */
static dnnl_memory_t make_memory(dnnl_primitive_desc_t p, dnnl_query_t what,
                                 struct arena *room) {
    struct error err;
    dnnl_memory_t memory;
    const size_t bytes = dnnl_memory_desc_get_size(asked(p, what));
    if (arena_open(room, bytes, &err) != OK)
        fail("failed:", err.text);
    unsigned char *data = arena_take(room, bytes, 1);
    memset(data, 0x3c, bytes);
    need(dnnl_memory_create(&memory, asked(p, what), engine, data), "place a matrix");
    return memory;
}

static bool make_product(struct product *p, const int64_t size[3], dnnl_data_type_t out,
                         enum layout a, enum layout b) {
    static const dnnl_query_t queries[] = {dnnl_query_src_md, dnnl_query_weights_md,
                                           dnnl_query_dst_md};
    static const int names[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    const dnnl_data_type_t in = is_bf16 ? dnnl_bf16 : dnnl_f32;
    dnnl_primitive_desc_t d;
    const dnnl_dims_t a_dims = {size[0], size[2]}, b_dims = {size[2], size[1]},
                      c_dims = {size[0], size[1]};
    *p = (struct product){0};
    if (plan(&d, describe(a_dims, in, a), describe(b_dims, in, b),
             describe(c_dims, out, PLAIN)) != dnnl_success)
        return false;
    need(dnnl_primitive_create(&p->primitive, d), "make a product");
    for (int i = 0; i < 3; i++)
        p->args[i] = (dnnl_exec_arg_t){names[i], make_memory(d, queries[i], &p->room[i])};
    dnnl_primitive_desc_destroy(d);
    return true;
}

static void free_product(struct product *p) {
    if (!p->primitive)
        return;
    dnnl_primitive_destroy(p->primitive);
    for (int i = 0; i < 3; i++) {
        dnnl_memory_destroy(p->args[i].memory);
        arena_close(&p->room[i]);
    }
    *p = (struct product){0};
}

static double run_product(struct product *p) {
    const double begin = now();
    need(dnnl_primitive_execute(p->primitive, stream, 3, p->args), "run a product");
    need(dnnl_stream_wait(stream), "wait");
    return now() - begin;
}

static int by_seconds(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { RUNS = 5 };

/* The median of a few runs. */
static double time_product(struct product *p) {
    double seconds[RUNS];
    for (int i = 0; i < RUNS; i++)
        seconds[i] = run_product(p);
    qsort(seconds, RUNS, sizeof *seconds, by_seconds);
    return seconds[RUNS / 2];
}

/* The product in the layouts that run fastest. */
static struct product choose(const int64_t size[3], dnnl_data_type_t out) {
    struct product best = {0}, p;
    for (int a = 0; a < LAYOUTS; a++)
        for (int b = 0; b < LAYOUTS; b++) {
            if (!make_product(&p, size, out, a, b))
                continue;
            p.seconds = time_product(&p);
            if (!best.primitive || p.seconds < best.seconds) {
                free_product(&best);
                best = p;
            } else {
                free_product(&p);
            }
        }
    if (!best.primitive)
        fail("oneDNN has no product of", is_bf16 ? "bf16" : "f32");
    return best;
}

/* ---- Layers. ---- */

struct layer {
    int64_t m, n, k, times;
    struct product products[3];
};
static struct layer layers[MOST_LAYERS];
static int num_layers;

static void choose_layer(struct layer *l) {
    const dnnl_data_type_t type = is_bf16 ? dnnl_bf16 : dnnl_f32;
    const int64_t sizes[3][3] = {
        {l->m, l->n, l->k}, {l->m, l->k, l->n}, {l->n, l->k, l->m}};
    for (int i = 0; i < 3; i++)
        l->products[i] = choose(sizes[i], i == 2 ? dnnl_f32 : type);
}

static struct layer *find_layer(struct layer wanted) {
    for (int i = 0; i < num_layers; i++)
        if (layers[i].m == wanted.m && layers[i].n == wanted.n && layers[i].k == wanted.k)
            return &layers[i];
    if (num_layers == MOST_LAYERS)
        fail("too many", "layers");
    choose_layer(&wanted);
    layers[num_layers] = wanted;
    return &layers[num_layers++];
}

static double run_layers(const char *text, double *flops) {
    double seconds = 0;
    struct layer l = {0};
    for (int used; *text; text += used + (text[used] == ',')) {
        if (sscanf(text, "%ld:%ld:%ld:%ld%n", &l.m, &l.n, &l.k, &l.times, &used) != 4)
            fail("no layer:", text);
        struct layer *found = find_layer(l);
        for (int i = 0; i < 3; i++)
            seconds += (double)l.times * time_product(&found->products[i]);
        *flops += 6.0 * (double)(l.m * l.n * l.k * l.times);
    }
    return seconds;
}

/* ---- Registers. ---- */

/* Sums that do not wait for each other, in registers that the compiler knows nothing of:
 * it would keep one of many equal sums. */
enum { ROUNDS = 1 << 22, CHAINS = 24, FEW = 12 /* registers of AVX2 */ };

#define MULTIPLY(name, isa, vector, chains, term)                       \
    __attribute__((target(isa))) static void multiply_##name(void) {    \
        vector sum[chains] = {0}, a = {0};                              \
        for (int i = 0; i < ROUNDS; i++) {                              \
            _Pragma("GCC unroll 24") for (int c = 0; c < chains; c++) { \
                sum[c] = term;                                          \
                __asm__ volatile("" : "+v"(sum[c]), "+v"(a));           \
            }                                                           \
        }                                                               \
    }
MULTIPLY(bf16, "avx512f,avx512bf16", __m512, CHAINS,
         _mm512_dpbf16_ps(sum[c], (__m512bh)a, (__m512bh)a))
MULTIPLY(512, "avx512f", __m512, CHAINS, _mm512_fmadd_ps(a, a, sum[c]))
MULTIPLY(256, "avx2,fma", __m256, FEW, _mm256_fmadd_ps(a, a, sum[c]))

static double run_peak(double *flops) {
    const bool is_wide = __builtin_cpu_supports("avx512f");
    void (*multiply)(void) = is_bf16   ? multiply_bf16
                             : is_wide ? multiply_512
                                       : multiply_256;
    const int threads = omp_get_max_threads();
    const double begin = now();
#pragma omp parallel num_threads(threads)
    multiply();
    *flops += 2.0 * ROUNDS *
              (is_bf16   ? CHAINS * 32
               : is_wide ? CHAINS * 16
                         : FEW * 8) *
              threads;
    return now() - begin;
}

/* ---- Commands. ---- */

static void answer(const char *line) {
    char what[4096];
    int count;
    double seconds = 0, flops = 0;
    if (sscanf(line, "step %d %4095s", &count, what) != 2 || count < 1)
        fail("expected \"step COUNT WHAT\", found", line);
    for (int i = 0; i < count; i++)
        seconds +=
            strcmp(what, "peak") == 0 ? run_peak(&flops) : run_layers(what, &flops);
    printf("step=%.6f rate=%.6e\n", seconds / count, flops / seconds);
    fflush(stdout);
}

int main(int argc, char **argv) {
    char line[4200];
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "dtype=", 6) == 0)
            is_bf16 = strcmp(argv[i] + 6, "bf16") == 0;
        else if (strncmp(argv[i], "threads=", 8) == 0)
            omp_set_num_threads(atoi(argv[i] + 8));
        else
            fail("expected dtype= or threads=, found", argv[i]);
    need(dnnl_engine_create(&engine, dnnl_cpu, 0), "start");
    need(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "start");
    const dnnl_version_t *v = dnnl_version();
    printf("oneDNN %d.%d.%d, products alone\n", v->major, v->minor, v->patch);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        answer(line);
    return 0;
}
