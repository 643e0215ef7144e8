/* encoder - the stack of sublayers, and which rows each of them sees.
 *
 *   embedding -> 2 L sublayers (attention, feed-forward, attention ...) -> final norm
 *
 * Which rows: all sequences lie one after the other, N real tokens, rounded up to few
 * numbers (tensor_round_rows). Every op but attention treats rows alone and does not know
 * of sequences. In the last layer queries, and all that follows them, are computed only
 * for the rows that the head reads: the first tokens of a classifier, the masked ones of
 * a pretraining; keys and values need all rows. For a classifier that saves about 6 % of
 * a step at base size. Norms over a batch want every row, so with them rows are picked
 * after the stack instead.
 *
 * Which memory: in training every sublayer keeps what its backward reads; what it reads
 * and cannot keep cheaper is made again (sublayer.c). Without training layers take turns
 * in two places. Gradients of the stream are f32 and use two buffers in turn whatever the
 * depth.
 *
 * Against 14 reference models hidden states agree to 1e-5, all but one to 5e-7, and
 * gradients to 1e-4 of each tensor's largest entry (f32). */
#include "encoder/encoder.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encoder/attention.h"
#include "encoder/embedding.h"
#include "encoder/norm.h"
#include "encoder/rows.h"
#include "encoder/sublayer.h"

/* The names of a set of rows, in arrays of its own. */
struct row_set {
    uint32_t *sequence, *token; /* rounded rows; zero beyond the real ones */
    int32_t *starts;            /* B + 1 */
    int64_t tokens, rows;       /* real and rounded */
};

struct encoder {
    const struct config *config;
    struct device *device;
    struct embedding embedding;
    struct attention attention;
    struct sublayer
        *sublayers; /* attention and feed-forward of layer 0, of layer 1 ... */
    struct norm final;
    struct workspace workspace;
    struct limits limits;
    bool can_train;
    struct row_set all, read; /* every token; those that the head reads */
    struct tensor embedded, output, gathered;
    struct tensor second[2]; /* ResiDual's stream, of all and of the read rows */
    struct tensor dsecond[2];
    /* Of the last forward, for backward. */
    struct tensor last; /* the last sublayer's output */
};

/* ---- Declaring and laying out. ---- */

static bool is_dual(const struct encoder *e) {
    return e->config->arrangement.dual_stream > 0;
}

/* Statistics over a batch are over all of its tokens: no row is left out. */
static bool is_whole(const struct encoder *e) {
    return e->config->arrangement.norm->buffers != NULL;
}

static void declare_stack(struct encoder *e, struct parameters *p) {
    const struct config *c = e->config;
    const struct arrangement *a = &c->arrangement;
    struct team *team = device_team(e->device);
    char name[128];
    embedding_declare(&e->embedding, c, team, p);
    for (int64_t layer = 0; layer < c->num_hidden_layers; layer++) {
        struct sublayer *pair = e->sublayers + 2 * layer;
        sublayer_declare(&pair[0], c, e->device, &e->attention, p, layer);
        sublayer_declare(&pair[1], c, e->device, NULL, p, layer);
    }
    snprintf(name, sizeof name, "%s.LayerNorm", config_prefix(c));
    if (a->final_norm)
        norm_declare(&e->final, norm_main(a, true), config_stream_size(c), team, p, name);
}

/* Pairs of bf16 that are multiplied at once lie within a head. */
static enum status check_dtype(const struct config *config, const struct device *device,
                               struct error *err) {
    const int64_t head_size = config->hidden_size / config->num_attention_heads;
    if (device_dtype(device) == DTYPE_F32 || head_size % 2 == 0)
        return OK;
    return error_set(err, ERR_USAGE,
                     "--dtype bf16 needs an even number of channels a head, found %lld; "
                     "--dtype f32 takes any",
                     (long long)head_size);
}

