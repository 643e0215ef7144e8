/* norm_un - Unified Normalization: a channel scaled by its quadratic mean over a short
 * window of steps, not centred.
 *
 * With q = mean of x^2 over the real rows of the batch, Q the last M of them, `run` their
 * running mean, m and G the same of backward, t the step from 1, W the warm-up, mu the
 * momentum of either direction:
 *   skip = M = 1, or with filter and t >= W: some channel's AM(Q) - GM(Q) > M variance of
 *          all sqrt(Q) before this step (unbiased); then q leaves the window again, where
 *          `run` takes its place
 *   s2 = t <= M or t < W or skip ? q : GM(Q)
 *   z = x s;  s = (s2 + eps)^-1/2;  y = gain z + bias;  run = mu run + (1 - mu) s2
 *   r = t <= compensation_after or skip ? 1 : clip(sqrt((s2 + eps) / (run before + eps)),
 *       1/5, 5)
 * Backward:
 *   g = gain r dy;  k = mean over real rows of g z;  G takes skip ? m : k
 *   kb = t <= M or t < W or skip ? k : mean of G;  m = mu m + (1 - mu) kb
 *   dx = (g - (skip ? kb : m) z) s;  dgain = sum r dy z
 * r is in backward alone, as published. Outside training s2 = run and r = 1. */
#include <math.h>
#include <string.h>

#include "encoder/channels.h"
#include "encoder/norm_batch.h"

enum { RUN, EMA, WINDOW, EMA_WINDOW, STEPS, SKIPS };
enum { SQUARE, ORIGIN, SCALE, RATIO, SUM, DOT, A, B, ARRAYS };

static const struct norm_buffer buffers[] = {
    {"running_square", BUFFER_CHANNELS, PARAMETER_ONE},
    {"ema_gz", BUFFER_CHANNELS, PARAMETER_ZERO},
    {"running_window", BUFFER_WINDOW, PARAMETER_ZERO},
    {"ema_window", BUFFER_WINDOW, PARAMETER_ZERO},
    {"running_steps", BUFFER_NUMBER, PARAMETER_ZERO},
    {"running_skips", BUFFER_NUMBER, PARAMETER_ZERO},
    {0},
};
enum { SKIPPED }; /* this step's batch stayed out of the window */
static const char *const figures[] = {"norm_skipped", NULL};
static const struct norm_default defaults[] = {
    {NORM_MOMENTUM, 0.9},
    {NORM_MOMENTUM_BACKWARD, 0.9},
    {NORM_WARMUP, 4000},
    {NORM_WINDOW, 4},
    {NORM_COMPENSATION_AFTER, NORM_DEFAULT_AFTER_WARMUP},
    {NORM_FILTER, 0},
    {NORM_SETTINGS, 0},
};

static int64_t window_of(const struct norm *n) {
    return (int64_t)n->settings[NORM_WINDOW];
}

/* Step t takes its own statistic, not the window's. */
static bool is_alone(const struct norm *n) {
    const double t = (double)norm_batch_buffer(n, STEPS)[0];
    return t <= n->settings[NORM_WINDOW] || t < n->settings[NORM_WARMUP] ||
           n->figures[SKIPPED] != 0;
}

/* Row 0 of a window is the newest: all move down by one. */
static void push(const struct norm *n, float *window, const float *newest) {
    memmove(window + n->width, window,
            (size_t)((window_of(n) - 1) * n->width) * sizeof *window);
    memcpy(window, newest, (size_t)n->width * sizeof *window);
}

/* ---- Forward. ---- */

/* Of all square roots in the window, unbiased. */
static double window_variance(const struct norm *n) {
    const float *window = norm_batch_buffer(n, WINDOW);
    const int64_t count = window_of(n) * n->width;
    double mean = 0, square = 0;
    for (int64_t i = 0; i < count; i++)
        mean += sqrt((double)window[i]) / (double)count;
    for (int64_t i = 0; i < count; i++)
        square += pow(sqrt((double)window[i]) - mean, 2);
    return count > 1 ? square / (double)(count - 1) : 0;
}

/* Arithmetic or geometric mean of channel c over the window; a channel that was all zero
 * counts as the smallest number. */
static double arithmetic(const struct norm *n, const float *window, int64_t c) {
    double sum = 0;
    for (int64_t i = 0; i < window_of(n); i++)
        sum += (double)window[i * n->width + c];
    return sum / (double)window_of(n);
}

static double geometric(const struct norm *n, int64_t c) {
    double sum = 0;
    for (int64_t i = 0; i < window_of(n); i++)
        sum += log(fmax((double)norm_batch_buffer(n, WINDOW)[i * n->width + c], 1e-30));
    return exp(sum / (double)window_of(n));
}

/* Is the batch just pushed unlike the window that was before it? */
static bool is_outlier(const struct norm *n, double variance_before) {
    if (!n->settings[NORM_FILTER] ||
        (double)norm_batch_buffer(n, STEPS)[0] < n->settings[NORM_WARMUP])
        return false;
    const double most = n->settings[NORM_WINDOW] * variance_before;
    for (int64_t c = 0; c < n->width; c++)
        if (arithmetic(n, norm_batch_buffer(n, WINDOW), c) - geometric(n, c) > most)
            return true;
    return false;
}

