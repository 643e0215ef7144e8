/* columns - sums down the rows of a tensor: the gradients of biases that no other pass
 * sums up, and the statistics of norms over a batch.
 *
 * A thread owns columns and goes through all rows in order, so the bits do not depend on
 * the number of threads. (oneDNN's reduction is its plain reference loop, 50 times
 * slower.) Tensors are f32 or bf16. */
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
/* sum += sum over rows of (x - origin)^2. */
void columns_squares_from(float *sum, struct tensor x, const float *origin, int threads);

#endif
