/* embedding - token ids to hidden states, and the scattered gradient back. */
#include "encoder/embedding.h"

#include <stdio.h>
#include <string.h>

#include "encoder/columns.h"
#include "encoder/vector.h"

void embedding_declare(struct embedding *e, const struct config *config, int threads,
                       struct parameters *p) {
    const struct arrangement *a = &config->arrangement;
    const char *prefix = config_prefix(config);
    struct parameter_spec table = {
        .init = PARAMETER_EMBEDDING, .zero_row = config->pad_token_id, .decay = true};
    char name[128];
    *e = (struct embedding){.first_position = config->pad_token_id + 1,
                            .pad_token_id = config->pad_token_id,
                            .threads = threads};
    e->word = parameters_add(p, table, config->vocab_size, config->hidden_size,
                             "%s.embeddings.word_embeddings.weight", prefix);
    e->position =
        parameters_add(p, table, config->max_position_embeddings, config->hidden_size,
                       "%s.embeddings.position_embeddings.weight", prefix);
    table.zero_row = -1;
    e->token_type = parameters_add(p, table, config->type_vocab_size, config->hidden_size,
                                   "%s.embeddings.token_type_embeddings.weight", prefix);
    snprintf(name, sizeof name, "%s.embeddings.LayerNorm", prefix);
    if (a->embed_norm)
        norm_declare(&e->norm, norm_aux(a), config->hidden_size, threads, p, name);
}

void embedding_layout(struct embedding *e, struct arena *arena, int64_t max_rows) {
    norm_layout(&e->norm, arena, max_rows);
    if (e->norm.kind)
        e->sum = tensor_take(arena, DTYPE_F32, max_rows, e->word->shape[1]);
}

HOT static void sum_row(float *x, const float *word, const float *position,
                        const float *token_type, int64_t width) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        x[c] = word[c] + position[c] + token_type[c];
}

void embedding_forward(const struct embedding *e, struct tensor x, const int32_t *ids,
                       int64_t num_tokens, struct row_names names, float rate,
                       struct rng stream) {
    const int64_t width = x.columns;
    const struct tensor sum = e->norm.kind ? tensor_head(e->sum, x.rows) : x;
#pragma omp parallel for schedule(static) num_threads(e->threads)
    for (int64_t n = 0; n < num_tokens; n++)
        sum_row(tensor_floats(sum) + n * width, e->word->value + ids[n] * width,
                e->position->value + (names.token[n] + e->first_position) * width,
                e->token_type->value, width);
    memset(tensor_floats(sum) + num_tokens * width, 0,
           (size_t)((x.rows - num_tokens) * width) * sizeof(float));
    if (e->norm.kind)
        norm_forward(&e->norm, x, sum, (struct norm_rows){.real = num_tokens});
    dropout_apply(x, rate, stream, names, e->threads);
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

void embedding_backward(const struct embedding *e, struct tensor dx, const int32_t *ids,
                        int64_t num_tokens, struct row_names names, float rate,
                        struct rng stream) {
    dropout_apply(dx, rate, stream, names, e->threads);
    if (e->norm.kind)
        norm_backward(&e->norm, dx, dx, tensor_head(e->sum, dx.rows),
                      (struct norm_rows){.real = num_tokens});
#pragma omp parallel for schedule(static) num_threads(e->threads)
    for (int64_t column = 0; column < dx.columns; column += WIDTH)
        add_columns(e, dx, ids, num_tokens, names.token, column);
    columns_sum(e->token_type->gradient, tensor_head(dx, num_tokens), e->threads);
}
