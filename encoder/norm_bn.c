/* norm_bn - masked BatchNorm: a channel centred and scaled over the real rows of a batch.
 *
 * Forward, n real rows, m the momentum:
 *   mu = sum x / n;  v = sum (x - mu)^2 / n;  rstd = max(v, eps)^-1/2
 *   y = gain (x - mu) rstd + bias
 *   running mean = m rm + (1 - m) mu;  running var = m rv + (1 - m) v
 * Backward, q = gain dy, xh = (x - mu) rstd:
 *   dx = rstd (q - sum q / n - xh sum(q xh) / n); the last term is 0 where eps is the
 *   larger
 * Outside training mu, v are the running ones and dx = gain rstd dy.
 *
 * Regularised BatchNorm (norm_penalty) adds to the mean loss, a site at a time,
 *   P = lm sum_c (rm - mu)^2 + lv sum_c |rv - v|
 * with the running statistics as this batch has left them, held fixed:
 *   dx += targets (2 lm (mu - rm) / n + lv sign(v - rv) 2 (x - mu) / n) */
#include <math.h>

#include "encoder/channels.h"
#include "encoder/norm_batch.h"

enum { RUNNING_MEAN, RUNNING_VAR };
/* Channel arrays: what forward keeps, then room for sums and lines. */
enum { MEAN, VAR, RSTD, SUM, DOT, A, B, C, ARRAYS };

static const struct norm_buffer buffers[] = {
    {"running_mean", BUFFER_CHANNELS, PARAMETER_ZERO},
    {"running_var", BUFFER_CHANNELS, PARAMETER_ONE},
    {0},
};
/* TID, "training inference discrepancy", as the code of arXiv:2210.05153 has it: means
 * over channels of |running mean - mean| / deviation and |running deviation / deviation -
 * 1|, with the running statistics before the batch moves them. The penalty is P. */
enum { TID_MEAN, TID_VAR, PENALTY };
static const char *const figures[] = {"norm_tid_mean", "norm_tid_var", "norm_penalty",
                                      NULL};
static const struct norm_default defaults[] = {
    {NORM_MOMENTUM, 0.95},
    {NORM_SETTINGS, 0},
};

/* Mean and variance of the rows of x. */
static void measure(const struct norm *n, struct tensor x) {
    norm_batch_mean(n, norm_batch_array(n, MEAN), x);
    norm_batch_mean_square(n, norm_batch_array(n, VAR), x, norm_batch_array(n, MEAN));
}

static double floored(const struct norm *n, double var) {
    return fmax(var, (double)n->eps);
}

/* How far the statistics that an evaluation would have used are from the batch's. */
static void compare(const struct norm *n) {
    const double width = (double)n->width;
    double *f = n->figures;
    f[TID_MEAN] = f[TID_VAR] = 0;
    for (int64_t c = 0; c < n->width; c++) {
        const double mu = (double)norm_batch_array(n, MEAN)[c];
        const double v = floored(n, (double)norm_batch_array(n, VAR)[c]);
        const double rm = (double)norm_batch_buffer(n, RUNNING_MEAN)[c];
        const double rv = (double)norm_batch_buffer(n, RUNNING_VAR)[c];
        f[TID_MEAN] += fabs(rm - mu) / sqrt(v) / width;
        f[TID_VAR] += fabs(sqrt(rv / v) - 1) / width;
    }
}

/* Running statistics towards the batch's. */
static void follow(const struct norm *n) {
    const double keep = n->settings[NORM_MOMENTUM];
    double *penalty = &n->figures[PENALTY];
    *penalty = 0;
    for (int64_t c = 0; c < n->width; c++) {
        const double mu = (double)norm_batch_array(n, MEAN)[c];
        const double v = (double)norm_batch_array(n, VAR)[c];
        float *rm = norm_batch_buffer(n, RUNNING_MEAN) + c;
        float *rv = norm_batch_buffer(n, RUNNING_VAR) + c;
        *rm = (float)(keep * (double)*rm + (1 - keep) * mu);
        *rv = (float)(keep * (double)*rv + (1 - keep) * v);
        const double off = (double)*rm - mu, more = (double)*rv - v;
        *penalty += n->penalty[0] * off * off + n->penalty[1] * fabs(more);
    }
}

static float rstd_of(const struct norm *n, float var) {
    return (float)(1 / sqrt(floored(n, (double)var)));
}

static void running(const struct norm *n, float *origin, float *rstd) {
    for (int64_t c = 0; c < n->width; c++) {
        origin[c] = norm_batch_buffer(n, RUNNING_MEAN)[c];
        rstd[c] = rstd_of(n, norm_batch_buffer(n, RUNNING_VAR)[c]);
    }
}

static void forward(const struct norm *n, struct tensor y, struct tensor x,
                    struct norm_rows rows) {
    float *mean = norm_batch_array(n, MEAN), *rstd = norm_batch_array(n, RSTD);
    if (rows.batch) {
        measure(n, tensor_head(x, rows.real));
        compare(n);
        follow(n);
        for (int64_t c = 0; c < n->width; c++)
            rstd[c] = rstd_of(n, norm_batch_array(n, VAR)[c]);
    } else {
        running(n, mean, rstd);
    }
    norm_batch_apply(n, y, x, mean, rstd, norm_batch_array(n, A));
}

/* What the batch's own statistics and the penalty add to channel c's line. */
static void add_batch_terms(const struct norm *n, int64_t c, struct norm_rows rows) {
    const double mean = (double)norm_batch_array(n, MEAN)[c];
    const double var = (double)norm_batch_array(n, VAR)[c];
    const double rstd = (double)norm_batch_array(n, RSTD)[c];
    const double a = (double)norm_batch_array(n, A)[c], share = 1 / (double)rows.real;
    const double off = mean - (double)norm_batch_buffer(n, RUNNING_MEAN)[c];
    const double more = var - (double)norm_batch_buffer(n, RUNNING_VAR)[c];
    const double pull = 2 * rows.targets * share;
    double b = pull * n->penalty[1] * (more > 0 ? 1 : more < 0 ? -1 : 0);
    if (var > (double)n->eps)
        b -= a * rstd * (double)norm_batch_array(n, DOT)[c] * share;
    norm_batch_array(n, B)[c] = (float)b;
    norm_batch_array(n, C)[c] = (float)(pull * n->penalty[0] * off -
                                        a * (double)norm_batch_array(n, SUM)[c] * share);
}

static void backward(const struct norm *n, struct tensor dx, struct tensor dy,
                     struct tensor x, struct norm_rows rows) {
    struct channels_line line = {.a = norm_batch_array(n, A)};
    norm_batch_sums(n, norm_batch_array(n, DOT), norm_batch_array(n, SUM), dy, x,
                    norm_batch_array(n, MEAN), norm_batch_array(n, RSTD));
    if (rows.batch) {
        for (int64_t c = 0; c < n->width; c++)
            add_batch_terms(n, c, rows);
        line.b = norm_batch_array(n, B);
        line.c = norm_batch_array(n, C);
        line.origin = norm_batch_array(n, MEAN);
    }
    channels_combine(dx, dy, x, line, rows.real, n->team->threads);
}

const struct norm_kind norm_bn = {
    .name = "bn",
    .summary = "BatchNorm over real tokens, running statistics in evaluation",
    .source =
        "Ioffe, Szegedy 2015, arXiv:1502.03167; penalty: Wang et al. 2022, "
        "arXiv:2210.05153",
    .saved_per_channel = ARRAYS,
    .buffers = buffers,
    .figures = figures,
    .defaults = defaults,
    .forward = forward,
    .backward = backward,
    .running = running,
};
