/* whole_model - a small encoder with both heads: random values into a directory, or a
 * directory's, and what it computes outside training.
 *
 * For changes that must not change what is computed (conversion, folding, other forms of
 * a checkpoint): write one model, change it, run both, compare all logits. */
#ifndef TESTS_WHOLE_MODEL_H
#define TESTS_WHOLE_MODEL_H

#include "encoder/encoder.h"

enum { WHOLE_MODEL_TOKENS = 24, WHOLE_MODEL_VOCAB = 31, WHOLE_MODEL_LABELS = 3 };

struct whole_model {
    struct config config;
    double mlm[WHOLE_MODEL_TOKENS * WHOLE_MODEL_VOCAB]; /* logits of all tokens */
    double labels[4 * WHOLE_MODEL_LABELS];              /* of four sequences */
};

/* Two layers of 16 channels of an arrangement, given as preset and option text; gains
 * about 1, running variances positive. `dropout` goes into the config. Returns the path.
 */
const char *whole_model_write(const char *name, const char *arch, const char *switches,
                              double dropout);
/* Runs the model in `directory` on four sequences. */
void whole_model_run(struct whole_model *m, const char *directory);
/* Largest difference of both logits, each relative to its largest. */
double whole_model_difference(const struct whole_model *a, const struct whole_model *b);

#endif
