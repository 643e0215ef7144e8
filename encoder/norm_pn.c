/* norm_pn - PowerNorm: a channel scaled by its quadratic mean over steps, not centred.
 *
 * With groups > 0 a token is first scaled group by group of its channels:
 *   xg = x (mean over the group of x^2 + eps)^-1/2
 * Then, with q = mean of xg^2 over the real rows of the batch, phi the running square, E
 * what backward remembers, t the step from 1, W the warm-up, af and ab the momenta:
 *   z = xg s;  s = (t <= W ? q + eps : phi + eps)^-1/2;  y = gain z + bias
 *   phi = t <= W ? phi (t - 1) / t + q / t : af phi + (1 - af) q
 *   g = gain dy;  gt = g - (1 - ab) E z;  dxg = gt s;  E += mean over real rows of gt z
 * s in backward is forward's, or with bwd_scale (q + eps)^-1/2 as the published code
 * has it after the warm-up. In E's recursion mean z^2 is capped at 1 / (1 - ab), where
 * all is forgotten: at twice that it would diverge on one odd batch. Outside training phi
 * stands for q. */
#include <math.h>

#include "encoder/channels.h"
#include "encoder/norm_batch.h"
#include "encoder/vector.h"

enum { PHI, EMA, STEPS };
enum { SQUARE, ORIGIN, SCALE, SUM, DOT, A, B, ARRAYS };

static const struct norm_buffer buffers[] = {
    {"running_phi", BUFFER_CHANNELS, PARAMETER_ONE},
    {"ema_gz", BUFFER_CHANNELS, PARAMETER_ZERO},
    {"running_steps", BUFFER_NUMBER, PARAMETER_ZERO},
    {0},
};
static const struct norm_default defaults[] = {
    {NORM_MOMENTUM, 0.9}, {NORM_MOMENTUM_BACKWARD, 0.9},
    {NORM_WARMUP, 8000},  {NORM_GROUPS, NORM_DEFAULT_HEADS},
    {NORM_BWD_SCALE, 0},  {NORM_SETTINGS, 0},
};

/* ---- A token's groups. ---- */

HOT static float group_rstd(const float *x, int64_t width, float eps) {
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t c = 0; c < width; c++)
        squares += x[c] * x[c];
    return 1 / __builtin_sqrtf(squares / (float)width + eps);
}

HOT static void scale_group(float *y, const float *x, int64_t width, float rstd) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        y[c] = x[c] * rstd;
}

/* dx = rstd (dxg - xg mean(dxg xg)). */
HOT static void group_backward(float *dx, const float *dxg, const float *xg,
                               int64_t width, float rstd) {
    float along = 0;
#pragma omp simd reduction(+ : along)
    for (int64_t c = 0; c < width; c++)
        along += dxg[c] * xg[c];
    along /= (float)width;
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        dx[c] = rstd * (dxg[c] - xg[c] * along);
}

static int64_t groups_of(const struct norm *n) {
    return (int64_t)n->settings[NORM_GROUPS];
}

/* x with its groups scaled: kept for backward, or x itself. */
static struct tensor grouped(const struct norm *n, struct tensor x) {
    return groups_of(n) ? tensor_head(n->kept, x.rows) : x;
}

static void scale_groups(const struct norm *n, struct tensor x) {
    const int64_t groups = groups_of(n), size = groups ? n->width / groups : 0;
#pragma omp parallel for schedule(static) num_threads(n->team->threads)
    for (int64_t i = 0; i < x.rows * groups; i++) {
        const float *from = tensor_floats(x) + i * size;
        scale_group(tensor_floats(n->kept) + i * size, from, size,
                    group_rstd(from, size, n->eps));
    }
}

/* RMSNorm's backward within each group; its rstd is computed again rather than kept. */
static void groups_backward(const struct norm *n, struct tensor dx, struct tensor x) {
    const int64_t groups = groups_of(n), size = groups ? n->width / groups : 0;
#pragma omp parallel for schedule(static) num_threads(n->team->threads)
    for (int64_t i = 0; i < x.rows * groups; i++) {
        float *d = tensor_floats(dx) + i * size;
        group_backward(d, d, tensor_floats(n->kept) + i * size, size,
                       group_rstd(tensor_floats(x) + i * size, size, n->eps));
    }
}

