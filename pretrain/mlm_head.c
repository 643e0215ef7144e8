/* mlm_head - hidden states of masked rows to vocabulary logits and loss.
 *
 * Forward, for R rows rounded up (extra rows are zero on the way in):
 *
 *   dense_out = x W^T + b;  activated = gelu(dense_out);  normed = norm(activated)
 *   logits = normed E^T + bias                                   piece by piece
 *
 * Backward: the loss leaves softmax - onehot in the logits of a piece; its product with E
 * is that piece's dnormed, its product with normed goes to E's gradient at once, so that
 * no logits are kept. Then norm, GELU and dense run back in place over all rows. */
#include "pretrain/mlm_head.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "encoder/activation.h"
#include "encoder/linear.h"
#include "encoder/loss.h"
#include "encoder/norm.h"

struct mlm_head {
    struct linear dense, decoder; /* the decoder's weight is the word table */
    struct norm norm;
    int threads;
    int64_t hidden_size, vocab_size, max_rows, logit_rows;
    /* (max_rows, D): the padded input, dense's output, its GELU, the decoder's input and
     * its gradient (training only); (logit_rows, V) */
    struct tensor input, dense_out, activated, normed, dnormed, logits;
};

enum status mlm_head_declare(struct mlm_head **out, const struct config *config,
                             struct device *device, struct parameters *parameters,
                             struct parameter *word_embeddings, struct error *err) {
    struct mlm_head *h = calloc(1, sizeof *h);
    if (!h)
        return error_set(err, ERR_MEMORY, "out of memory for the MLM head");
    const struct arrangement *a = &config->arrangement;
    const struct parameter_spec dense = {
        .init = PARAMETER_LINEAR, .decay = true, .is_head = true};
    const struct parameter_spec bias = {.init = PARAMETER_ZERO, .is_head = true};
    h->threads = device_threads(device);
    h->hidden_size = config->hidden_size;
    h->vocab_size = config->vocab_size;
    linear_declare(&h->dense, device, parameters, dense, h->hidden_size, h->hidden_size,
                   "lm_head.dense");
    struct norm_spec norm = norm_aux(a);
    norm.is_head = true;
    norm_declare(&h->norm, norm, h->hidden_size, h->threads, parameters,
                 "lm_head.layer_norm");
    h->decoder.device = device;
    h->decoder.weight = word_embeddings;
    h->decoder.bias = parameters_add(parameters, bias, h->vocab_size, 0, "lm_head.bias");
    *out = h;
    return OK;
}

void mlm_head_layout(struct mlm_head *h, struct arena *arena, int64_t max_rows,
                     bool train) {
    const int64_t fit = MLM_HEAD_LOGIT_BYTES / 4 / h->vocab_size / 16 * 16;
    const int64_t rows = tensor_round_rows(max_rows > 0 ? max_rows : 1);
    const int64_t pieces = fit > 16 ? fit : 16;
    h->max_rows = rows;
    h->logit_rows = rows < pieces ? rows : pieces;
    h->input = tensor_take(arena, DTYPE_F32, rows, h->hidden_size);
    h->dense_out = tensor_take(arena, DTYPE_F32, rows, h->hidden_size);
    h->activated = tensor_take(arena, DTYPE_F32, rows, h->hidden_size);
    h->normed = tensor_take(arena, DTYPE_F32, rows, h->hidden_size);
    if (train)
        h->dnormed = tensor_take(arena, DTYPE_F32, rows, h->hidden_size);
    h->logits = tensor_take(arena, DTYPE_F32, h->logit_rows, h->vocab_size);
    norm_layout(&h->norm, arena, rows);
}

int64_t mlm_head_logit_rows(const struct mlm_head *h) { return h->logit_rows; }

static void clear_rows(struct tensor t, int64_t first) {
    memset(tensor_floats(t) + first * t.columns, 0,
           (size_t)((t.rows - first) * t.columns) * sizeof(float));
}

static void copy_rows(struct tensor to, struct tensor from, int64_t rows) {
    memcpy(to.data, from.data, (size_t)(rows * to.columns) * sizeof(float));
}

/* The decoder's input for `hidden`, in h->normed. Returns the rounded number of rows. */
static int64_t transform(struct mlm_head *h, struct tensor hidden) {
    const int64_t rows = tensor_round_rows(hidden.rows);
    assert(rows <= h->max_rows && hidden.columns == h->hidden_size);
    const struct tensor input = tensor_head(h->input, rows);
    copy_rows(input, hidden, hidden.rows);
    clear_rows(input, hidden.rows);
    linear_forward(&h->dense, tensor_head(h->dense_out, rows), input);
    activation_gelu_forward(tensor_head(h->activated, rows),
                            tensor_head(h->dense_out, rows), h->threads);
    norm_forward(&h->norm, tensor_head(h->normed, rows), tensor_head(h->activated, rows),
                 (struct norm_rows){.real = hidden.rows});
    return rows;
}

struct tensor mlm_head_forward(struct mlm_head *h, struct tensor hidden) {
    if (hidden.rows == 0)
        return tensor_head(h->logits, 0);
    const int64_t rows = transform(h, hidden);
    assert(rows <= h->logit_rows);
    linear_forward(&h->decoder, tensor_head(h->logits, rows),
                   tensor_head(h->normed, rows));
    return tensor_head(h->logits, hidden.rows);
}

/* Loss of `real` rows from `first`, worked on as `count` rounded rows; their gradient
 * goes to h->dnormed and the decoder. */
static double piece_loss(struct mlm_head *h, const int32_t *labels, int64_t first,
                         int64_t count, int64_t real, bool want_gradient) {
    const struct tensor logits = tensor_head(h->logits, count);
    const struct tensor normed = tensor_rows(h->normed, first, count);
    linear_forward(&h->decoder, logits, normed);
    const double loss = loss_cross_entropy(tensor_head(logits, real), labels + first,
                                           want_gradient, h->threads);
    if (!want_gradient)
        return loss;
    clear_rows(logits, real);
    linear_backward(&h->decoder, tensor_rows(h->dnormed, first, count), logits, normed);
    return loss;
}

/* From h->dnormed back to the hidden states. */
static void transform_backward(struct mlm_head *h, struct tensor dhidden, int64_t rows) {
    const struct tensor d = tensor_head(h->dnormed, rows);
    const struct tensor activated = tensor_head(h->activated, rows);
    clear_rows(d, dhidden.rows); /* the last piece may end before `rows` */
    norm_backward(&h->norm, d, d, activated, (struct norm_rows){.real = dhidden.rows});
    activation_gelu_backward(d, d, tensor_head(h->dense_out, rows), h->threads);
    const struct tensor dinput = activated; /* its values are no longer needed */
    linear_backward(&h->dense, dinput, d, tensor_head(h->input, rows));
    copy_rows(dhidden, dinput, dhidden.rows);
}

double mlm_head_loss(struct mlm_head *h, struct tensor hidden, const int32_t *labels,
                     const struct tensor *dhidden) {
    if (hidden.rows == 0)
        return 0.0;
    const int64_t rows = transform(h, hidden);
    double loss = 0.0;
    for (int64_t first = 0; first < hidden.rows; first += h->logit_rows) {
        const int64_t left = rows - first, real_left = hidden.rows - first;
        const int64_t count = left < h->logit_rows ? left : h->logit_rows;
        const int64_t real = real_left < count ? real_left : count;
        loss += piece_loss(h, labels, first, count, real, dhidden != NULL);
    }
    if (dhidden)
        transform_backward(h, *dhidden, rows);
    return loss;
}

void mlm_head_free(struct mlm_head *h) { free(h); }
