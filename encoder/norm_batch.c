/* norm_batch - what the norms with statistics over a batch share.
 *
 * A batch here is what one forward sees: with accumulation the statistics are a
 * micro-batch's. Sums go down the columns over the real rows only, in f32 blocks of 256
 * rows (columns.h); a variance is taken about the mean in a second pass, as E x^2 -
 * mean^2 loses its digits. */
#include "encoder/norm_batch.h"

#include <string.h>

#include "encoder/channels.h"
#include "encoder/columns.h"

static void clear(const struct norm *n, float *sums) {
    memset(sums, 0, (size_t)n->width * sizeof *sums);
}

static void divide(const struct norm *n, float *sums, int64_t rows) {
    for (int64_t c = 0; c < n->width; c++)
        sums[c] /= (float)rows;
}

void norm_batch_mean(const struct norm *n, float *mean, struct tensor x) {
    clear(n, mean);
    columns_sum(mean, x, n->team->threads);
    divide(n, mean, x.rows);
}

void norm_batch_mean_square(const struct norm *n, float *mean, struct tensor x,
                            const float *origin) {
    clear(n, mean);
    if (origin)
        columns_squares_from(mean, x, origin, n->team->threads);
    else
        columns_dot(mean, x, x, n->team->threads);
    divide(n, mean, x.rows);
}

void norm_batch_apply(const struct norm *n, struct tensor y, struct tensor x,
                      const float *origin, const float *scale, float *a) {
    for (int64_t c = 0; c < n->width; c++)
        a[c] = (float)norm_batch_gain(n, c) * scale[c];
    channels_map(y, x, origin, a, n->bias ? n->bias->value : NULL, n->team);
}

void norm_batch_sums(const struct norm *n, float *dgain, float *dbias, struct tensor dy,
                     struct tensor x, const float *origin, const float *scale) {
    clear(n, dgain);
    clear(n, dbias);
    columns_sum(dbias, dy, n->team->threads);
    columns_dot_from(dgain, dy, x, origin, n->team->threads);
    for (int64_t c = 0; c < n->width; c++) {
        dgain[c] *= scale[c];
        if (n->weight)
            n->weight->gradient[c] += dgain[c];
        if (n->bias)
            n->bias->gradient[c] += dbias[c];
    }
}

double norm_batch_count(float *steps) {
    *steps += 1;
    return (double)*steps;
}