/* ---- Channels. ---- */

/* The batch's squares and what forward divides by; phi takes its step. */
static void follow(const struct norm *n, struct tensor xg) {
    const double t = norm_batch_count(norm_batch_buffer(n, STEPS));
    const bool warm = t > n->settings[NORM_WARMUP];
    const double keep = warm ? n->settings[NORM_MOMENTUM] : (t - 1) / t;
    float *square = norm_batch_array(n, SQUARE), *phi = norm_batch_buffer(n, PHI);
    norm_batch_mean_square(n, square, xg, NULL);
    for (int64_t c = 0; c < n->width; c++) {
        const double q = (double)square[c];
        const double used = warm ? (double)phi[c] : q;
        norm_batch_array(n, SCALE)[c] = (float)(1 / sqrt(used + (double)n->eps));
        phi[c] = (float)(keep * (double)phi[c] + (1 - keep) * q);
    }
}

static void running(const struct norm *n, float *origin, float *rstd) {
    const float *phi = norm_batch_buffer(n, PHI);
    for (int64_t c = 0; c < n->width; c++) {
        origin[c] = 0;
        rstd[c] = (float)(1 / sqrt((double)phi[c] + (double)n->eps));
    }
}

static void forward(const struct norm *n, struct tensor y, struct tensor x,
                    struct norm_rows rows) {
    const struct tensor xg = grouped(n, x);
    scale_groups(n, x);
    if (rows.batch)
        follow(n, tensor_head(xg, rows.real));
    else
        running(n, norm_batch_array(n, ORIGIN), norm_batch_array(n, SCALE));
    norm_batch_apply(n, y, xg, NULL, norm_batch_array(n, SCALE), norm_batch_array(n, A));
}

/* Channel c's line of dxg, and E's step. */
static void take_step(const struct norm *n, int64_t c, int64_t real) {
    const double lost = 1 - n->settings[NORM_MOMENTUM_BACKWARD], eps = (double)n->eps;
    const double s = (double)norm_batch_array(n, SCALE)[c];
    const double q = (double)norm_batch_array(n, SQUARE)[c];
    const double gain = norm_batch_gain(n, c), old = (double)norm_batch_buffer(n, EMA)[c];
    const double back = n->settings[NORM_BWD_SCALE] ? 1 / sqrt(q + eps) : s;
    const double gz = gain * (double)norm_batch_array(n, DOT)[c] / (double)real;
    norm_batch_array(n, A)[c] = (float)(gain * back);
    norm_batch_array(n, B)[c] = (float)(-lost * old * s * back);
    norm_batch_buffer(n, EMA)[c] = (float)(old + gz - fmin(lost * q * s * s, 1) * old);
}

static void backward(const struct norm *n, struct tensor dx, struct tensor dy,
                     struct tensor x, struct norm_rows rows) {
    const struct tensor xg = grouped(n, x);
    struct channels_line line = {.a = norm_batch_array(n, A)};
    norm_batch_sums(n, norm_batch_array(n, DOT), norm_batch_array(n, SUM), dy, xg, NULL,
                    norm_batch_array(n, SCALE));
    if (rows.batch) {
        for (int64_t c = 0; c < n->width; c++)
            take_step(n, c, rows.real);
        line.b = norm_batch_array(n, B);
    }
    channels_combine(dx, dy, xg, line, rows.real, n->team->threads);
    groups_backward(n, dx, x);
}

const struct norm_kind norm_pn = {
    .name = "pn",
    .summary = "PowerNorm: quadratic mean a channel, over steps",
    .source = "Shen et al. 2020, arXiv:2003.07845, algorithms 1 and 2",
    .saved_per_channel = ARRAYS,
    .keeps_rows = true,
    .buffers = buffers,
    .defaults = defaults,
    .forward = forward,
    .backward = backward,
    .running = running,
};
