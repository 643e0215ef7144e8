/* channels - a line of its own for each channel, over all rows.
 *
 * Every forward of such a norm is a line a channel, y = a x + b; every backward one of
 * two variables, dx = a dy + b x + c. What differs between them is how a, b and c are
 * found. */
#include "encoder/channels.h"

#include "encoder/rows.h"
#include "encoder/vector.h"

HOT static void map_row(float *y, const float *x, const float *origin, const float *scale,
                        const float *shift, int64_t width) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        y[c] = (x[c] - (origin ? origin[c] : 0)) * (scale ? scale[c] : 1) +
               (shift ? shift[c] : 0);
}

HOT static void combine_row(float *dx, const float *dy, const float *x,
                            struct channels_line l, int64_t width) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        dx[c] = l.a[c] * dy[c] +
                (l.b ? l.b[c] * (x[c] - (l.origin ? l.origin[c] : 0)) : 0) +
                (l.c ? l.c[c] : 0);
}

void channels_map(struct tensor y, struct tensor x, const float *origin,
                  const float *scale, const float *shift, const struct team *team) {
#pragma omp parallel for schedule(static) num_threads(team->threads)
    for (int64_t r = 0; r < x.rows; r++) {
        float *row = rows_open(y, r, team_room(team));
        map_row(row, rows_at(x, r), origin, scale, shift, x.columns);
        rows_store(y, r, row);
    }
}

void channels_combine(struct tensor dx, struct tensor dy, struct tensor x,
                      struct channels_line line, int64_t real, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t r = 0; r < real; r++)
        combine_row(rows_at(dx, r), rows_at(dy, r), rows_at(x, r), line, x.columns);
    rows_clear(dx, real);
}
