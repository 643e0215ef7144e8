/* loss - cross-entropy and squared error, summed. */
#include "encoder/loss.h"

#include <math.h>

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
