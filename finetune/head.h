/* head - classification or regression on a sequence's first token, as
 * RobertaClassificationHead: dropout -> dense (D, D) -> tanh -> dropout -> out_proj (C,
 * D). C = 1 is regression.
 *
 *   y = W2 drop(tanh(W1 drop(x) + b1)) + b2        x (B, D) first tokens, y (B, C) */
#ifndef FINETUNE_HEAD_H
#define FINETUNE_HEAD_H

#include "encoder/encoder.h"

struct head;

/* Declares classifier.{dense,out_proj}.* as head rows, config->num_labels outputs. */
enum status head_declare(struct head **h, const struct config *config,
                         struct device *device, struct parameters *parameters,
                         struct error *err) MUST_CHECK;
/* Takes memory for up to max_rows sequences; `train` adds that of backward. */
void head_layout(struct head *h, struct arena *arena, int64_t max_rows, bool train);
/* Outputs (B, C) of hidden (B, D), which dropout changes in place; valid until the next
 * call. */
struct tensor head_forward(struct head *h, struct tensor hidden, struct pass pass,
                           const uint32_t *sequence_numbers);
/* After head_forward: the summed loss against labels (class ids, or scores when C = 1:
 * squared error). With dhidden its gradient goes there and to the head's parameters
 * (added). NULL = evaluation. The outputs are overwritten when a gradient is wanted. */
double head_loss(struct head *h, struct tensor hidden, const float *labels,
                 struct pass pass, const uint32_t *sequence_numbers,
                 const struct tensor *dhidden);
void head_free(struct head *h);

#endif
