/* mlm_head - hidden states of masked rows to vocabulary logits and loss.
 *
 * dense (D, D) -> exact GELU -> LayerNorm -> x E^T + bias, E the word table (tied), as
 * RoBERTa's lm_head. It only ever sees the masked rows. */
#ifndef PRETRAIN_MLM_HEAD_H
#define PRETRAIN_MLM_HEAD_H

#include "encoder/encoder.h"

struct mlm_head;

/* Declares lm_head.{dense,layer_norm}.* and lm_head.bias as head rows. Owns its memory
 * except parameters. */
enum status mlm_head_declare(struct mlm_head **h, const struct config *config,
                             struct device *device, struct parameters *parameters,
                             struct parameter *word_embeddings,
                             struct error *err) MUST_CHECK;
void mlm_head_layout(struct mlm_head *h, struct arena *arena, int64_t max_rows,
                     bool train);
/* Logits (N, V) of hidden (N, D), valid until the next call. */
struct tensor mlm_head_forward(struct mlm_head *h, struct tensor hidden);
/* Sum over rows of -log p(label). With dhidden (may be hidden itself) the gradient goes
 * to it, to the head's parameters and to the word table (added). NULL dhidden =
 * evaluation. */
double mlm_head_loss(struct mlm_head *h, struct tensor hidden, const int32_t *labels,
                     const struct tensor *dhidden);
void mlm_head_free(struct mlm_head *h);

#endif
