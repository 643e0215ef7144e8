/* adamw - gradient norm and update, over the blocks that hold all parameters.
 *
 * One pass reads weight, gradient and two moments and writes three of them: 28 bytes a
 * parameter, which is all that it costs; the arithmetic hides behind the memory. So the
 * mean over targets and the clipping come as one factor into this pass instead of a pass
 * of their own. The blocks are cut into 256 parts whatever the threads are, for the same
 * bits; weights are f32 also where products are bf16. */
#include "encoder/adamw.h"

#include <math.h>
#include <string.h>

#include "encoder/scattered.h"
#include "encoder/vector.h"

enum { PARTS = 256 }; /* sums of the norm: the same for any number of threads */

HOT static double sum_of_squares(const float *g, size_t count) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < count; i++)
        sum += (double)g[i] * (double)g[i];
    return sum;
}

/* Elements begin..end (of the blocks) as far as they lie in `row`, counted from its
 * first; empty when none does. */
struct range {
    size_t first, last;
};

static struct range range_of(const struct parameter *row, size_t begin, size_t end) {
    const size_t first = begin > row->offset ? begin - row->offset : 0;
    const size_t last = end > row->offset ? end - row->offset : 0;
    return (struct range){first, last < row->count ? last : row->count};
}

/* Cuts off what is to be treated alike: all, or a row of a scattered table. */
static struct range next_of(const struct parameter *row, struct range *left) {
    struct range next = *left;
    if (row->is_scattered) {
        const size_t width = (size_t)row->shape[1];
        const size_t end = (left->first / width + 1) * width;
        next.last = end < left->last ? end : left->last;
    }
    left->first = next.last;
    return next;
}

/* A gradient of zeros is neither read nor touched. */
static bool is_zero(const struct parameter *row, struct range r) {
    return row->is_scattered && !scattered_has(row, (int64_t)r.first / row->shape[1]);
}

static double part_of_squares(const struct parameter *row, struct range left) {
    double sum = 0;
    while (left.first < left.last) {
        const struct range r = next_of(row, &left);
        if (!is_zero(row, r))
            sum += sum_of_squares(row->gradient + r.first, r.last - r.first);
    }
    return sum;
}

/* Squares of 10^8 gradients span more than f32 can add up: double, and parts. */
double adamw_gradient_norm(const struct parameters *p, double scale, int threads) {
    double parts[PARTS] = {0}, sum = 0;
    parameters_settle_all(p);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (size_t i = 0; i < PARTS; i++) {
        const size_t begin = p->total * i / PARTS, end = p->total * (i + 1) / PARTS;
        for (int r = 0; r < p->count; r++)
            if (!p->rows[r]->is_buffer)
                parts[i] += part_of_squares(p->rows[r], range_of(p->rows[r], begin, end));
    }
    for (int i = 0; i < PARTS; i++)
        sum += parts[i];
    return scale * sqrt(sum);
}

/* The rule's numbers for one step, in the type of the loop. */
struct step {
    float scale, beta1, beta2, one_minus_beta1, one_minus_beta2;
    float rate;       /* learning rate / (1 - beta1^t) */
    float correction; /* 1 / sqrt(1 - beta2^t) */
    float epsilon, shrink;
};

static struct step step_of(const struct adamw *rule, double scale, int64_t t,
                           bool decay) {
    return (struct step){
        .scale = (float)scale,
        .beta1 = (float)rule->beta1,
        .beta2 = (float)rule->beta2,
        .one_minus_beta1 = (float)(1 - rule->beta1),
        .one_minus_beta2 = (float)(1 - rule->beta2),
        .rate = (float)(rule->learning_rate / (1 - pow(rule->beta1, (double)t))),
        .correction = (float)(1 / sqrt(1 - pow(rule->beta2, (double)t))),
        .epsilon = (float)rule->epsilon,
        .shrink = decay ? (float)(rule->learning_rate * rule->weight_decay) : 0,
    };
}

/* gradient NULL = zeros. */
HOT static void update(float *restrict w, const float *restrict gradient,
                       float *restrict m, float *restrict v, size_t count,
                       struct step s) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        const float g = gradient ? s.scale * gradient[i] : 0;
        m[i] = s.beta1 * m[i] + s.one_minus_beta1 * g;
        v[i] = s.beta2 * v[i] + s.one_minus_beta2 * (g * g);
        const float root = __builtin_sqrtf(v[i]) * s.correction + s.epsilon;
        w[i] -= s.rate * (m[i] / root) + s.shrink * w[i];
    }
}

static void update_range(struct parameter *row, struct range left, struct step s) {
    while (left.first < left.last) {
        const struct range r = next_of(row, &left);
        const size_t count = r.last - r.first;
        update(row->value + r.first, is_zero(row, r) ? NULL : row->gradient + r.first,
               row->exp_avg + r.first, row->exp_avg_sq + r.first, count, s);
        if (!row->is_product)
            memset(row->gradient + r.first, 0, count * sizeof *row->gradient);
    }
}

void adamw_update(struct parameters *p, const struct adamw *rule, double scale,
                  int64_t step, int threads) {
    const struct step steps[2] = {step_of(rule, scale, step, false),
                                  step_of(rule, scale, step, true)};
    parameters_settle_all(p);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (size_t i = 0; i < PARTS; i++) {
        const size_t begin = p->total * i / PARTS, end = p->total * (i + 1) / PARTS;
        for (int r = 0; r < p->count; r++) {
            struct parameter *row = p->rows[r];
            if (!row->is_buffer)
                update_range(row, range_of(row, begin, end), steps[row->decay]);
        }
    }
    for (int r = 0; r < p->count; r++)
        p->rows[r]->is_stale = p->rows[r]->is_product;
}
