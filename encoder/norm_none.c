/* norm_none - no norm: a site of this kind is off.
 *
 * It is what remains of a norm that was folded into the linear layers after it
 * (encoder/fold), and what an experiment without norms wants. */
#include "encoder/norm.h"

const struct norm_kind norm_none = {
    .name = "none",
    .summary = "nothing: the site is off",
    .source = "-",
};
