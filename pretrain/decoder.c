/* decoder - logits over the vocabulary, and their cross-entropy block by block.
 *
 * For R rows x, with p = softmax(x E^T + bias) and y the one-hot labels:
 *
 *   loss  = sum over rows of log sum_v exp(logit_v) - logit_label
 *   dlogits = p - y          (R, V), in the place of the logits
 *   dx    = dlogits E        dE += dlogits^T x        dbias += column sums of dlogits
 *
 * V is 50,265 for RoBERTa, so (R, V) is the only array that leaves the cache. Two sweeps
 * over blocks of 4096 words: the first makes logits and each row's running maximum and
 * sum (loss_block_add), the second, once a row's log-sum is known, gradient and products.
 * A block of 600 rows is 10 MB, gone through while it is in the last cache.
 *
 * Only masked rows come here: 614 of 4096 for 15 %, which saves 85 % of these products
 * (963 against 144 GFLOP a step at base size, of about 2200 in all). */
#include "pretrain/decoder.h"

#include <assert.h>

#include "encoder/columns.h"
#include "encoder/rows.h"

enum { BLOCK = 4096, UNIT = 64 /* words of a block, and what they are a multiple of */ };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Blocks of about equal size: a last one of a few words would be a slow product. */
static int64_t block_of(int64_t vocab_size) {
    const int64_t count = (vocab_size + BLOCK - 1) / BLOCK;
    const int64_t words = (vocab_size + count - 1) / count;
    return (words + UNIT - 1) / UNIT * UNIT;
}

void decoder_declare(struct decoder *d, struct device *device, struct parameters *p,
                     struct parameter *words) {
    const struct parameter_spec bias = {.init = PARAMETER_ZERO, .is_head = true};
    *d = (struct decoder){
        .device = device,
        .words = words,
        .bias = parameters_add(p, bias, words->shape[0], 0, "lm_head.bias"),
        .vocab_size = words->shape[0],
        .block = block_of(words->shape[0])};
    device_reserve(device, d->block, words->shape[1]);
    team_reserve(device_team(device), 0, d->block);
}

void decoder_layout(struct decoder *d, struct arena *arena, int64_t max_rows,
                    bool train) {
    d->logits = tensor_take(arena, DTYPE_F32, max_rows, d->vocab_size);
    if (train && device_dtype(d->device) != DTYPE_F32)
        d->dlogits = tensor_take(arena, device_dtype(d->device), max_rows, d->block);
    if (train)
        device_reserve_rows(d->device, max_rows, d->block, d->words->shape[1]);
    d->rows = ARENA_TAKE(arena, struct loss_row, max_rows);
}

/* `count` words of the table from `first` on, or of its gradient. */
static struct tensor words_of(const struct decoder *d, float *data, int64_t first,
                              int64_t count) {
    const int64_t width = d->words->shape[1];
    return tensor_f32(data + first * width, count, width);
}

struct tensor decoder_logits(struct decoder *d, struct tensor x) {
    const struct tensor logits = tensor_head(d->logits, x.rows);
    device_product(d->device, logits, x, words_of(d, d->words->value, 0, d->vocab_size),
                   d->bias->value);
    return logits;
}

/* Where the logits of the block that begins with word `first` stand. */
static struct tensor block_logits(const struct decoder *d, int64_t rows, int64_t first) {
    return tensor_f32(tensor_floats(d->logits) + rows * first, rows,
                      least(d->block, d->vocab_size - first));
}

static void block_forward(struct decoder *d, struct tensor x, int64_t real,
                          const int32_t *labels, int64_t first) {
    const struct tensor logits = block_logits(d, x.rows, first);
    device_product(d->device, logits, x,
                   words_of(d, d->words->value, first, logits.columns),
                   d->bias->value + first);
    loss_block_add(d->rows, tensor_head(logits, real), labels, first,
                   device_threads(d->device));
}

/* Rows beyond `real` have no label: their gradient is cleared, so that the products may
 * run over round sizes. `adds`: the word table's gradient of this step was begun by an
 * earlier piece. */
static void block_backward(struct decoder *d, struct tensor x, int64_t real,
                           const int32_t *labels, struct tensor dx, int64_t first,
                           bool adds) {
    const struct tensor logits = block_logits(d, x.rows, first);
    struct tensor dlogits = logits;
    if (d->dlogits.data)
        dlogits =
            (struct tensor){d->dlogits.data, d->dlogits.dtype, x.rows, logits.columns};
    const struct tensor words = words_of(d, d->words->value, first, logits.columns);
    loss_block_gradient(dlogits, tensor_head(logits, real), d->rows, labels, first,
                        device_team(d->device));
    rows_clear(dlogits, real);
    columns_sum(d->bias->gradient + first, dlogits, device_threads(d->device));
    device_product_weight(d->device,
                          words_of(d, d->words->gradient, first, logits.columns), dlogits,
                          x, adds);
    if (first == 0)
        device_product_input(d->device, dx, dlogits, words);
    else
        device_product_input_add(d->device, dx, dlogits, words);
}

double decoder_loss(struct decoder *d, struct tensor x, int64_t real,
                    const int32_t *labels, struct tensor dx) {
    assert(x.rows <= d->logits.rows && real <= x.rows);
    for (int64_t first = 0; first < d->vocab_size; first += d->block)
        block_forward(d, x, real, labels, first);
    const bool adds = dx.data && parameters_adds(d->words);
    for (int64_t first = 0; dx.data && first < d->vocab_size; first += d->block)
        block_backward(d, x, real, labels, dx, first, adds);
    return loss_rows_sum(d->rows, real);
}
