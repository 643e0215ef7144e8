/* middle - GELU or head scales, and a norm, in one pass over rows.
 *
 * Backward of c = N(gelu(x)) with x alone kept: gelu and its slope once more, the norm's
 * backward, times the slope; and c again for the weight gradient of the matrix behind, in
 * the row that is in the cache anyway. Keeping c too would cost F floats a token and
 * layer. */
#include "encoder/middle.h"

#include "encoder/activation.h"
#include "encoder/rows.h"
#include "encoder/vector.h"

enum { MID = 0, BIAS = NORM_SUMS, SUMS, ROOM = 5 /* all in widths */ };

void middle_reserve(struct team *team, int64_t width) {
    team_reserve(team, SUMS * width, ROOM * width);
}

static void forward_row(const struct middle *m, struct tensor c, struct tensor x,
                        int64_t n) {
    const int64_t width = x.columns;
    float *room = team_room(m->team), *out = rows_open(c, n, room + width);
    const float *in = rows_read(x, n, room);
    if (m->gelu)
        in = activation_gelu_row(out, in, width);
    if (m->mid)
        m->mid->kind->forward_row(m->mid, out, in, n);
    rows_store(c, n, out);
}

void middle_forward(const struct middle *m, struct tensor c, struct tensor x) {
#pragma omp parallel for schedule(static) num_threads(m->team->threads)
    for (int64_t n = 0; n < x.rows; n++)
        forward_row(m, c, x, n);
}

/* dx *= slope; sum += dx. */
HOT static void slope_row(float *dx, const float *slope, float *sum, int64_t width) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++) {
        dx[c] *= slope[c];
        sum[c] += dx[c];
    }
}

/* What the norm read, from x: in `to` or x itself; also gelu's slope. */
static const float *norm_input(const struct middle *m, float *to, float *slope,
                               const float *x, int64_t width) {
    if (m->gelu)
        return activation_gelu_slope_row(to, slope, x, width);
    return x;
}

struct gradients {
    struct tensor dx, c, x;
};

static void backward_row(const struct middle *m, const struct gradients *g, int64_t n,
                         float *sums) {
    const int64_t width = g->x.columns;
    float *room = team_room(m->team), *slope = room + width;
    float *dx = rows_open(g->dx, n, room + 2 * width);
    const float *x = rows_read(g->x, n, room + 3 * width);
    const float *activated = norm_input(m, room, slope, x, width);
    const float *dc = rows_read(g->dx, n, dx);
    if (m->mid)
        m->mid->kind->backward_row(m->mid, dx, dc, activated, n,
                                   norm_sums(m->mid, sums + MID * width));
    if (m->gelu)
        slope_row(dx, slope, sums + BIAS * width, width);
    rows_store(g->dx, n, dx);
    if (m->mid && g->c.data)
        norm_rebuild_row(m->mid, room, activated, n);
    if (g->c.data)
        rows_store(g->c, n, m->mid ? room : activated);
}

void middle_backward(const struct middle *m, struct tensor dx, struct tensor c,
                     struct tensor x, float *dbias) {
    const struct gradients g = {dx, c, x};
    const int64_t rows = x.rows, width = x.columns;
#pragma omp parallel for schedule(static) num_threads(m->team->threads)
    for (int part = 0; part < team_parts(rows); part++) {
        float *sums = team_sums(m->team, part, SUMS * width);
        for (int64_t n = team_first(rows, part); n < team_first(rows, part + 1); n++)
            backward_row(m, &g, n, sums);
    }
    if (m->mid)
        norm_add(m->mid, rows, MID * width);
    if (m->gelu && dbias)
        team_add(m->team, rows, BIAS * width, dbias, width);
}
