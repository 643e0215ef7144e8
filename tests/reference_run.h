/* reference_run - what the parts of the reference share. Private to tests/reference*.c.
 */
#ifndef TESTS_REFERENCE_RUN_H
#define TESTS_REFERENCE_RUN_H

#include "encoder/bf16.h"
#include "encoder/norm.h"
#include "tests/reference.h"

struct run {
    const struct reference *r;
    const struct batch *batch;
    struct pass pass;
    int64_t n, d, f, heads;
    int64_t s;                  /* channels of the stream */
    uint32_t *sequence, *token; /* names of the rows */
    double *x, *second, *bottom;
    double penalty;
};

/* A norm's place: layer -1 = none, and its tensors' name there. */
struct site {
    const struct norm_kind *kind;
    double eps;
    int layer;
    const char *name;
};

/* "<name>.weight" and "<name>.bias". */
struct pair {
    const double *weight, *bias;
};

/* The named parameter below "<prefix>." and, when layer >= 0, "encoder.layer.N."; NULL
 * when the arrangement has none. */
const double *reference_get(const struct reference *r, int layer, const char *name);
struct pair reference_get_pair(const struct reference *r, int layer, const char *name);
/* x as it is stored: rounded to float or bf16 where `single` or `bf16` asks. */
static inline double stored(const struct reference *r, double x) {
    return r->bf16     ? (double)bf16_float(bf16_of((float)x))
           : r->single ? (double)(float)x
                       : x;
}
static inline void store(const struct reference *r, double *x, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        x[i] = stored(r, x[i]);
}
/* y = N(x) of n rows; may be the same. Penalties are added to the run's. */
void reference_normalise(struct run *u, double *y, const double *x, struct site s,
                         int64_t n, int64_t width);

#endif