enum status encoder_declare(struct encoder **out, const struct config *config,
                            struct device *device, struct parameters *parameters,
                            struct error *err) {
    assert(config->num_hidden_layers >= 1);
    *out = NULL;
    TRY(check_dtype(config, device, err));
    struct encoder *e = calloc(1, sizeof *e);
    struct sublayer *sublayers =
        calloc((size_t)config->num_hidden_layers * 2, sizeof *sublayers);
    if (!e || !sublayers) {
        free(e);
        free(sublayers);
        return error_set(err, ERR_MEMORY, "out of memory for the encoder");
    }
    *e = (struct encoder){.config = config, .device = device, .sublayers = sublayers};
    e->attention =
        (struct attention){.dtype = device_dtype(device),
                           .num_heads = config->num_attention_heads,
                           .head_size = config->hidden_size / config->num_attention_heads,
                           .threads = device_threads(device)};
    declare_stack(e, parameters);
    *out = e;
    return device_check(device, err);
}

static void row_set_layout(struct row_set *r, struct arena *arena, int64_t max_rows,
                           int64_t max_sequences) {
    r->sequence = ARENA_TAKE(arena, uint32_t, max_rows);
    r->token = ARENA_TAKE(arena, uint32_t, max_rows);
    r->starts = ARENA_TAKE(arena, int32_t, max_sequences + 1);
}

/* In training every layer keeps its activations. Otherwise nothing outlives the next
 * layer, so that all even layers stand in one place and all odd ones in another. */
