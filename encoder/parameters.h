/* parameters - the registry of what is trained: one row a tensor, read by the optimizer,
 * the checkpoint, the initialiser and the weight counter. Buffers (a norm's running
 * statistics) are rows too: saved and loaded with the others, never trained or counted.
 *
 * Layers declare their tensors first; then one block for all values (and, when training,
 * one each for gradients and the two moments) is allocated in declaration order. */
#ifndef ENCODER_PARAMETERS_H
#define ENCODER_PARAMETERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

enum parameter_init {
    PARAMETER_ZERO,
    PARAMETER_ONE,
    PARAMETER_EMBEDDING, /* N(0, initializer_range), row `zero_row` stays 0 */
    PARAMETER_LINEAR,    /* the config's init rule times `gain` */
};

/* What a linear layer's row has to do with a residual stream of mean zero (Pre-RMSNorm).
 * `stream` is the stream's full number of channels, 0 = nothing. */
enum parameter_side {
    PARAMETER_WRITES, /* its first axis is the stream's: the sum over it is kept at zero
                       */
    PARAMETER_READS,  /* its second axis is the stream's */
};

struct parameter {
    char name[128]; /* full name in the checkpoint */
    int rank;       /* 1 or 2 */
    int64_t shape[2];
    size_t count; /* product of shape */
    enum parameter_init init;
    double gain;
    int64_t zero_row; /* of an embedding: pad_token_id; -1 = none */
    bool decay;       /* weight decay applies */
    bool is_head; /* belongs to a task head: may be absent from a checkpoint and starts
                     new */
    bool adjoins; /* begins where the row before ends, without padding */
    bool is_buffer;
    enum parameter_side side;
    int64_t stream;              /* an axis of one channel less leaves the last one out */
    bool is_product;             /* see parameter_spec */
    bool is_stale;               /* the gradient counts as 0, whatever lies there */
    bool is_scattered, scatters; /* see scattered.h */
    unsigned char *marked;       /* a table's rows that have a gradient, when scattered */
    size_t offset;               /* of its elements in the blocks */
    float *value;
    float *gradient, *exp_avg, *exp_avg_sq; /* NULL unless training, or a buffer */
};

struct parameters {
    struct parameter **rows; /* in declaration order; a row never moves */
    int count, capacity;
    size_t total; /* elements; a row begins at a multiple of 16 unless it adjoins */
    size_t held;  /* of `value`, where the buffers stand behind the others */
    float *value, *gradient, *exp_avg,
        *exp_avg_sq; /* the blocks that the rows point into */
    struct arena arena;
    bool training;
    bool failed; /* a declaration ran out of memory */
};

struct parameter_spec {
    enum parameter_init init;
    double gain;      /* 0 = 1 */
    int64_t zero_row; /* only read for PARAMETER_EMBEDDING */
    bool decay, is_head;
    bool adjoins; /* query, key and value lie together and are one matrix to a product */
    bool is_buffer;
    enum parameter_side side;
    int64_t stream;
    bool is_product; /* its gradient is a product, which can be written as well as added:
                        after an update it is left stale, not cleared */
    bool scatters;   /* its rows can get gradients one by one (scattered.h) */
};

/* Adds a row; `columns` 0 = a vector of `rows`. The name is formatted. NULL when out of
 * memory (found again by parameters_allocate, so declarations need no check). */
struct parameter *parameters_add(struct parameters *p, struct parameter_spec spec,
                                 int64_t rows, int64_t columns, const char *name, ...)
    PRINTF_LIKE(5, 6);
/* Memory for all rows that were declared, zeroed: values, and with `training` gradients
 * and moments. No row can be added afterwards. */
enum status parameters_allocate(struct parameters *p, bool training,
                                struct error *err) MUST_CHECK;
/* Draws every value from its rule: a function of (seed, name, index) only, where the name
 * is without the model's prefix. */
struct config;
void parameters_initialise(struct parameters *p, const struct config *config,
                           uint64_t seed);
/* The same for one row. */
void parameters_initialise_row(struct parameter *row, const struct config *config,
                               uint64_t seed);
/* Takes the mean over the first axis out of the gradients of rows that write a stream of
 * mean zero, and out of their values: before and after an update. */
void parameters_center_gradients(struct parameters *p, int threads);
void parameters_center_values(struct parameters *p, int threads);
void parameters_clear_gradients(struct parameters *p);
/* For a product that is the whole of a row's gradient so far: false = to be written, the
 * row is stale no more; true = to be added to what is there. */
bool parameters_adds(struct parameter *row);
/* For all else that reads a gradient or adds to parts of it: clears a stale one. */
void parameters_settle(struct parameter *row);
void parameters_settle_all(const struct parameters *p);
/* By the full name; NULL when there is none. */
struct parameter *parameters_find(const struct parameters *p, const char *name);
int64_t parameters_number(
    const struct parameters *p); /* trainable weights, without padding */
void parameters_free(struct parameters *p);

#endif
