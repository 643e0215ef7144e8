/* fold - a model without the multiplications that inference can do without, computing the
 * same.
 *
 *   head_scale     into the output projection: its columns (pre_proj), or its rows and
 *                  bias (post_proj); not where a mid norm follows the scale
 *   bn, un, pn     fixed lines of a channel outside training: into the linear layers that
 *                  read them; the norm is gone (norm=none). pn only without groups
 *   other norms    gain and bias of the pre and final sites into the layers that read
 *                  them (norm_affine=none)
 *   mid norms      gain and bias into the output matrix: they become 1 and 0
 *
 * With post_norm the stream itself carries a norm's gain and bias: those norms stay.
 * final_norm goes with the others only when every head that reads it is in the file. */
#ifndef ENCODER_FOLD_H
#define ENCODER_FOLD_H

#include "encoder/rewrite.h"

/* Changes r in memory: weights, and the switches of r->config that say what is left.
 * After an error r is to be closed, not written. */
enum status fold_model(struct rewrite *r, struct error *err) MUST_CHECK;

#endif
