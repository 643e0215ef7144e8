/* mlm_head - hidden states of masked rows to vocabulary logits and loss.
 *
 * Forward, for R rows rounded up (extra rows are zero on the way in):
 *
 *   dense_out = x W^T + b;  activated = gelu(dense_out);  normed = norm(activated)
 *   logits = normed E^T + bias                                   piece by piece
 *
 * Backward: the decoder gives dnormed, piece by piece; norm, GELU and dense run back over
 * all rows. The decoder's own two products follow from a piece's logits at once, so that
 * no logits are kept. */
#include "pretrain/mlm_head.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "encoder/linear.h"
#include "encoder/middle.h"
#include "encoder/norm.h"
#include "encoder/rows.h"
#include "pretrain/decoder.h"

struct mlm_head {
    struct linear dense;
    struct norm norm;
    struct decoder decoder;
    struct device *device;
    int64_t hidden_size, stream_size, max_rows, logit_rows;
    /* (max_rows, D), of the device's type: the padded input (as wide as the stream),
     * dense's output, the decoder's input; and the latter in f32: its values for logits,
     * its gradient */
    struct tensor input, dense_out, normed, plain;
};

enum status mlm_head_declare(struct mlm_head **out, const struct config *config,
                             struct device *device, struct parameters *parameters,
                             struct parameter *word_embeddings, struct error *err) {
    struct mlm_head *h = calloc(1, sizeof *h);
    if (!h)
        return error_set(err, ERR_MEMORY, "out of memory for the MLM head");
    const struct arrangement *a = &config->arrangement;
    const struct parameter_spec dense = {.init = PARAMETER_LINEAR,
                                         .decay = true,
                                         .is_head = true,
                                         .side = PARAMETER_READS,
                                         .stream = config_centered_stream(config)};
    h->device = device;
    h->hidden_size = config->hidden_size;
    h->stream_size = config_stream_size(config);
    linear_declare(&h->dense, device, parameters, dense, h->stream_size, h->hidden_size,
                   "lm_head.dense");
    struct norm_spec norm = norm_aux(a);
    norm.is_head = true;
    norm_declare(&h->norm, norm, h->hidden_size, device_team(device), parameters,
                 "lm_head.layer_norm");
    middle_reserve(device_team(device), h->hidden_size);
    decoder_declare(&h->decoder, device, parameters, word_embeddings);
    *out = h;
    return device_check(device, err);
}

/* How many rows' logits fit MLM_HEAD_LOGIT_BYTES, in steps of 16: 656 of RoBERTa's. */
void mlm_head_layout(struct mlm_head *h, struct arena *arena, int64_t max_rows,
                     bool train) {
    const enum dtype dtype = device_dtype(h->device);
    const int64_t fit = MLM_HEAD_LOGIT_BYTES / 4 / h->decoder.vocab_size / 16 * 16;
    const int64_t rows = tensor_round_rows(max_rows > 0 ? max_rows : 1);
    const int64_t pieces = fit > 16 ? fit : 16;
    h->max_rows = rows;
    h->logit_rows = rows < pieces ? rows : pieces;
    h->input = tensor_take(arena, dtype, rows, h->stream_size);
    h->dense_out = tensor_take(arena, dtype, rows, h->hidden_size);
    h->normed = tensor_take(arena, dtype, rows, h->hidden_size);
    h->plain = tensor_take(arena, DTYPE_F32, rows, h->hidden_size);
    decoder_layout(&h->decoder, arena, h->logit_rows, train);
    norm_layout(&h->norm, arena, rows);
}

int64_t mlm_head_logit_rows(const struct mlm_head *h) { return h->logit_rows; }

static struct middle middle_of(const struct mlm_head *h) {
    return (struct middle){.gelu = true, .mid = &h->norm, .team = device_team(h->device)};
}

/* The decoder's input for `hidden`, in h->normed. Returns the rounded number of rows. */
static int64_t transform(struct mlm_head *h, struct tensor hidden) {
    const int64_t rows = tensor_round_rows(hidden.rows);
    const struct tensor input = tensor_head(h->input, rows),
                        dense_out = tensor_head(h->dense_out, rows);
    const struct middle middle = middle_of(h);
    assert(rows <= h->max_rows && hidden.columns == h->stream_size);
    rows_copy(input, hidden, hidden.rows);
    linear_forward(&h->dense, dense_out, input);
    middle_forward(&middle, tensor_head(h->normed, rows), dense_out);
    return rows;
}

/* For a few rows: in f32 whatever the model computes in. */
struct tensor mlm_head_forward(struct mlm_head *h, struct tensor hidden) {
    if (hidden.rows == 0)
        return tensor_head(h->decoder.logits, 0);
    const int64_t rows = transform(h, hidden);
    assert(rows <= h->logit_rows);
    rows_copy(tensor_head(h->plain, rows), tensor_head(h->normed, rows), rows);
    return tensor_head(decoder_logits(&h->decoder, tensor_head(h->plain, rows)),
                       hidden.rows);
}

/* From dnormed, in h->plain, back to the hidden states. */
static void transform_backward(struct mlm_head *h, struct tensor dhidden, int64_t rows) {
    const struct middle middle = middle_of(h);
    const struct tensor dnormed = tensor_head(h->plain, rows),
                        operand = tensor_head(h->normed, rows);
    rows_clear(dnormed, dhidden.rows); /* the last piece may end before `rows` */
    middle_backward(&middle, dnormed, (struct tensor){0}, tensor_head(h->dense_out, rows),
                    h->dense.bias->gradient);
    rows_copy(operand, dnormed, rows); /* normed's values are no longer needed */
    linear_backward_weight(&h->dense, operand, tensor_head(h->input, rows));
    const struct tensor dinput = tensor_f32(dnormed.data, rows, h->stream_size);
    linear_backward_input(&h->dense, dinput, operand);
    rows_copy(dhidden, dinput, dhidden.rows);
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
        struct tensor dnormed = tensor_rows(h->plain, first, count);
        if (!dhidden)
            dnormed.data = NULL;
        loss += decoder_loss(&h->decoder, tensor_rows(h->normed, first, count), real,
                             labels + first, dnormed);
    }
    if (dhidden)
        transform_backward(h, *dhidden, rows);
    return loss;
}

void mlm_head_free(struct mlm_head *h) { free(h); }
