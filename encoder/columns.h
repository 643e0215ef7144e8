/* columns - sums down the rows of a tensor: the gradients of biases, gains and scales.
 *
 * A thread owns columns and goes through all rows in order, so the bits do not depend on
 * the number of threads. (oneDNN's reduction is its plain reference loop, 50 times
 * slower.) */
#ifndef ENCODER_COLUMNS_H
#define ENCODER_COLUMNS_H

#include "encoder/tensor.h"

/* sum (columns) += sum over rows of x. */
void columns_sum(float *sum, struct tensor x, int threads);
/* sum += sum over rows of x * y. */
void columns_dot(float *sum, struct tensor x, struct tensor y, int threads);
/* sum += sum over rows of x * (y - origin), a number a column; origin NULL = 0. */
void columns_dot_from(float *sum, struct tensor x, struct tensor y, const float *origin,
                      int threads);
/* The gradients of a norm's gain and bias, where y = gain (x - mean) rstd + bias: gain +=
 * sum dy (x - mean) rstd, bias += sum dy (NULL = none). `mean` and `rstd` hold a number a
 * row, `stride` floats apart; mean NULL = 0. */
void columns_affine(float *gain, float *bias, struct tensor dy, struct tensor x,
                    const float *mean, const float *rstd, int stride, int threads);

#endif
