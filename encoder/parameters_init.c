/* parameters_init - the initial values, and the means that writers of a centred stream
 * must not have.
 *
 * A value is a function of (seed, the row's name, its index), so that arrangements start
 * from the same weights. Rows of a stream of mean zero start as the row of an ordinary
 * stream does, made to fit: the first output of a Pre-RMSNorm encoder is that of the
 * Pre-LN encoder of the same seed. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "encoder/config.h"
#include "encoder/parameters.h"

/* The name without the model's prefix: all arrangements start from the same weights. */
static const char *bare_name(const struct parameter *row, const struct config *config) {
    const char *prefix = config_prefix(config);
    const size_t length = strlen(prefix);
    const bool has = strncmp(row->name, prefix, length) == 0 && row->name[length] == '.';
    return has ? row->name + length + 1 : row->name;
}

/* FNV-1a, 64 bits. */
static uint64_t hash_name(const char *name) {
    uint64_t h = 0xcbf29ce484222325;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3;
    return h;
}

/* A rule's numbers: uniform in (-scale, scale), or normal of that deviation. */
struct rule {
    struct rng stream;
    bool is_uniform;
    double scale;
};

/* Elements 4 block .. 4 block + 3 of the tensor that the row's name has. */
static void draw(const struct rule *rule, size_t block, float out[4]) {
    const struct rng_block b =
        rng_draw(rule->stream, (uint32_t)block, (uint32_t)(block >> 32), 0, 0);
    for (int i = 0; i < 4 && rule->is_uniform; i++)
        out[i] = (float)(rule->scale * (2 * rng_uniform(b.word[i]) - 1));
    for (int i = 0; i < 4 && !rule->is_uniform; i += 2) {
        rng_normal(b.word[i], b.word[i + 1], out + i);
        out[i] = (float)(rule->scale * out[i]);
        out[i + 1] = (float)(rule->scale * out[i + 1]);
    }
}

static float element(const struct rule *rule, size_t i) {
    float block[4];
    draw(rule, i / 4, block);
    return block[i % 4];
}

/* Four values a draw, so that a row's values do not depend on who else drew. */
static void fill(struct parameter *row, const struct rule *rule) {
    for (size_t i = 0; i < row->count; i += 4) {
        float block[4];
        draw(rule, i / 4, block);
        for (size_t j = 0; j < 4 && i + j < row->count; j++)
            row->value[i + j] = block[j];
    }
}

/* The matrix of a whole stream without the mean over its outputs, of which `row` may
 * leave the last out. */
static void fill_writer(struct parameter *row, const struct rule *rule) {
    const size_t in = (size_t)row->shape[1], out = (size_t)row->shape[0];
    fill(row, rule);
    for (size_t i = 0; i < in; i++) {
        double sum = 0;
        for (size_t o = 0; o < out; o++)
            sum += (double)row->value[o * in + i];
        for (size_t o = out; o < (size_t)row->stream; o++)
            sum += (double)element(rule, o * in + i);
        for (size_t o = 0; o < out; o++)
            row->value[o * in + i] -= (float)(sum / (double)row->stream);
    }
}

/* The matrix of a whole stream acting on one without the last channel, which is minus the
 * sum of the others. */
static void fill_reader(struct parameter *row, const struct rule *rule) {
    const size_t in = (size_t)row->shape[1], all = (size_t)row->stream;
    for (size_t o = 0; o < (size_t)row->shape[0]; o++) {
        const float last = element(rule, o * all + all - 1);
        for (size_t i = 0; i < in; i++)
            row->value[o * in + i] = element(rule, o * all + i) - last;
    }
}

/* Glorot and Bengio 2010 for the Xavier rules; torch_linear is PyTorch's default of a
 * linear layer's weight. */
