/* evaluate - a model's outputs for all sequences of an input, in batches of like length.
 */
#ifndef FINETUNE_EVALUATE_H
#define FINETUNE_EVALUATE_H

#include "finetune/classifier.h"
#include "finetune/input.h"

/* outputs (count, C) in the input's order; the input is sorted. Batches are as large as
 * the classifier's limits allow, `most` sequences at most. With loss its sum against the
 * labels is wanted too. */
enum status evaluate_outputs(struct classifier *c, const struct input *in, int64_t most,
                             float *outputs, double *loss, struct error *err) MUST_CHECK;
/* The place of the largest of `count` values; the first one of equals. */
int evaluate_argmax(const float *values, int count);

#endif