static void layers_layout(struct encoder *e, struct arena *arena, int64_t rows,
                          int64_t read_rows, bool train) {
    const int64_t layers = e->config->num_hidden_layers;
    size_t start[2] = {arena->used, arena->used}, end = arena->used;
    for (int64_t layer = 0; layer < layers; layer++) {
        const bool is_last = layer == layers - 1;
        struct sublayer *pair = e->sublayers + 2 * layer;
        if (layer == 1)
            start[1] = end;
        if (!train)
            arena->used = start[layer % 2];
        sublayer_layout(&pair[0], arena, rows, is_last ? read_rows : rows,
                        is_last && !is_whole(e));
        sublayer_layout(&pair[1], arena, is_last ? read_rows : rows,
                        is_last ? read_rows : rows, false);
        end = arena->used > end ? arena->used : end;
    }
    arena->used = end;
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Norms over a batch read f32, which is no operand of products behind them. */
static enum dtype stream_dtype(const struct encoder *e) {
    return e->config->arrangement.pre_norm && is_whole(e) ? DTYPE_F32
                                                          : device_dtype(e->device);
}

void encoder_layout(struct encoder *e, struct arena *arena, struct limits limits,
                    bool train) {
    const int64_t rows = tensor_round_rows(limits.tokens);
    const int64_t read = is_whole(e) ? rows : tensor_round_rows(limits.output_rows);
    const int64_t width = config_stream_size(e->config);
    const enum dtype dtype = device_dtype(e->device);
    e->limits = limits;
    e->can_train = train;
    row_set_layout(&e->all, arena, rows, limits.sequences);
    row_set_layout(&e->read, arena, read, limits.sequences);
    embedding_layout(&e->embedding, arena, dtype, rows);
    attention_layout(&e->attention, arena, limits.tokens_per_sequence);
    if (train)
        device_reserve_rows(e->device, rows,
                            most(3 * width, e->config->intermediate_size),
                            most(width, e->config->intermediate_size));
    workspace_layout(&e->workspace, arena, e->config, dtype, rows, read, train);
    e->embedded = tensor_take(arena, stream_dtype(e), rows, width);
    layers_layout(e, arena, rows, read, train);
    norm_layout(&e->final, arena, read);
    e->output = tensor_take(arena, DTYPE_F32, read, width);
    if (is_whole(e))
        e->gathered = tensor_take(arena, DTYPE_F32, limits.output_rows, width);
    for (int i = 0; i < 2 && is_dual(e); i++) {
        e->second[i] = tensor_take(arena, DTYPE_F32, i ? read : rows, width);
        if (train)
            e->dsecond[i] = tensor_take(arena, DTYPE_F32, i ? read : rows, width);
    }
}

/* ---- Which rows. ---- */

static enum status check_sequences(const struct encoder *e, const struct batch *b,
                                   struct error *err) {
    const int64_t longest = config_max_tokens(e->config);
    if (b->num_tokens > e->limits.tokens || b->num_sequences > e->limits.sequences ||
        b->num_output_rows > e->limits.output_rows)
        return error_set(err, ERR_INPUT,
                         "a batch of %lld tokens, %lld sequences and %lld output rows "
                         "exceeds the planned %lld, %lld and %lld",
                         (long long)b->num_tokens, (long long)b->num_sequences,
                         (long long)b->num_output_rows, (long long)e->limits.tokens,
                         (long long)e->limits.sequences,
                         (long long)e->limits.output_rows);
    for (int64_t i = 0; i < b->num_sequences; i++) {
        const int64_t tokens = b->starts[i + 1] - b->starts[i];
        if (tokens > longest || tokens > e->limits.tokens_per_sequence || tokens < 0)
            return error_set(err, ERR_INPUT,
                             "sequence %lld of the batch has %lld tokens; the model's "
                             "position table holds %lld, the plan %lld",
                             (long long)i, (long long)tokens, (long long)longest,
                             (long long)e->limits.tokens_per_sequence);
    }
    return OK;
}

static enum status check_batch(const struct encoder *e, const struct batch *b,
                               struct error *err) {
    TRY(check_sequences(e, b, err));
    if (b->starts[0] != 0 || b->starts[b->num_sequences] != b->num_tokens)
        return error_set(err, ERR_INPUT, "the sequences cover %lld of %lld tokens",
                         (long long)b->starts[b->num_sequences],
                         (long long)b->num_tokens);
    for (int64_t n = 0; n < b->num_tokens; n++)
        if (b->input_ids[n] < 0 || b->input_ids[n] >= e->config->vocab_size)
            return error_set(err, ERR_INPUT,
                             "token %lld of the batch has id %lld; the vocabulary has "
                             "%lld entries",
                             (long long)n, (long long)b->input_ids[n],
                             (long long)e->config->vocab_size);
    for (int64_t i = 0; i < b->num_output_rows; i++)
        if (b->output_rows[i] >= b->num_tokens ||
            b->output_rows[i] < (i ? b->output_rows[i - 1] + 1 : 0))
            return error_set(err, ERR_INPUT,
                             "output rows are not ascending within %lld tokens",
                             (long long)b->num_tokens);
    return OK;
}

/* Names rows pick[0] .. pick[count - 1] (NULL = all) of the batch, sequence by sequence.
 */
static void row_set_fill(struct row_set *r, const struct batch *b, const int32_t *pick,
                         int64_t count) {
    int64_t i = 0;
    r->tokens = count;
    r->rows = tensor_round_rows(count);
    for (int64_t sequence = 0; sequence < b->num_sequences; sequence++) {
        r->starts[sequence] = (int32_t)i;
        for (; i < count; i++) {
            const int32_t row = pick ? pick[i] : (int32_t)i;
            if (row >= b->starts[sequence + 1])
                break;
            r->sequence[i] = b->sequence_numbers[sequence];
            r->token[i] = (uint32_t)(row - b->starts[sequence]);
        }
    }
    r->starts[b->num_sequences] = (int32_t)i;
    for (; i < r->rows; i++)
        r->sequence[i] = r->token[i] = 0;
}

static struct row_names names_of(const struct row_set *r) {
    return (struct row_names){r->sequence, r->token};
}

/* The last layer leaves out the rows that nobody reads, or they go after it. */
static bool picks(const struct encoder *e, const struct batch *b) {
    return !is_whole(e) && b->num_output_rows < b->num_tokens;
}
static bool gathers(const struct encoder *e, const struct batch *b) {
    return is_whole(e) && b->num_output_rows < b->num_tokens;
}

static bool batch_norms(struct pass pass) {
    return pass.train && !pass.freeze_statistics;
}

static struct norm_rows final_rows(const struct encoder *e, const struct batch *b,
                                   struct pass pass) {
    const struct row_set *out = picks(e, b) ? &e->read : &e->all;
    return (struct norm_rows){out->tokens, batch_norms(pass), (double)b->num_output_rows};
}

/* What sublayer `index` sees: rows in and out, the names of its dropout draws. */
static struct stage stage_of(const struct encoder *e, const struct batch *b,
                             struct pass pass, int64_t index) {
    const bool in_last = index >= 2 * (e->config->num_hidden_layers - 1);
    const bool is_attention = index % 2 == 0;
    const struct row_set *out = in_last && picks(e, b) ? &e->read : &e->all;
    const struct row_set *in = is_attention ? &e->all : out;
    return (struct stage){
        .rows_in = in->rows,
        .rows_out = out->rows,
        .tokens_in = in->tokens,
        .tokens_out = out->tokens,
        .pick = in != out ? b->output_rows : NULL,
        .attention = {b->num_sequences, e->all.starts, out->starts, names_of(out)},
        .train = pass.train,
        .seed = pass.seed,
        .step = pass.step,
        .batch_norms = batch_norms(pass),
        .targets = (double)b->num_output_rows,
    };
}

static float embedding_rate(const struct encoder *e, struct pass pass) {
    return pass.train ? (float)e->config->hidden_dropout_prob : 0;
}

static struct rng embedding_stream(struct pass pass) {
    return rng_stream(pass.seed, RNG_DROPOUT, DROPOUT_SITE_EMBEDDINGS, pass.step);
}

/* ---- Forward. ---- */

/* y = final_norm ? N_f(x) : x, or dual_out x + N_f(second); always f32. */
static struct tensor finish(struct encoder *e, const struct batch *b, struct pass pass,
                            const struct streams *io) {
    const struct tensor y = tensor_head(e->output, io->x.rows);
    if (!e->final.kind) {
        rows_copy(y, io->x, io->x.rows);
        return y;
    }
    norm_forward(&e->final, y, is_dual(e) ? io->second : io->x, final_rows(e, b, pass));
    if (is_dual(e))
        rows_add(y, io->x, (float)e->config->arrangement.dual_out,
                 device_threads(e->device));
    return y;
}

static void run_layers(struct encoder *e, const struct batch *b, struct pass pass,
                       struct streams *io) {
    const int64_t count = 2 * e->config->num_hidden_layers;
    for (int64_t i = 0; i < count; i++) {
        const struct stage stage = stage_of(e, b, pass, i);
        if (stage.pick && is_dual(e)) {
            const struct tensor read = tensor_head(e->second[1], stage.rows_out);
            rows_gather(read, io->second, stage.pick, stage.tokens_out,
                        device_threads(e->device));
            io->second = read;
        }
        sublayer_forward(&e->sublayers[i], &stage, &e->workspace, io);
    }
}

enum status encoder_forward(struct encoder *e, const struct batch *batch,
                            struct pass pass, struct tensor *output, struct error *err) {
    assert(e->can_train || !pass.train);
    TRY(check_batch(e, batch, err));
    row_set_fill(&e->all, batch, NULL, batch->num_tokens);
    row_set_fill(&e->read, batch, batch->output_rows, batch->num_output_rows);
    struct streams io = {.x = tensor_head(e->embedded, e->all.rows)};
    embedding_forward(&e->embedding, io.x, batch->input_ids, batch->num_tokens,
                      names_of(&e->all), embedding_rate(e, pass), embedding_stream(pass));
    if (is_dual(e)) {
        io.second = tensor_head(e->second[0], e->all.rows);
        rows_scale(io.second, io.x, (float)e->config->arrangement.dual_stream,
                   device_threads(e->device));
    }
    run_layers(e, batch, pass, &io);
    e->last = io.x;
    *output = tensor_head(finish(e, batch, pass, &io), batch->num_output_rows);
    if (gathers(e, batch)) {
        const struct tensor read = tensor_head(e->gathered, batch->num_output_rows);
        rows_gather(read, *output, batch->output_rows, read.rows,
                    device_threads(e->device));
        *output = read;
    }
    return device_check(e->device, err);
}

/* ---- Backward. ---- */

/* d->x is the output's gradient; afterwards those of the last sublayer's two streams. */
static void finish_backward(struct encoder *e, const struct batch *b, struct pass pass,
                            struct streams *d) {
    const int threads = device_threads(e->device);
    const int read = picks(e, b);
    const struct norm_rows rows = final_rows(e, b, pass);
    if (!e->final.kind)
        return;
    if (!is_dual(e)) {
        norm_backward(&e->final, d->x, d->x, e->last, rows);
        return;
    }
    d->second = tensor_head(e->dsecond[read], d->x.rows);
    norm_backward(&e->final, d->second, d->x, tensor_head(e->second[read], d->x.rows),
                  rows);
    rows_scale(d->x, d->x, (float)e->config->arrangement.dual_out, threads);
}

static void run_layers_backward(struct encoder *e, const struct batch *b,
                                struct pass pass, struct streams *d) {
    const int threads = device_threads(e->device);
    int turn = 0;
    for (int64_t i = 2 * e->config->num_hidden_layers; i-- > 0;) {
        const struct stage stage = stage_of(e, b, pass, i);
        sublayer_backward(&e->sublayers[i], &stage, &e->workspace, d, &turn);
        if (stage.pick && is_dual(e)) {
            const struct tensor all = tensor_head(e->dsecond[0], stage.rows_in);
            rows_clear(all, 0);
            rows_scatter(all, d->second, stage.pick, stage.tokens_out, threads);
            d->second = all;
        }
        if (i % 2 == 0)
            d->bottom.data = NULL;
    }
}

void encoder_backward(struct encoder *e, const struct batch *batch, struct pass pass,
                      struct tensor doutput) {
    assert(e->can_train && doutput.rows == batch->num_output_rows);
    const struct row_set *out = picks(e, batch) ? &e->read : &e->all;
    struct streams d = {.x = tensor_head(e->workspace.dx[0], out->rows)};
    if (gathers(e, batch)) {
        rows_clear(d.x, 0);
        rows_scatter(d.x, doutput, batch->output_rows, doutput.rows,
                     device_threads(e->device));
    } else {
        rows_copy(d.x, doutput, out->tokens);
    }
    finish_backward(e, batch, pass, &d);
    run_layers_backward(e, batch, pass, &d);
    if (is_dual(e))
        rows_add(d.x, d.second, (float)e->config->arrangement.dual_stream,
                 device_threads(e->device));
    embedding_backward(&e->embedding, d.x, batch->input_ids, batch->num_tokens,
                       names_of(&e->all), embedding_rate(e, pass),
                       embedding_stream(pass));
}

/* ---- What it tells. ---- */

static int add_figures(struct norm_figures *sum, const struct norm *n) {
    if (!n->kind || n->kind->figures != sum->names)
        return 0;
    for (int i = 0; i < sum->count; i++)
        sum->values[i] += n->figures[i];
    return 1;
}

struct norm_figures encoder_norm_figures(const struct encoder *e) {
    struct norm_figures f = {.names = e->config->arrangement.norm->figures};
    while (f.names && f.names[f.count])
        f.count++;
    int sites = add_figures(&f, &e->final);
    for (int64_t i = 0; i < 2 * e->config->num_hidden_layers; i++)
        sites += add_figures(&f, &e->sublayers[i].pre) +
                 add_figures(&f, &e->sublayers[i].post);
    for (int i = 0; i < f.count; i++)
        f.values[i] /= sites;
    return f;
}

struct parameter *encoder_word_embeddings(const struct encoder *e) {
    return e->embedding.word;
}

void encoder_free(struct encoder *e) {
    if (!e)
        return;
    free(e->sublayers);
    free(e);
}
