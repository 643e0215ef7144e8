/* loss - cross-entropy and squared error, summed.
 *
 *   -log softmax(x)[label] = log sum exp(x - max) - (x[label] - max)
 *
 * The maximum is taken out first, so that nothing overflows. Where a row comes in blocks
 * its maximum may rise: the sum so far is then scaled by exp(old - new), the running
 * softmax of Milakov and Gimelshein (arXiv:1805.02867). Rows' losses are doubles, added
 * part by part in order: a sum of 10^4 of them in f32 would lose the digits that runs are
 * compared by. */
#include "encoder/loss.h"

#include <math.h>

#include "encoder/rows.h"
#include "encoder/vector.h"

enum { PARTS = 64 }; /* sums of the loss: the same for any number of threads */

HOT static float row_max(const float *x, int64_t count) {
    float max = x[0];
#pragma omp simd reduction(max : max)
    for (int64_t i = 0; i < count; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

HOT static float exponentiate(float *x, int64_t count, float max) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += x[i] = vector_exp(x[i] - max);
    return sum;
}

HOT static float sum_of_exponentials(const float *x, int64_t count, float max) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += vector_exp(x[i] - max);
    return sum;
}

HOT static void scale(float *x, int64_t count, float factor) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        x[i] *= factor;
}

/* -log softmax(x)[label]; with the gradient x becomes softmax - onehot. */
static double row_loss(float *x, int64_t count, int32_t label, bool want_gradient) {
    const float max = row_max(x, count), score = x[label] - max;
    if (!want_gradient)
        return log((double)sum_of_exponentials(x, count, max)) - (double)score;
    const float sum = exponentiate(x, count, max);
    scale(x, count, 1 / sum);
    x[label] -= 1;
    return log((double)sum) - (double)score;
}

double loss_cross_entropy(struct tensor logits, const int32_t *labels, bool want_gradient,
                          int threads) {
    double parts[PARTS], sum = 0;
    const int64_t columns = logits.columns;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < PARTS; i++) {
        parts[i] = 0;
        for (int64_t n = logits.rows * i / PARTS; n < logits.rows * (i + 1) / PARTS; n++)
            parts[i] += row_loss(tensor_floats(logits) + n * columns, columns, labels[n],
                                 want_gradient);
    }
    for (int i = 0; i < PARTS; i++)
        sum += parts[i];
    return sum;
}

static void add_block(struct loss_row *row, const float *x, int64_t count, int64_t label,
                      bool is_first) {
    const float block_max = row_max(x, count);
    const float max = is_first || block_max > row->max ? block_max : row->max;
    const float before = is_first ? 0 : row->sum * expf(row->max - max);
    row->sum = before + sum_of_exponentials(x, count, max);
    row->max = max;
    if (label >= 0 && label < count)
        row->score = x[label];
}

void loss_block_add(struct loss_row *rows, struct tensor logits, const int32_t *labels,
                    int64_t first, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t n = 0; n < logits.rows; n++)
        add_block(&rows[n], rows_at(logits, n), logits.columns, labels[n] - first,
                  first == 0);
}

double loss_rows_sum(const struct loss_row *rows, int64_t count) {
    double sum = 0;
    for (int64_t n = 0; n < count; n++)
        sum += log((double)rows[n].sum) - ((double)rows[n].score - (double)rows[n].max);
    return sum;
}

HOT static void softmax_block(float *d, const float *x, int64_t count, float max,
                              float factor) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        d[i] = vector_exp(x[i] - max) * factor;
}

void loss_block_gradient(struct tensor d, struct tensor logits,
                         const struct loss_row *rows, const int32_t *labels,
                         int64_t first, const struct team *team) {
#pragma omp parallel for schedule(static) num_threads(team->threads)
    for (int64_t n = 0; n < logits.rows; n++) {
        float *row = rows_open(d, n, team_room(team));
        const int64_t label = labels[n] - first;
        softmax_block(row, rows_at(logits, n), logits.columns, rows[n].max,
                      1 / rows[n].sum);
        if (label >= 0 && label < logits.columns)
            row[label] -= 1;
        rows_store(d, n, row);
    }
}

double loss_squared_error(struct tensor predictions, const float *targets,
                          bool want_gradient) {
    double sum = 0;
    float *p = predictions.data;
    for (int64_t n = 0; n < predictions.rows; n++) {
        const float difference = p[n] - targets[n];
        sum += (double)difference * (double)difference;
        if (want_gradient)
            p[n] = 2 * difference;
    }
    return sum;
}

void loss_softmax(struct tensor logits, int threads) {
    const int64_t columns = logits.columns;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t n = 0; n < logits.rows; n++) {
        float *x = tensor_floats(logits) + n * columns;
        const float sum = exponentiate(x, columns, row_max(x, columns));
        scale(x, columns, 1 / sum);
    }
}
