/* reference_norm - the norms of the reference, in double precision and plain loops.
 *
 * A new kind of norm needs no formula here: own_forward() takes its own forward, and
 * finite differences still check its backward. A formula makes the check independent. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/reference_run.h"

static bool takes_batch(const struct run *u, const struct site *s) {
    return s->kind->buffers && u->pass.train && !u->pass.freeze_statistics;
}

static const double *buffer(const struct run *u, const struct site *s, const char *name) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s", s->name, name);
    return reference_get(u->r, s->layer, full);
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

/* RMSNorm of a row and minus its sum, which is left out. */
static void complete_rows(double *y, const double *x, double eps, int64_t n,
                          int64_t width) {
    for (int64_t i = 0; i < n; i++, x += width, y += width) {
        double sum = 0, square = 0;
        for (int64_t c = 0; c < width; c++) {
            sum += x[c];
            square += x[c] * x[c];
        }
        const double mean = (square + sum * sum) / (double)(width + 1);
        for (int64_t c = 0; c < width; c++)
            y[c] = x[c] / sqrt(mean + eps);
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

static const char *const formulas[] = {"ln", "rms", "crms", "bn", "pn", "un"};
enum { LN, RMS, CRMS, BN, FORMULAS = sizeof formulas / sizeof *formulas };

/* The kind's place in `formulas`, FORMULAS when it has none. */
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

void reference_normalise(struct run *u, double *y, const double *x, struct site s,
                         int64_t n, int64_t width) {
    const struct pair p = reference_get_pair(u->r, s.layer, s.name);
    const int formula = formula_of(s.kind);
    if (formula <= RMS)
        scale_rows(y, x, formula == LN, s.eps, n, width);
    else if (formula == CRMS)
        complete_rows(y, x, s.eps, n, width);
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
