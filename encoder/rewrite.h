/* rewrite - a model directory in memory, to be changed into another that computes the
 * same.
 *
 * All tensors are f32 under their names without the model's prefix. What a change needs
 * is asked for by name and shape: a tensor that is missing or of another shape is an
 * error, so that nothing is changed by half. */
#ifndef ENCODER_REWRITE_H
#define ENCODER_REWRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"
#include "base/notice.h"
#include "encoder/config.h"

struct rewrite_tensor {
    char name[160];
    int rank; /* 1 or 2 */
    int64_t shape[2];
    float *value;
};

struct rewrite {
    struct config config; /* of the model as it is to be written */
    char directory[PATH_BYTES];
    struct rewrite_tensor *items;
    int count;
};

/* y = x W^T + b. */
struct rewrite_linear {
    struct rewrite_tensor *weight, *bias;
};

/* A norm that the stream feeds, and the linear layers that read it. */
struct rewrite_site {
    char name[96];                        /* "encoder.layer.3.attention.LayerNorm" */
    bool is_final;                        /* its readers are the heads of the file */
    struct rewrite_tensor *weight, *bias; /* NULL: not learned */
    struct rewrite_linear readers[3];
    int num_readers;
};

/* `directory` as --model takes it. */
enum status rewrite_open(struct rewrite *r, const char *directory,
                         const struct notices *notices, struct error *err) MUST_CHECK;
/* NULL when there is none. */
struct rewrite_tensor *rewrite_find(const struct rewrite *r, const char *format, ...)
    PRINTF_LIKE(2, 3);
/* ERR_INCOMPATIBLE when there is none of that shape; `columns` 0 = a vector. */
enum status rewrite_need(const struct rewrite *r, struct rewrite_tensor **t, int64_t rows,
                         int64_t columns, struct error *err, const char *format, ...)
    PRINTF_LIKE(6, 7) MUST_CHECK;
/* Takes it out of the model; other pointers to tensors stay valid. NULL = nothing. */
void rewrite_remove(struct rewrite_tensor *t);

/* Pre-norm sites: two a layer, and the final norm. */
int rewrite_num_sites(const struct rewrite *r);
/* Site i with its tensors and readers; ERR_INCOMPATIBLE when one is missing or
 * mis-shaped. */
enum status rewrite_site(const struct rewrite *r, int i, struct rewrite_site *site,
                         struct error *err) MUST_CHECK;
/* Output matrices: two a layer, the attention's first. */
int rewrite_num_writers(const struct rewrite *r);
enum status rewrite_writer(const struct rewrite *r, int i, struct rewrite_linear *writer,
                           struct error *err) MUST_CHECK;

/* W = W diag(scale) and b += W shift with the old W: y of scale x + shift. NULL scale 1,
 * NULL shift 0. */
void rewrite_fold_input(struct rewrite_linear l, const float *scale, const float *shift);
/* The last output of l, which must not be its only one, goes. */
void rewrite_drop_output(struct rewrite_linear l);
/* The last input of l becomes minus the sum of the others, and goes. */
void rewrite_imply_input(struct rewrite_linear l);
/* The mean over the outputs goes. */
void rewrite_center_output(struct rewrite_linear l);

/* Checks the config, then writes config.json, the tokenizer's files and the weights. */
enum status rewrite_write(struct rewrite *r, const char *output,
                          struct error *err) MUST_CHECK;
void rewrite_close(struct rewrite *r);

#endif
