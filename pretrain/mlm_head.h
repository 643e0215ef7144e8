/* mlm_head - hidden states of masked rows to vocabulary logits and loss.
 *
 * dense (D, D) -> exact GELU -> norm_aux -> x E^T + bias, E the word table (tied), as
 * RoBERTa's lm_head. It only ever sees the masked rows.
 *
 * Logits are the largest array of a pretraining (N x V floats), so the loss works through
 * the rows in pieces that share one buffer of at most MLM_HEAD_LOGIT_BYTES (but 16 rows
 * at least), and within a piece through the vocabulary in blocks (decoder.h). Rows are
 * rounded up to few sizes; the extra ones are zero in every gradient.
 */
#ifndef PRETRAIN_MLM_HEAD_H
#define PRETRAIN_MLM_HEAD_H

#include "encoder/encoder.h"

#define MLM_HEAD_LOGIT_BYTES ((int64_t)128 << 20)

struct mlm_head;

/* Declares lm_head.{dense,layer_norm}.* and lm_head.bias as head rows. Owns its memory
 * except parameters. */
enum status mlm_head_declare(struct mlm_head **h, const struct config *config,
                             struct device *device, struct parameters *parameters,
                             struct parameter *word_embeddings,
                             struct error *err) MUST_CHECK;
/* `max_rows` is the most that one call will bring; `train` adds the memory of backward.
 */
void mlm_head_layout(struct mlm_head *h, struct arena *arena, int64_t max_rows,
                     bool train);
/* The most rows whose logits fit the buffer at once: the limit of mlm_head_forward. */
int64_t mlm_head_logit_rows(const struct mlm_head *h);
/* Logits (N, V) of hidden (N, D), valid until the next call. */
struct tensor mlm_head_forward(struct mlm_head *h, struct tensor hidden);
/* Sum over rows of -log p(label). With dhidden (may be hidden itself) the gradient goes
 * to it, to the head's parameters and to the word table (added). NULL dhidden =
 * evaluation. No rows give 0 and touch nothing. */
double mlm_head_loss(struct mlm_head *h, struct tensor hidden, const int32_t *labels,
                     const struct tensor *dhidden);
void mlm_head_free(struct mlm_head *h);

#endif
