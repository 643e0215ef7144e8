/* norm - the table of kinds, and the loops over rows that all of them share.
 *
 * A site is declared with its width, laid out for the most rows, and then runs one of two
 * ways: kinds that treat a row alone are called row by row, a contiguous part of the rows
 * a thread, with conversion to floats and back around them; kinds with statistics over a
 * batch get the whole tensor. Everything that names a kind in words (options,
 * config.json, --help, the error for a wrong name) walks NORM_KINDS. */
#include "encoder/norm.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "encoder/rows.h"
#include "encoder/vector.h"

#define NORM_ROW(word) &norm_##word,
const struct norm_kind *const norm_kinds[] = {NORM_KINDS(NORM_ROW) NULL};

const struct norm_kind *norm_find(const char *name) {
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        if (strcmp((*kind)->name, name) == 0)
            return *kind;
    return NULL;
}

/* ---- Settings. ---- */

/* In the order of enum norm_setting, as norm_stat's row has the names. */
static const struct {
    const char *name;
    double least, most;
    bool is_whole;
} settings[NORM_SETTINGS] = {
    [NORM_MOMENTUM] = {"momentum", 0, 1, false},
    [NORM_MOMENTUM_BACKWARD] = {"momentum_backward", 0, 1, false},
    [NORM_WARMUP] = {"warmup", 0, 1e7, true},
    [NORM_WINDOW] = {"window", 1, 64, true},
    [NORM_FILTER] = {"filter", 0, 1, true},
    [NORM_GROUPS] = {"groups", 0, 65536, true},
    [NORM_BWD_SCALE] = {"bwd_scale", 0, 1, true},
    [NORM_COMPENSATION_AFTER] = {"compensation_after", 0, 1e7, true},
};

static const struct norm_default *find_default(const struct norm_kind *kind, int i) {
    for (const struct norm_default *d = kind->defaults; d && d->setting < NORM_SETTINGS;
         d++)
        if ((int)d->setting == i)
            return d;
    return NULL;
}

/* Defaults that depend on the rest of the configuration. */
static double resolved(double value, const struct config *c) {
    if (value == NORM_DEFAULT_HEADS)
        return (double)c->num_attention_heads;
    if (value == NORM_DEFAULT_AFTER_WARMUP)
        return fmax(1000, c->arrangement.norm_stat[NORM_WARMUP]);
    return value;
}

static enum status check_setting(struct config *c, int i, struct error *err) {
    const struct norm_kind *kind = c->arrangement.norm;
    const struct norm_default *d = find_default(kind, i);
    double *value = &c->arrangement.norm_stat[i];
    if (!d)
        return isnan(*value)
                   ? OK
                   : error_set(err, ERR_USAGE, "norm_stat: norm=%s has no setting %s",
                               kind->name, settings[i].name);
    if (isnan(*value))
        *value = resolved(d->value, c);
    if (*value < settings[i].least || *value > settings[i].most ||
        (settings[i].is_whole && *value != floor(*value)))
        return error_set(
            err, ERR_USAGE, "norm_stat: %s: expected %s in [%g, %g], found %g",
            settings[i].name, settings[i].is_whole ? "a whole number" : "a number",
            settings[i].least, settings[i].most, *value);
    return OK;
}

enum status norm_check_settings(struct config *c, struct error *err) {
    for (int i = 0; i < NORM_SETTINGS; i++)
        TRY(check_setting(c, i, err));
    const double groups = c->arrangement.norm_stat[NORM_GROUPS];
    if (groups > 0 && fmod((double)c->hidden_size, groups) != 0)
        return error_set(err, ERR_USAGE,
                         "norm_stat: groups %g do not divide hidden_size %lld", groups,
                         (long long)c->hidden_size);
    return OK;
}

/* ---- A site. ---- */

struct norm_spec norm_main(const struct arrangement *a, bool final) {
    return (struct norm_spec){.kind = a->norm,
                              .affine = a->norm_affine,
                              .eps = final ? a->final_eps : a->norm_eps,
                              .arrangement = a};
}

struct norm_spec norm_aux(const struct arrangement *a) {
    return (struct norm_spec){
        .kind = a->norm_aux, .affine = AFFINE_BOTH, .eps = a->norm_eps, .arrangement = a};
}

static void declare_buffers(struct norm *n, struct parameters *p, const char *name) {
    const struct norm_buffer *rows = n->kind->buffers;
    for (int i = 0; rows && rows[i].name; i++) {
        assert(i < NORM_MOST_BUFFERS);
        const struct parameter_spec spec = {.init = rows[i].start, .is_buffer = true};
        const bool is_window = rows[i].shape == BUFFER_WINDOW;
        const int64_t channels = rows[i].shape == BUFFER_NUMBER ? 1 : n->width;
        n->buffers[i] = parameters_add(
            p, spec, is_window ? (int64_t)n->settings[NORM_WINDOW] : channels,
            is_window ? channels : 0, "%s.%s", name, rows[i].name);
    }
}

