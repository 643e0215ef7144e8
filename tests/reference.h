/* reference - the encoder once more, in double precision and plain loops, every row
 * computed: what the fast one and finite differences are compared with. */
#ifndef TESTS_REFERENCE_H
#define TESTS_REFERENCE_H

#include "encoder/encoder.h"

struct reference {
    const struct config *config;
    const struct parameters *parameters; /* names and shapes */
    double **values;                     /* of each row, owned */
    int single; /* not 0: round all that is stored, and each step of a product's sum, to
                   float, sums beginning at term `single`: a plain single-precision
                   encoder, to see what rounding alone does */
    bool bf16;  /* round what is stored, and weights of products, to bf16 instead */
};

/* Copies the parameters' values. */
void reference_open(struct reference *r, const struct config *config,
                    const struct parameters *parameters);
void reference_close(struct reference *r);
/* Copies the buffers' values again, which a training step of the encoder has moved. */
void reference_take_buffers(struct reference *r);
/* A kind of norm that the reference has no formula for is computed by its own forward, in
 * single precision: finite differences need a wider step then. */
bool reference_is_exact(const struct reference *r);
/* Row of the named parameter in `values`; -1 when there is none. */
int reference_find(const struct reference *r, const char *format, ...) PRINTF_LIKE(2, 3);
/* Hidden states of batch->output_rows (num_output_rows, channels of the stream) into
 * `output`. Dropout draws the masks that the encoder draws; norms with statistics over a
 * batch take those of this batch and leave the running ones. Returns what their penalties
 * add to a loss summed over the output rows. */
double reference_forward(const struct reference *r, const struct batch *batch,
                         struct pass pass, double *output);

#endif