static struct rule linear_rule(const struct parameter *row, const struct arrangement *a,
                               struct rng stream) {
    const bool reads = row->stream && row->side == PARAMETER_READS;
    const bool writes = row->stream && row->side == PARAMETER_WRITES;
    const double out = (double)(writes ? row->stream : row->shape[0]);
    const double in = (double)(reads ? row->stream : row->shape[1]);
    switch (a->init) {
        case INIT_RULE_XAVIER_NORMAL:
            return (struct rule){stream, false, row->gain * sqrt(2 / (in + out))};
        case INIT_RULE_XAVIER_UNIFORM:
            return (struct rule){stream, true, row->gain * sqrt(6 / (in + out))};
        case INIT_RULE_TORCH_LINEAR:
            return (struct rule){stream, true, row->gain / sqrt(in)};
        default:
            return (struct rule){stream, false, row->gain * a->initializer_range};
    }
}

static void fill_linear(struct parameter *row, const struct arrangement *a,
                        struct rng stream) {
    const struct rule rule = linear_rule(row, a, stream);
    if (row->stream && row->side == PARAMETER_WRITES)
        fill_writer(row, &rule);
    else if (row->stream && row->stream > row->shape[1])
        fill_reader(row, &rule);
    else
        fill(row, &rule);
}

static void fill_constant(struct parameter *row, float value) {
    for (size_t i = 0; i < row->count; i++)
        row->value[i] = value;
}

void parameters_initialise_row(struct parameter *row, const struct config *config,
                               uint64_t seed) {
    const struct arrangement *a = &config->arrangement;
    const uint64_t hash = hash_name(bare_name(row, config));
    const struct rng stream =
        rng_stream(seed, RNG_INIT, (uint32_t)(hash >> 32), (uint32_t)hash);
    switch (row->init) {
        case PARAMETER_ZERO:
            fill_constant(row, 0);
            break;
        case PARAMETER_ONE:
            fill_constant(row, 1);
            break;
        case PARAMETER_EMBEDDING:
            fill(row, &(struct rule){stream, false, a->initializer_range});
            break;
        case PARAMETER_LINEAR:
            fill_linear(row, a, stream);
            break;
    }
    if (row->zero_row >= 0 && row->zero_row < row->shape[0])
        memset(row->value + row->zero_row * row->shape[1], 0,
               (size_t)row->shape[1] * sizeof *row->value);
}

void parameters_initialise(struct parameters *p, const struct config *config,
                           uint64_t seed) {
    for (int i = 0; i < p->count; i++)
        parameters_initialise_row(p->rows[i], config, seed);
}

/* ---- Staying centred. ---- */

/* A writer that leaves a channel out is free: that channel makes the sum zero. */
static bool is_centered(const struct parameter *row) {
    return row->stream && row->side == PARAMETER_WRITES && row->shape[0] == row->stream;
}

/* `matrix` has row's shape; a thread owns columns. */
static void center(const struct parameter *row, float *matrix, int threads) {
    const int64_t out = row->shape[0], in = row->rank == 2 ? row->shape[1] : 1;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t first = 0; first < in; first += 64) {
        const int64_t last = first + 64 < in ? first + 64 : in;
        double sums[64] = {0};
        for (int64_t o = 0; o < out; o++)
            for (int64_t i = first; i < last; i++)
                sums[i - first] += (double)matrix[o * in + i];
        for (int64_t o = 0; o < out; o++)
            for (int64_t i = first; i < last; i++)
                matrix[o * in + i] -= (float)(sums[i - first] / (double)out);
    }
}

void parameters_center_gradients(struct parameters *p, int threads) {
    parameters_settle_all(p);
    for (int i = 0; i < p->count; i++)
        if (is_centered(p->rows[i]))
            center(p->rows[i], p->rows[i]->gradient, threads);
}

void parameters_center_values(struct parameters *p, int threads) {
    for (int i = 0; i < p->count; i++)
        if (is_centered(p->rows[i]))
            center(p->rows[i], p->rows[i]->value, threads);
}
