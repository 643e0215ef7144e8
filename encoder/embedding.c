/* embedding - token ids to hidden states, and the scattered gradient back.
 *
 * Forward is one pass over rows: three rows of tables added, norm, dropout, centring.
 * Backward scatters: a word may stand at many places, so threads own columns, not tokens,
 * and no two of them add to the same number. The token types' row, the same for all, gets
 * the sum of all rows. */
#include "encoder/embedding.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "encoder/columns.h"
#include "encoder/rows.h"
#include "encoder/scattered.h"
#include "encoder/vector.h"

/* The table's gradient is a product too where an MLM head is tied to it. */
void embedding_declare(struct embedding *e, const struct config *config,
                       struct team *team, struct parameters *p) {
    const struct arrangement *a = &config->arrangement;
    const char *prefix = config_prefix(config);
    struct parameter_spec table = {.init = PARAMETER_EMBEDDING,
                                   .zero_row = config->pad_token_id,
                                   .decay = true,
                                   .is_product = true,
                                   .scatters = true};
    char name[128];
    *e = (struct embedding){.first_position = config->pad_token_id + 1,
                            .pad_token_id = config->pad_token_id,
                            .narrows = config_stream_size(config) < config->hidden_size,
                            .centers = a->stream_center != STREAM_CENTER_NONE,
                            .team = team};
    e->word = parameters_add(p, table, config->vocab_size, config->hidden_size,
                             "%s.embeddings.word_embeddings.weight", prefix);
    table.is_product = table.scatters = false;
    e->position =
        parameters_add(p, table, config->max_position_embeddings, config->hidden_size,
                       "%s.embeddings.position_embeddings.weight", prefix);
    table.zero_row = -1;
    e->token_type = parameters_add(p, table, config->type_vocab_size, config->hidden_size,
                                   "%s.embeddings.token_type_embeddings.weight", prefix);
    snprintf(name, sizeof name, "%s.embeddings.LayerNorm", prefix);
    if (a->embed_norm)
        norm_declare(&e->norm, norm_aux(a), config->hidden_size, team, p, name);
    team_reserve(team, config->hidden_size, 2 * config->hidden_size);
}

void embedding_layout(struct embedding *e, struct arena *arena, enum dtype dtype,
                      int64_t max_rows) {
    const int64_t width = e->word->shape[1];
    norm_layout(&e->norm, arena, max_rows);
    if (e->norm.kind)
        e->sum = tensor_take(arena, dtype, max_rows, width);
    if (e->narrows)
        e->wide = tensor_take(arena, DTYPE_F32, max_rows, width);
}

HOT static void sum_row(float *x, const float *word, const float *position,
                        const float *token_type, int64_t width) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        x[c] = word[c] + position[c] + token_type[c];
}

static void forward_row(const struct embedding *e, struct tensor x, int32_t id,
                        struct row_names names, float rate, struct rng stream,
                        int64_t n) {
    const int64_t width = e->word->shape[1];
    float *room = team_room(e->team), *sum = room + width;
    sum_row(sum, e->word->value + id * width,
            e->position->value + (names.token[n] + e->first_position) * width,
            e->token_type->value, width);
    if (e->norm.kind) {
        rows_store(e->sum, n, sum);
        e->norm.kind->forward_row(&e->norm, sum, sum, n);
    }
    dropout_row(sum, width, rate, stream, names.sequence[n], names.token[n], 0);
    if (e->centers)
        rows_center(sum, x.columns, sum, width);
    rows_store(x, n, sum);
}

void embedding_forward(const struct embedding *e, struct tensor x, const int32_t *ids,
                       int64_t num_tokens, struct row_names names, float rate,
                       struct rng stream) {
#pragma omp parallel for schedule(static) num_threads(e->team->threads)
    for (int64_t n = 0; n < num_tokens; n++)
        forward_row(e, x, ids[n], names, rate, stream, n);
    rows_clear(x, num_tokens);
}

/* Columns that one thread adds: it goes through all tokens in order, so that the sums of
 * a word's row do not depend on the number of threads. */
enum { WIDTH = 64 };

HOT static void add_row(float *to, const float *from, int64_t width) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        to[c] += from[c];
}

static void add_columns(const struct embedding *e, struct tensor dx, const int32_t *ids,
                        int64_t num_tokens, const uint32_t *token, int64_t column) {
    const int64_t width = dx.columns;
    const int64_t count = width - column < WIDTH ? width - column : WIDTH;
    for (int64_t n = 0; n < num_tokens; n++) {
        const float *from = tensor_floats(dx) + n * width + column;
        if (ids[n] != e->pad_token_id)
            add_row(e->word->gradient + ids[n] * width + column, from, count);
        add_row(e->position->gradient + (token[n] + e->first_position) * width + column,
                from, count);
    }
}

/* One row of dx through centring, dropout and norm; what is left, in dsum, is the sum's
 * gradient. */
static void backward_row(const struct embedding *e, struct tensor dsum, struct tensor dx,
                         struct row_names names, float rate, struct rng stream, int64_t n,
                         struct norm_sums sums) {
    float *row = rows_at(dsum, n);
    if (e->centers)
        rows_center(row, dsum.columns, rows_at(dx, n), dx.columns);
    dropout_row(row, dsum.columns, rate, stream, names.sequence[n], names.token[n], 0);
    if (e->norm.kind)
        e->norm.kind->backward_row(&e->norm, row, row,
                                   rows_read(e->sum, n, team_room(e->team)), n, sums);
}

void embedding_backward(const struct embedding *e, struct tensor dx, const int32_t *ids,
                        int64_t num_tokens, struct row_names names, float rate,
                        struct rng stream) {
    const struct tensor dsum = e->narrows ? tensor_head(e->wide, dx.rows) : dx;
    const int64_t width = dsum.columns;
    scattered_settle(e->word);
    for (int64_t n = 0; n < num_tokens; n++)
        scattered_mark(e->word, ids[n]);
#pragma omp parallel for schedule(static) num_threads(e->team->threads)
    for (int part = 0; part < team_parts(num_tokens); part++) {
        float *sums = team_sums(e->team, part, NORM_SUMS * width);
        for (int64_t n = team_first(num_tokens, part);
             n < team_first(num_tokens, part + 1); n++)
            backward_row(e, dsum, dx, names, rate, stream, n, norm_sums(&e->norm, sums));
    }
    if (e->norm.kind)
        norm_add(&e->norm, num_tokens, 0);
#pragma omp parallel for schedule(static) num_threads(e->team->threads)
    for (int64_t column = 0; column < width; column += WIDTH)
        add_columns(e, dsum, ids, num_tokens, names.token, column);
    columns_sum(e->token_type->gradient, tensor_head(dsum, num_tokens), e->team->threads);
}
