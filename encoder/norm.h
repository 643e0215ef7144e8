/* norm - normalisation over the channels of a row: the table of kinds, and a norm site.
 *
 * Adding a kind is one file and one word: write norm_<name>.c with a `const struct
 * norm_kind norm_<name>`, add <name> to NORM_KINDS. Options, checkpoint, gradient check
 * and manual read the table. Statistics are f32 and kept for the backward pass; gradients
 * of gain and bias are added.
 *
 * Most kinds treat a row by itself: they are two functions on one row of floats. Loops
 * over rows, threads and conversion are here; and a pass that has a row at hand anyway
 * calls the row functions itself (residual, middle, embedding).
 *
 * A kind with buffers normalises a channel over the rows of a batch: in training forward
 * takes the statistics of the batch's real rows and moves the running ones (once a
 * micro-batch, whatever backward recomputes); otherwise it takes the running ones.
 * Buffers are rows of the parameters that nobody trains, so that checkpoints hold them.
 */
#ifndef ENCODER_NORM_H
#define ENCODER_NORM_H

#include <stdbool.h>

#include "encoder/config.h"
#include "encoder/parameters.h"
#include "encoder/team.h"
#include "encoder/tensor.h"

#define NORM_KINDS(ROW) ROW(ln) ROW(rms) ROW(crms) ROW(bn) ROW(pn) ROW(un) ROW(none)

struct norm;

/* The rows of one forward and its backward. */
struct norm_rows {
    int64_t real;   /* of the tensor's rows; the rest is rounding: no statistic sees it */
    bool batch;     /* this batch's statistics, not the running ones */
    double targets; /* in the summed loss that is differentiated: scales a penalty */
};

/* Beside "<site>.weight": "<site>.<name>". */
struct norm_buffer {
    const char *name;
    enum {
        BUFFER_CHANNELS,
        BUFFER_WINDOW,
        BUFFER_NUMBER
    } shape; /* (C), (window, C), 1 */
    enum parameter_init start;
};

/* What norm_stat leaves out. A kind has the settings that it has a default for. */
struct norm_default {
    enum norm_setting setting;
    double value;
};
/* Values that stand for num_attention_heads, and for the greater of 1000 and warmup. */
#define NORM_DEFAULT_HEADS (-1.0)
#define NORM_DEFAULT_AFTER_WARMUP (-2.0)

/* Where a row's share of the gradients of gain and bias is added; NULL = not wanted. */
struct norm_sums {
    float *gain, *bias;
};

struct norm_kind {
    const char *name, *summary, *source; /* source: paper and equation */
    int saved_per_row; /* floats a row that forward keeps for backward */
    int saved_per_channel;
    bool implies_channel; /* the stream leaves its last channel out */
    bool keeps_rows;      /* n->kept: as many rows as the input has */
    const struct norm_buffer
        *buffers;               /* ends with a NULL name; NULL = rows alone count */
    const char *const *figures; /* names of what is logged, ends with NULL; NULL = none */
    const struct norm_default *defaults; /* ends with NORM_SETTINGS; NULL = no settings */
    /* Row `row` of the site's tensor. y may be x; dx may be dy. x is forward's input.
     * NULL in a kind with buffers, which has the two below instead. */
    void (*forward_row)(const struct norm *n, float *y, const float *x, int64_t row);
    /* y once more, from what forward saved; NULL = forward does it. */
    void (*rebuild_row)(const struct norm *n, float *y, const float *x, int64_t row);
    void (*backward_row)(const struct norm *n, float *dx, const float *dy, const float *x,
                         int64_t row, struct norm_sums sums);
    void (*forward)(const struct norm *n, struct tensor y, struct tensor x,
                    struct norm_rows rows);
    /* Rows of dy beyond the real ones are 0, and those of dx become so. */
    void (*backward)(const struct norm *n, struct tensor dx, struct tensor dy,
                     struct tensor x, struct norm_rows rows);
    /* Of a kind with buffers: outside training y = gain (x - origin) rstd + bias, x with
     * its groups scaled where NORM_GROUPS asks. */
    void (*running)(const struct norm *n, float *origin, float *rstd);
};

