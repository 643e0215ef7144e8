/* metrics - accuracy, F1, Matthews, Pearson and Spearman, equal to scikit-learn and
 * SciPy.
 *
 * Classes are ids 0, 1, ... as doubles; any value that is no label's id is simply wrong.
 * NaN is returned where a metric is undefined: no rows, or a constant input of a
 * correlation. F1 and Matthews of inputs of one class are 0, as scikit-learn has them.
 * Orders of summation are fixed: the same rows give the same bits. */
#ifndef GLUE_METRICS_H
#define GLUE_METRICS_H

#include <stddef.h>

#include "base/error.h"

/* Share of predictions equal to their label. */
double metrics_accuracy(const double *predictions, const double *labels, size_t count);
/* 2 TP / (2 TP + FP + FN) for class 1; 0 when no row has or gets class 1. */
double metrics_f1(const double *predictions, const double *labels, size_t count);
/* Matthews correlation for `num_classes` classes (Gorodkin 2004; the binary formula for
 * two): 0 when predictions or labels are all of one class. At most 64 classes. */
double metrics_matthews(const double *predictions, const double *labels, size_t count,
                        int num_classes);
/* NaN for fewer than two rows, a constant or a NaN input. Scaled, so that neither tiny
 * nor huge values lose their squares; clipped to [-1, 1]. */
double metrics_pearson(const double *x, const double *y, size_t count);
/* Pearson of ranks, ties sharing their mean rank. Allocates 4 arrays of `count`. */
enum status metrics_spearman(const double *x, const double *y, size_t count, double *out,
                             struct error *err) MUST_CHECK;

#endif
