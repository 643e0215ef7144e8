/* sublayer - the one residual block that every arrangement is a choice of switches of,
 * with attention or feed-forward as its core.
 *
 *   u  = pre_norm ? N_pre(x) : x
 *   c  = core(u)                        attention (N, D) or gelu(fc1) (N, F)
 *   c  = c rep(head_scale)              attention, head_scale = pre_proj
 *   c  = mid_norm ? N_mid(c) : c
 *   z  = c W^T + b
 *   z  = z rep(head_scale)              attention, head_scale = post_proj
 *   z  = dropout(out_norm ? N_out(z) : z)
 *   v  = alpha gain x + z (+ layer input, at the feed-forward with bottom_skip)
 *   x' = post_norm ? N_post(v) : v
 *   s' = s + kappa z                    with dual_stream
 *
 * The attention of the last layer picks rows: keys and values are of all rows, everything
 * after of the rows that the head reads only. */
#ifndef ENCODER_SUBLAYER_H
#define ENCODER_SUBLAYER_H

#include "encoder/attention.h"
#include "encoder/config.h"
#include "encoder/linear.h"
#include "encoder/norm.h"
#include "encoder/onednn.h"
#include "encoder/residual.h"

/* The rows of one batch at one sublayer. Row counts are rounded; rows beyond the real
 * ones hold finite values forward and zeros backward. */
struct stage {
    int64_t rows_in, rows_out, tokens_in, tokens_out; /* tokens: real rows */
    const int32_t *pick; /* row i of the output is row pick[i] of the input; NULL = i */
    struct attention_rows attention;
    bool train;
    uint64_t seed, step; /* name the dropout draws */
    bool batch_norms;    /* norms take the statistics of this batch */
    double targets;      /* in the summed loss */
};

/* A tensor that is not kept, because a norm makes it again. */
struct origin {
    const struct norm *norm; /* NULL: it is kept */
    struct tensor input;
};

/* What flows through the stack, and its gradients the other way, which are f32, as is
 * `second` both ways. */
struct streams {
    struct tensor x;
    struct tensor second; /* ResiDual's, no data when off */
    struct tensor bottom; /* x at the layer's entry; its gradient */
    struct origin origin; /* of x */
};

/* Buffers that all sublayers share, of the device's type where nothing else is said.
 * Those of gradients exist in training only. */
struct workspace {
    struct tensor wide;      /* (N, max(3 D, F)): what stands between two matrices */
    struct tensor branch;    /* (N, D): z where it is not kept; its gradient */
    struct tensor normed[3]; /* (N, D): outputs of norms, which are not kept */
    struct tensor dx[2];   /* (N, D) f32: the stream's gradient, used in turn; attention's
                              dcore stands in the free one */
    struct tensor dpicked; /* (R, D) f32: of picked queries' input */
    struct tensor dbottom; /* (N, D) f32 */
};

struct sublayer {
    const struct config *config;
    struct device *device;
    const struct attention *attention; /* NULL: this is the feed-forward */
    struct norm pre, mid, out, post;
    struct parameter *head_scale, *resid_gain;
    struct parameter *in_weight, *in_bias; /* query, key, value in a row; or fc1 */
    struct parameter *in_parts[3];         /* the weights one by one; fc1 is one */
    struct linear output;
    uint32_t dropout_site; /* attention's probabilities use the one before */
    bool adds_bottom, is_last;
    /* Kept for backward. */
    struct tensor x, skip; /* views: the input, and its picked rows */
    struct origin origin;  /* of x, where it is not kept */
    struct tensor normed;  /* u; no data: in the workspace */
    struct tensor hidden;  /* query, key, value (N, 3 D); or fc1's output (N, F) */
    struct tensor picked, picked_normed; /* x and u of picked rows (R, D) */
    struct tensor context;               /* attention's output */
    float *lse;
    struct tensor z, v, y; /* y without data: in the workspace, at `turn` */
    int turn;
};

/* Head scales in front of the output matrix, or behind it. */
static inline bool sublayer_scales_before(const struct sublayer *s) {
    return s->head_scale && s->config->arrangement.head_scale == HEAD_SCALE_PRE_PROJ;
}
static inline bool sublayer_scales_after(const struct sublayer *s) {
    return s->head_scale && s->config->arrangement.head_scale == HEAD_SCALE_POST_PROJ;
}
/* Can y be made again by its post norm, so that it is not kept? What comes after the last
 * sublayer, and another norm that reads it, want it kept. */
static inline bool sublayer_rebuilds_output(const struct sublayer *s) {
    return norm_is_by_rows(&s->post) && !s->pre.kind && !s->is_last;
}

/* Takes the buffers for up to max_rows rows, and max_picked rows that a head reads. */
void workspace_layout(struct workspace *w, struct arena *arena,
                      const struct config *config, enum dtype dtype, int64_t max_rows,
                      int64_t max_picked, bool train);

/* Declares the parameters of `layer`'s attention (attention not NULL) or feed-forward. */
void sublayer_declare(struct sublayer *s, const struct config *config,
                      struct device *device, const struct attention *attention,
                      struct parameters *p, int64_t layer);
/* `picks`: rows_out may be fewer than rows_in. */
void sublayer_layout(struct sublayer *s, struct arena *arena, int64_t max_rows_in,
                     int64_t max_rows_out, bool picks);
/* io->x (rows_in, D) becomes the sublayer's output (rows_out, D). */
void sublayer_forward(struct sublayer *s, const struct stage *stage,
                      const struct workspace *w, struct streams *io);
/* d->x, the output's gradient in w->dx[*turn], becomes the input's; *turn follows. */
void sublayer_backward(struct sublayer *s, const struct stage *stage,
                       const struct workspace *w, struct streams *d, int *turn);

#endif