/* Takes the batch into the window, or leaves it out. */
static void take_batch(const struct norm *n, struct tensor x) {
    float *window = norm_batch_buffer(n, WINDOW), *q = norm_batch_array(n, SQUARE);
    const double before = n->settings[NORM_FILTER] ? window_variance(n) : 0;
    norm_batch_count(norm_batch_buffer(n, STEPS));
    norm_batch_mean_square(n, q, x, NULL);
    push(n, window, q);
    const bool is_out = is_outlier(n, before);
    if (is_out) {
        memcpy(window, norm_batch_buffer(n, RUN), (size_t)n->width * sizeof *window);
        norm_batch_count(norm_batch_buffer(n, SKIPS));
    }
    n->figures[SKIPPED] = is_out || window_of(n) == 1;
}

/* What forward divides by, backward's r, and the running square's step. r looks at `run`
 * before this step moves it, so the order of the lines matters. */
static void follow(const struct norm *n) {
    const double keep = n->settings[NORM_MOMENTUM], eps = (double)n->eps;
    const bool compensates =
        n->figures[SKIPPED] == 0 &&
        (double)norm_batch_buffer(n, STEPS)[0] > n->settings[NORM_COMPENSATION_AFTER];
    float *run = norm_batch_buffer(n, RUN);
    for (int64_t c = 0; c < n->width; c++) {
        const double s2 =
            is_alone(n) ? (double)norm_batch_array(n, SQUARE)[c] : geometric(n, c);
        const double r = sqrt((s2 + eps) / ((double)run[c] + eps));
        norm_batch_array(n, SCALE)[c] = (float)(1 / sqrt(s2 + eps));
        norm_batch_array(n, RATIO)[c] =
            compensates ? (float)fmin(fmax(r, 1.0 / 5), 5) : 1;
        run[c] = (float)(keep * (double)run[c] + (1 - keep) * s2);
    }
}

static void running(const struct norm *n, float *origin, float *rstd) {
    const float *run = norm_batch_buffer(n, RUN);
    for (int64_t c = 0; c < n->width; c++) {
        origin[c] = 0;
        rstd[c] = (float)(1 / sqrt((double)run[c] + (double)n->eps));
    }
}

static void forward(const struct norm *n, struct tensor y, struct tensor x,
                    struct norm_rows rows) {
    if (rows.batch) {
        take_batch(n, tensor_head(x, rows.real));
        follow(n);
    } else {
        running(n, norm_batch_array(n, ORIGIN), norm_batch_array(n, SCALE));
        for (int64_t c = 0; c < n->width; c++)
            norm_batch_array(n, RATIO)[c] = 1;
    }
    norm_batch_apply(n, y, x, NULL, norm_batch_array(n, SCALE), norm_batch_array(n, A));
}

/* ---- Backward. ---- */

/* The batch's k into the window, as array B. */
static void push_slopes(const struct norm *n, int64_t real) {
    float *k = norm_batch_array(n, B);
    const bool is_out = n->figures[SKIPPED] != 0;
    for (int64_t c = 0; c < n->width; c++)
        k[c] = (float)(norm_batch_gain(n, c) * (double)norm_batch_array(n, DOT)[c] /
                       (double)real);
    push(n, norm_batch_buffer(n, EMA_WINDOW), is_out ? norm_batch_buffer(n, EMA) : k);
}

/* Channel c's line of dx, and m's step. */
static void take_step(const struct norm *n, int64_t c) {
    const double keep = n->settings[NORM_MOMENTUM_BACKWARD];
    const double s = (double)norm_batch_array(n, SCALE)[c];
    const double kb = is_alone(n) ? (double)norm_batch_array(n, B)[c]
                                  : arithmetic(n, norm_batch_buffer(n, EMA_WINDOW), c);
    const double m = keep * (double)norm_batch_buffer(n, EMA)[c] + (1 - keep) * kb;
    norm_batch_buffer(n, EMA)[c] = (float)m;
    norm_batch_array(n, B)[c] = (float)(-(n->figures[SKIPPED] != 0 ? kb : m) * s * s);
}

static void backward(const struct norm *n, struct tensor dx, struct tensor dy,
                     struct tensor x, struct norm_rows rows) {
    struct channels_line line = {.a = norm_batch_array(n, A)};
    float *a = norm_batch_array(n, A), *scale = norm_batch_array(n, B);
    for (int64_t c = 0; c < n->width; c++) {
        scale[c] = norm_batch_array(n, RATIO)[c] * norm_batch_array(n, SCALE)[c];
        a[c] = (float)norm_batch_gain(n, c) * scale[c];
    }
    norm_batch_sums(n, norm_batch_array(n, DOT), norm_batch_array(n, SUM), dy, x, NULL,
                    scale);
    if (rows.batch) {
        push_slopes(n, rows.real);
        for (int64_t c = 0; c < n->width; c++)
            take_step(n, c);
        line.b = norm_batch_array(n, B);
    }
    channels_combine(dx, dy, x, line, rows.real, n->team->threads);
}

const struct norm_kind norm_un = {
    .name = "un",
    .summary = "Unified Normalization: quadratic mean a channel, over a short window",
    .source = "Yang et al. 2022, arXiv:2208.01313",
    .saved_per_channel = ARRAYS,
    .buffers = buffers,
    .figures = figures,
    .defaults = defaults,
    .forward = forward,
    .backward = backward,
    .running = running,
};