void norm_declare(struct norm *n, struct norm_spec spec, int64_t width, struct team *team,
                  struct parameters *p, const char *name) {
    const struct parameter_spec weight = {.init = PARAMETER_ONE, .is_head = spec.is_head};
    const struct parameter_spec bias = {.init = PARAMETER_ZERO, .is_head = spec.is_head};
    *n = (struct norm){0};
    if (norm_is_none(spec.kind))
        return;
    *n = (struct norm){.kind = spec.kind,
                       .settings = spec.arrangement->norm_stat,
                       .penalty = spec.arrangement->norm_penalty,
                       .width = width,
                       .eps = (float)spec.eps,
                       .team = team};
    if (spec.affine != AFFINE_NONE)
        n->weight = parameters_add(p, weight, width, 0, "%s.weight", name);
    if (spec.affine == AFFINE_BOTH)
        n->bias = parameters_add(p, bias, width, 0, "%s.bias", name);
    declare_buffers(n, p, name);
    team_reserve(team, NORM_SUMS * width, 3 * width);
}

void norm_layout(struct norm *n, struct arena *arena, int64_t max_rows) {
    if (!n->kind)
        return;
    n->saved = ARENA_TAKE(arena, float, max_rows * n->kind->saved_per_row);
    n->channels = ARENA_TAKE(arena, float, n->width * n->kind->saved_per_channel);
    if (n->kind->keeps_rows)
        n->kept = tensor_take(arena, DTYPE_F32, max_rows, n->width);
    n->figures = ARENA_TAKE(arena, double, NORM_MOST_FIGURES);
}

/* No rows have no statistics. */
static struct norm_rows checked(struct norm_rows rows) {
    rows.batch = rows.batch && rows.real > 0;
    return rows;
}

static void forward_rows(const struct norm *n, struct tensor y, struct tensor x,
                         bool again) {
#pragma omp parallel for schedule(static) num_threads(n->team->threads)
    for (int64_t r = 0; r < x.rows; r++) {
        float *room = team_room(n->team), *out = rows_open(y, r, room + n->width);
        const float *in = rows_read(x, r, room);
        if (again)
            norm_rebuild_row(n, out, in, r);
        else
            n->kind->forward_row(n, out, in, r);
        rows_store(y, r, out);
    }
}

void norm_rebuild(const struct norm *n, struct tensor y, struct tensor x) {
    forward_rows(n, y, x, true);
}

void norm_forward(const struct norm *n, struct tensor y, struct tensor x,
                  struct norm_rows rows) {
    if (norm_is_by_rows(n))
        forward_rows(n, y, x, false);
    else
        n->kind->forward(n, y, x, checked(rows));
}

static void backward_part(const struct norm *n, struct tensor dx, struct tensor dy,
                          struct tensor x, int part) {
    float *room = team_room(n->team);
    const struct norm_sums sums =
        norm_sums(n, team_sums(n->team, part, NORM_SUMS * n->width));
    for (int64_t r = team_first(x.rows, part); r < team_first(x.rows, part + 1); r++) {
        float *out = rows_open(dx, r, room);
        n->kind->backward_row(n, out, rows_read(dy, r, room + n->width),
                              rows_read(x, r, room + 2 * n->width), r, sums);
        rows_store(dx, r, out);
    }
}

static void backward_rows(const struct norm *n, struct tensor dx, struct tensor dy,
                          struct tensor x) {
#pragma omp parallel for schedule(static) num_threads(n->team->threads)
    for (int part = 0; part < team_parts(x.rows); part++)
        backward_part(n, dx, dy, x, part);
    norm_add(n, x.rows, 0);
}

void norm_backward(const struct norm *n, struct tensor dx, struct tensor dy,
                   struct tensor x, struct norm_rows rows) {
    if (norm_is_by_rows(n))
        backward_rows(n, dx, dy, x);
    else
        n->kind->backward(n, dx, dy, x, checked(rows));
}

void norm_add(const struct norm *n, int64_t rows, int64_t offset) {
    if (n->weight)
        team_add(n->team, rows, offset, n->weight->gradient, n->width);
    if (n->bias)
        team_add(n->team, rows, offset + n->width, n->bias->gradient, n->width);
}

HOT void norm_add_scaled(struct norm_sums sums, const float *dy, const float *x,
                         int64_t width, float rstd) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        sums.gain[c] += dy[c] * (x[c] * rstd);
    if (sums.bias)
#pragma omp simd
        for (int64_t c = 0; c < width; c++)
            sums.bias[c] += dy[c];
}
