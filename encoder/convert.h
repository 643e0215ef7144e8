/* convert - a Pre-LN model into one with RMSNorm or CRMSNorm that computes the same
 * (Jiang et al., arXiv:2305.14858).
 *
 * Every norm that the stream feeds ignores a token's mean, so the mean is free: kept at
 * zero, LayerNorm is RMSNorm, and the last channel is minus the sum of the others, so
 * that it can be left out (CRMSNorm). In order:
 *   1. the bias of each norm goes into the linear layers that read it (crms: the gain
 *      too); the gain stays as RMSNorm's
 *   2. the output matrices lose the mean over their outputs (stream_center=writers), or
 *      stay and each token's branch is centred after dropout (after_dropout), which is
 *      the same function in training too
 *   3. embeddings are centred on the fly: the tables stay as they are, because the MLM
 *      head's decoder is the word table, not its centred form
 *   4. crms: output matrices lose their last row, readers' columns the last column */
#ifndef ENCODER_CONVERT_H
#define ENCODER_CONVERT_H

#include "encoder/rewrite.h"

struct convert_target {
    const char *arch;          /* "prerms" or "precrms" */
    const char *stream_center; /* "auto", "writers" or "after_dropout" */
};

/* ERR_INCOMPATIBLE with the reason when this arrangement has no such form. With
 * stream_center=writers hidden_dropout_prob becomes 0, with a notice where it was not. */
enum status convert_model(struct rewrite *r, struct convert_target target,
                          const struct notices *notices, struct error *err) MUST_CHECK;

#endif