#define NORM_DECLARE_KIND(word) extern const struct norm_kind norm_##word;
NORM_KINDS(NORM_DECLARE_KIND)

/* A kind without functions: a site of it is off. */
static inline bool norm_is_none(const struct norm_kind *kind) {
    return !kind->forward_row && !kind->forward;
}
/* NULL when no kind has this name. */
const struct norm_kind *norm_find(const char *name);
extern const struct norm_kind *const norm_kinds[]; /* ends with NULL */

enum { NORM_MOST_BUFFERS = 6, NORM_MOST_FIGURES = 4 };

/* One place where a norm stands. A site whose kind is NULL is off. */
struct norm {
    const struct norm_kind *kind;
    struct parameter *weight, *bias; /* NULL where norm_affine leaves them out */
    struct parameter *buffers[NORM_MOST_BUFFERS]; /* in the order of the kind's rows */
    const double *settings, *penalty;             /* norm_stat, norm_penalty */
    int64_t width;
    float eps;
    float *saved, *channels; /* from norm_layout: max_rows * saved_per_row, width *
                                saved_per_channel */
    struct tensor kept;
    double *figures; /* of the last training batch, as the kind names them */
    struct team *team;
};

/* What stands at a site. */
struct norm_spec {
    const struct norm_kind *kind;
    enum norm_affine affine;
    double eps;
    const struct arrangement *arrangement;
    bool is_head; /* of a task head */
};
/* At the pre and post sites, and with `final` at the last; at all others. */
struct norm_spec norm_main(const struct arrangement *a, bool final);
struct norm_spec norm_aux(const struct arrangement *a);

/* Declares "<name>.weight" and "<name>.bias" as the affine asks, and the buffers. The
 * arrangement must outlive n. */
void norm_declare(struct norm *n, struct norm_spec spec, int64_t width, struct team *team,
                  struct parameters *p, const char *name);
/* Takes what forward keeps for backward; nothing for a site that is off. */
void norm_layout(struct norm *n, struct arena *arena, int64_t max_rows);
/* Tensors of any type. y may be x only where no backward follows; dx may be dy. */
void norm_forward(const struct norm *n, struct tensor y, struct tensor x,
                  struct norm_rows rows);
/* dx = gradient of x; gain and bias get theirs added. x is forward's input, unchanged. */
void norm_backward(const struct norm *n, struct tensor dx, struct tensor dy,
                   struct tensor x, struct norm_rows rows);
/* y once more, of a norm that works row by row: its input is kept, its output need not
 * be. */
void norm_rebuild(const struct norm *n, struct tensor y, struct tensor x);

/* norm_stat against the kind: ERR_USAGE for a setting that it has not or whose value is
 * out of range; the others get the kind's defaults. */
enum status norm_check_settings(struct config *c, struct error *err) MUST_CHECK;

/* May the row functions be called row by row, without the other rows? */
static inline bool norm_is_by_rows(const struct norm *n) {
    return n->kind && n->kind->forward_row;
}

static inline void norm_rebuild_row(const struct norm *n, float *y, const float *x,
                                    int64_t row) {
    (n->kind->rebuild_row ? n->kind->rebuild_row : n->kind->forward_row)(n, y, x, row);
}

/* Sums of both gradients: norm_sums() says where in a part's sums from `base`, and
 * norm_add() adds them after the pass. */
enum { NORM_SUMS = 2 /* times the width */ };
static inline struct norm_sums norm_sums(const struct norm *n, float *base) {
    return (struct norm_sums){n->weight ? base : NULL, n->bias ? base + n->width : NULL};
}
void norm_add(const struct norm *n, int64_t rows, int64_t offset);
/* A row's share of both sums where the normalised row is x * rstd; bias may be NULL. */
void norm_add_scaled(struct norm_sums sums, const float *dy, const float *x,
                     int64_t width, float rstd);

#endif
