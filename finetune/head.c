/* head - RobertaClassificationHead: forward, loss and backward over one row a sequence.
 *
 * Backward, with the same masks drawn again from their names instead of kept:
 *
 *   dy  = dloss/dy                       softmax(y) - onehot, or 2 (y - label) for C = 1
 *   dp' = W2^T dy;   dp = drop(dp')      W2's gradient from the dropped copy of p
 *   dz  = dp (1 - p^2)                   p = tanh(z), kept whole for this
 *   dx  = drop(W1^T dz)                  W1's gradient from the dropped x
 *
 * Losses and gradients are sums over sequences, not means: the trainer divides by the
 * sequences of a whole step, so that micro-batches of different size weigh their
 * sequences alike. */
#include "finetune/head.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "encoder/activation.h"
#include "encoder/linear.h"
#include "encoder/loss.h"

enum { SITE_INPUT = DROPOUT_SITE_HEADS, SITE_POOLED };

struct head {
    struct linear dense, out_proj;
    struct device *device;
    float dropout;
    int64_t hidden_size, stream_size;
    int num_labels;
    struct tensor pooled;  /* (B, D) tanh of the dense layer, kept for its gradient */
    struct tensor dropped; /* (B, D) the same after dropout: what out_proj reads */
    struct tensor dpooled; /* (B, D) gradient of both */
    struct tensor outputs; /* (B, C) */
    int32_t *classes;      /* B: labels as loss_cross_entropy takes them */
    uint32_t *tokens;      /* B zeros: dropout sees the first token of each sequence */
};

enum status head_declare(struct head **h, const struct config *config,
                         struct device *device, struct parameters *parameters,
                         struct error *err) {
    assert(config->num_labels >= 1);
    struct head *head = calloc(1, sizeof *head);
    if (!head)
        return error_set(err, ERR_MEMORY, "out of memory for the classification head");
    const struct parameter_spec spec = {
        .init = PARAMETER_LINEAR, .zero_row = -1, .decay = true, .is_head = true};
    double rate = isnan(config->classifier_dropout) ? config->hidden_dropout_prob
                                                    : config->classifier_dropout;
    head->device = device;
    head->dropout = (float)rate;
    head->hidden_size = config->hidden_size;
    head->stream_size = config_stream_size(config);
    head->num_labels = config->num_labels;
    struct parameter_spec dense = spec;
    dense.side = PARAMETER_READS;
    dense.stream = config_centered_stream(config);
    linear_declare(&head->dense, device, parameters, dense, head->stream_size,
                   config->hidden_size, "classifier.dense");
    linear_declare(&head->out_proj, device, parameters, spec, config->hidden_size,
                   config->num_labels, "classifier.out_proj");
    *h = head;
    return OK;
}

void head_layout(struct head *h, struct arena *arena, int64_t max_rows, bool train) {
    h->pooled = tensor_take(arena, DTYPE_F32, max_rows, h->hidden_size);
    if (train) {
        h->dropped = tensor_take(arena, DTYPE_F32, max_rows, h->hidden_size);
        h->dpooled = tensor_take(arena, DTYPE_F32, max_rows, h->hidden_size);
    }
    h->outputs = tensor_take(arena, DTYPE_F32, max_rows, h->num_labels);
    h->classes = ARENA_TAKE(arena, int32_t, max_rows);
    h->tokens = ARENA_TAKE(arena, uint32_t, max_rows);
}

static void drop(const struct head *h, struct tensor x, struct pass pass, uint32_t site,
                 const uint32_t *sequence_numbers) {
    struct rng stream = rng_stream(pass.seed, RNG_DROPOUT, site, pass.step);
    struct row_names names = {sequence_numbers, h->tokens};
    dropout_apply(x, h->dropout, stream, names, device_threads(h->device));
}

/* What out_proj reads: in training a dropped copy, as the tanh's gradient needs its own
 * output whole. */
static struct tensor pooled_for_output(const struct head *h, struct tensor pooled,
                                       struct pass pass,
                                       const uint32_t *sequence_numbers) {
    if (!pass.train)
        return pooled;
    struct tensor dropped = tensor_head(h->dropped, pooled.rows);
    memcpy(dropped.data, pooled.data,
           (size_t)(pooled.rows * pooled.columns) * sizeof(float));
    drop(h, dropped, pass, SITE_POOLED, sequence_numbers);
    return dropped;
}

struct tensor head_forward(struct head *h, struct tensor hidden, struct pass pass,
                           const uint32_t *sequence_numbers) {
    assert(hidden.rows <= h->outputs.rows && hidden.columns == h->stream_size);
    struct tensor pooled = tensor_head(h->pooled, hidden.rows);
    struct tensor outputs = tensor_head(h->outputs, hidden.rows);
    if (pass.train)
        drop(h, hidden, pass, SITE_INPUT, sequence_numbers);
    linear_forward(&h->dense, pooled, hidden);
    activation_tanh_forward(pooled, pooled);
    linear_forward(&h->out_proj, outputs,
                   pooled_for_output(h, pooled, pass, sequence_numbers));
    return outputs;
}

/* From the outputs' gradient, which stands in `outputs`, down to `dhidden`. */
static void head_backward(struct head *h, struct tensor hidden, struct pass pass,
                          const uint32_t *sequence_numbers, struct tensor dhidden) {
    struct tensor doutputs = tensor_head(h->outputs, hidden.rows);
    struct tensor dpooled = tensor_head(h->dpooled, hidden.rows);
    linear_backward(&h->out_proj, dpooled, doutputs,
                    tensor_head(h->dropped, hidden.rows));
    drop(h, dpooled, pass, SITE_POOLED, sequence_numbers);
    activation_tanh_backward(dpooled, dpooled, tensor_head(h->pooled, hidden.rows));
    linear_backward(&h->dense, dhidden, dpooled, hidden);
    drop(h, dhidden, pass, SITE_INPUT, sequence_numbers);
}

double head_loss(struct head *h, struct tensor hidden, const float *labels,
                 struct pass pass, const uint32_t *sequence_numbers,
                 const struct tensor *dhidden) {
    struct tensor outputs = tensor_head(h->outputs, hidden.rows);
    bool want_gradient = dhidden != NULL;
    assert(pass.train || !want_gradient);
    double loss;
    if (h->num_labels == 1) {
        loss = loss_squared_error(outputs, labels, want_gradient);
    } else {
        for (int64_t b = 0; b < hidden.rows; b++)
            h->classes[b] = (int32_t)labels[b];
        loss = loss_cross_entropy(outputs, h->classes, want_gradient,
                                  device_threads(h->device));
    }
    if (want_gradient)
        head_backward(h, hidden, pass, sequence_numbers, *dhidden);
    return loss;
}

void head_free(struct head *h) { free(h); }
