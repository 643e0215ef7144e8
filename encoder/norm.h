/* norm - normalisation over the channels of a row: the table of kinds, and a norm site.
 *
 * Adding a kind is one file and one word: write norm_<name>.c with a `const struct
 * norm_kind norm_<name>`, add <name> to NORM_KINDS. Options, checkpoint, gradient check
 * and manual read the table. Statistics are f32 and kept for the backward pass; gradients
 * of gain and bias are added. */
#ifndef ENCODER_NORM_H
#define ENCODER_NORM_H

#include <stdbool.h>

#include "encoder/config.h"
#include "encoder/parameters.h"
#include "encoder/tensor.h"

#define NORM_KINDS(ROW) ROW(ln) ROW(rms)

struct norm;

struct norm_kind {
    const char *name, *summary, *source; /* source: paper and equation */
    int saved_per_row; /* floats a row that forward keeps for backward */
    void (*forward)(const struct norm *n, struct tensor y, struct tensor x);
    /* y may be x only where no backward follows; dx may be dy. x is the forward's input.
     */
    void (*backward)(const struct norm *n, struct tensor dx, struct tensor dy,
                     struct tensor x);
};

#define NORM_DECLARE_KIND(word) extern const struct norm_kind norm_##word;
NORM_KINDS(NORM_DECLARE_KIND)

/* NULL when no kind has this name. */
const struct norm_kind *norm_find(const char *name);
extern const struct norm_kind *const norm_kinds[]; /* ends with NULL */

/* One place where a norm stands. A site whose kind is NULL is off. */
struct norm {
    const struct norm_kind *kind;
    struct parameter *weight, *bias; /* NULL where norm_affine leaves them out */
    int64_t width;
    float eps;
    float *saved; /* max_rows * saved_per_row, from norm_layout */
    int threads;
};

/* Declares "<name>.weight" and "<name>.bias" as the affine asks. */
void norm_declare(struct norm *n, const struct norm_kind *kind, enum norm_affine affine,
                  double eps, int64_t width, int threads, struct parameters *p,
                  bool is_head, const char *name);
void norm_layout(struct norm *n, struct arena *arena, int64_t max_rows);
void norm_forward(const struct norm *n, struct tensor y, struct tensor x);
void norm_backward(const struct norm *n, struct tensor dx, struct tensor dy,
                   struct tensor x);

#endif
