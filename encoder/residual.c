/* residual - the end of a sublayer in one pass over rows, and the way back.
 *
 * A row of a thread goes through all steps while it is in the first cache: loaded once as
 * floats, whatever the tensors hold, stored once. Backward's sums over rows (of gains,
 * biases, head scales) are kept a part of the rows each and added part by part in order
 * (team.h), so that they have the same bits for any number of threads. */
#include "encoder/residual.h"

#include "encoder/head_scale.h"
#include "encoder/rows.h"
#include "encoder/vector.h"

/* ---- Rows of floats. ---- */

HOT static void add_row(float *v, const float *x, const float *z, const float *bottom,
                        const float *gain, float alpha, int64_t width) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        v[c] = alpha * (gain ? gain[c] * x[c] : x[c]) + z[c] + (bottom ? bottom[c] : 0);
}

HOT static void add_scaled(float *y, const float *x, float factor, int64_t width) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        y[c] += factor * x[c];
}

HOT static void branch_row(float *dz, const float *dv, const float *dsecond, float kappa,
                           int64_t width) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        dz[c] = dv[c] + (dsecond ? kappa * dsecond[c] : 0);
}

HOT static void skip_row(float *dx, const float *dv, const float *dbottom,
                         const float *gain, float alpha, int64_t width) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        dx[c] += alpha * (gain ? gain[c] * dv[c] : dv[c]) + (dbottom ? dbottom[c] : 0);
}

HOT static void add_product(float *sum, const float *x, const float *y, float factor,
                            int64_t width) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        sum[c] += factor * (x[c] * y[c]);
}

static const float *value_of(const struct parameter *p) { return p ? p->value : NULL; }

static const float *row_of(struct tensor t, int64_t n) {
    return t.data ? rows_at(t, n) : NULL;
}

static void drop(const struct residual *r, float *z, int64_t width, int64_t n) {
    dropout_row(z, width, r->rate, r->stream, r->names.sequence[n], r->names.token[n], 0);
}

/* ---- Forward. ---- */

enum { ROOM = 5 /* rows of a thread */ };

void residual_reserve(struct team *team, int64_t width) {
    team_reserve(team, 7 * width, ROOM * width);
}

static void forward_row(const struct residual *r, struct tensor y, struct tensor v,
                        struct tensor x, struct tensor z, struct tensor bottom,
                        struct tensor second, int64_t n) {
    const int64_t width = z.columns;
    float *branch = team_room(r->team), *room = branch + width;
    rows_load(branch, z, n);
    if (r->head_scale)
        head_scale_row(branch, branch, r->head_scale, width);
    if (r->out)
        r->out->kind->forward_row(r->out, branch, branch, n);
    drop(r, branch, width, n);
    if (r->center)
        rows_center(branch, width, branch, width);
    if (second.data)
        add_scaled(rows_at(second, n), branch, r->kappa, width);
    float *sum = rows_open(v, n, room);
    add_row(sum, rows_read(x, n, room + width), branch,
            bottom.data ? rows_read(bottom, n, room + 2 * width) : NULL,
            value_of(r->gain), r->alpha, width);
    rows_store(v, n, sum);
    if (!r->post)
        return;
    float *normed = rows_open(y, n, room + width);
    r->post->kind->forward_row(r->post, normed, sum, n);
    rows_store(y, n, normed);
}

void residual_forward(const struct residual *r, struct tensor y, struct tensor v,
                      struct tensor x, struct tensor z, struct tensor bottom,
                      struct tensor second) {
#pragma omp parallel for schedule(static) num_threads(r->team->threads)
    for (int64_t n = 0; n < z.rows; n++)
        forward_row(r, y, v, x, z, bottom, second, n);
}

/* ---- Backward. ---- */

/* Where the sums of a part begin, in widths. */
enum { POST = 0, OUT = 2, GAIN = 4, HEAD_SCALE, BIAS, SUMS };

struct gradients {
    struct tensor dv, dz, v, x, z, dsecond, dbottom;
};

/* Through the stream's side: dv, the gain's gradient, the bottom's copy. */
static void stream_row(const struct residual *r, const struct gradients *g, int64_t n,
                       float *sums, float *room) {
    const int64_t width = g->dv.columns;
    float *dv = rows_at(g->dv, n);
    if (r->post)
        r->post->kind->backward_row(r->post, dv, dv, rows_read(g->v, n, room), n,
                                    norm_sums(r->post, sums + POST * width));
    if (r->gain)
        add_product(sums + GAIN * width, dv, rows_read(g->x, n, room), r->alpha, width);
    if (g->dbottom.data)
        rows_store(g->dbottom, n, dv);
}

