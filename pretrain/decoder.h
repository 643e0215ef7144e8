/* decoder - logits over the vocabulary, and their cross-entropy a block of words at a
 * time.
 *
 *   logits = x E^T + bias, E the word table (V, D)
 *
 * Logits are the largest array of a pretraining. The loss takes the vocabulary in blocks
 * of about 4096 words: while a block's logits are in the cache they enter each row's
 * running log-sum-exp; then block by block softmax - onehot takes their place, whose
 * products with E and x are the gradients of x and of E. Logits and their sums are f32;
 * the operands of products have x's type. */
#ifndef PRETRAIN_DECODER_H
#define PRETRAIN_DECODER_H

#include "encoder/loss.h"
#include "encoder/onednn.h"
#include "encoder/parameters.h"

struct decoder {
    struct device *device;
    struct parameter *words, *bias;
    int64_t vocab_size, block; /* words of a block */
    struct tensor logits;      /* (max_rows, V) f32: block after block, each row-major */
    struct tensor dlogits;     /* (max_rows, block) where x is not f32 */
    struct loss_row *rows;
};

/* Declares "lm_head.bias". */
void decoder_declare(struct decoder *d, struct device *device, struct parameters *p,
                     struct parameter *words);
/* Takes logits for up to max_rows rows; `train` adds what their gradient needs. */
void decoder_layout(struct decoder *d, struct arena *arena, int64_t max_rows, bool train);
/* Logits (rows, V) of x (rows, D), which is f32; valid until the next call. */
struct tensor decoder_logits(struct decoder *d, struct tensor x);
/* Sum over the first `real` rows of x of -log p(label). With dx (rows, D, f32) it gets
 * x's gradient, the table and the bias get theirs added; dx.data NULL = evaluation. */
double decoder_loss(struct decoder *d, struct tensor x, int64_t real,
                    const int32_t *labels, struct tensor dx);

#endif