/* Through the branch's side: dz in front of dropout, out and head_scale. */
static void branch_row_backward(const struct residual *r, const struct gradients *g,
                                int64_t n, float *sums, float *room) {
    const int64_t width = g->dv.columns;
    const bool reads = r->out || r->head_scale;
    float *dz = rows_open(g->dz, n, room);
    const float *z = reads ? rows_read(g->z, n, room + width) : NULL, *normed = z;
    branch_row(dz, rows_at(g->dv, n), row_of(g->dsecond, n), r->kappa, width);
    if (r->center)
        rows_center(dz, width, dz, width);
    drop(r, dz, width, n);
    if (r->out && r->head_scale)
        normed = head_scale_row(room + 2 * width, z, r->head_scale, width);
    if (r->out)
        r->out->kind->backward_row(r->out, dz, dz, normed, n,
                                   norm_sums(r->out, sums + OUT * width));
    if (r->head_scale) {
        add_product(sums + HEAD_SCALE * width, dz, z, 1, width);
        head_scale_row(dz, dz, r->head_scale, width);
    }
    add_scaled(sums + BIAS * width, dz, 1, width);
    rows_store(g->dz, n, dz);
}

static void backward_part(const struct residual *r, const struct gradients *g, int part) {
    const int64_t rows = g->dv.rows;
    float *sums = team_sums(r->team, part, SUMS * g->dv.columns);
    float *room = team_room(r->team);
    for (int64_t n = team_first(rows, part); n < team_first(rows, part + 1); n++) {
        stream_row(r, g, n, sums, room);
        branch_row_backward(r, g, n, sums, room);
    }
}

void residual_branch_backward(const struct residual *r, struct tensor dv,
                              struct tensor dz, struct tensor v, struct tensor x,
                              struct tensor z, struct tensor dsecond,
                              struct tensor dbottom, float *dbias) {
    const struct gradients g = {dv, dz, v, x, z, dsecond, dbottom};
    const int64_t width = dv.columns;
#pragma omp parallel for schedule(static) num_threads(r->team->threads)
    for (int part = 0; part < team_parts(dv.rows); part++)
        backward_part(r, &g, part);
    if (r->post)
        norm_add(r->post, dv.rows, POST * width);
    if (r->out)
        norm_add(r->out, dv.rows, OUT * width);
    if (r->gain)
        team_add(r->team, dv.rows, GAIN * width, r->gain->gradient, width);
    if (r->head_scale)
        head_scale_add(r->head_scale, r->team, dv.rows, HEAD_SCALE * width, width);
    team_add(r->team, dv.rows, BIAS * width, dbias, width);
}

static void skip_part(const struct residual *r, const struct norm *pre, struct tensor dx,
                      struct tensor x, struct tensor dv, struct tensor dbottom,
                      bool picks, int part) {
    const int64_t width = dx.columns;
    float *room = team_room(r->team);
    float *sums = pre ? team_sums(r->team, part, NORM_SUMS * width) : NULL;
    for (int64_t n = team_first(dx.rows, part); n < team_first(dx.rows, part + 1); n++) {
        float *row = rows_at(dx, n);
        if (pre)
            pre->kind->backward_row(pre, row, row, rows_read(x, n, room), n,
                                    norm_sums(pre, sums));
        if (!picks && n < dv.rows)
            skip_row(row, rows_at(dv, n), row_of(dbottom, n), value_of(r->gain), r->alpha,
                     width);
    }
}

void residual_skip_backward(const struct residual *r, const struct norm *pre,
                            struct tensor dx, struct tensor x, struct tensor dv,
                            struct tensor dbottom, const int32_t *pick) {
#pragma omp parallel for schedule(static) num_threads(r->team->threads)
    for (int part = 0; part < team_parts(dx.rows); part++)
        skip_part(r, pre, dx, x, dv, dbottom, pick != NULL, part);
    if (pre)
        norm_add(pre, dx.rows, 0);
#pragma omp parallel for schedule(static) num_threads(r->team->threads)
    for (int64_t n = 0; n < (pick ? dv.rows : 0); n++)
        skip_row(rows_at(dx, pick[n]), rows_at(dv, n), row_of(dbottom, n),
                 value_of(r->gain), r->alpha, dx.columns);
}
