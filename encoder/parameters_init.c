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
#include "encoder/vector.h"

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

/* log u for u in (0, 1]: u = 2^e m with m within a factor of sqrt 2 of 1, and
 * log m = 2 artanh((m - 1) / (m + 1)) as a series. Exact to a float, also near 1. */
static inline double log_of(double u) {
    uint64_t bits;
    memcpy(&bits, &u, sizeof bits);
    const uint64_t shifted = bits - 0x3fe6a09e00000000; /* sqrt 1/2 */
    const double e = (double)((int32_t)((int64_t)shifted >> 52));
    bits = (shifted & 0xfffffffffffff) + 0x3fe6a09e00000000;
    double m;
    memcpy(&m, &bits, sizeof m);
    const double s = (m - 1) / (m + 1), q = s * s;
    double p = 1.0 / 17;
    p = p * q + 1.0 / 15;
    p = p * q + 1.0 / 13;
    p = p * q + 1.0 / 11;
    p = p * q + 1.0 / 9;
    p = p * q + 1.0 / 7;
    p = p * q + 1.0 / 5;
    p = p * q + 1.0 / 3;
    return e * M_LN2 + 2 * (s + s * q * p);
}

/* cos and sin of b / 2^32 of a turn: b is a whole number of quarters and a rest of at
 * most an eighth, whose Taylor series end early. */
static inline void turn_of(uint32_t b, double *cosine, double *sine) {
    const uint32_t quarter = (b + 0x20000000) >> 30;
    const double x = (double)(int32_t)(b - (quarter << 30)) * (2 * M_PI * 0x1p-32);
    const double q = x * x;
    const double s =
        x + x * q *
                (-1.0 / 6 +
                 q * (1.0 / 120 +
                      q * (-1.0 / 5040 + q * (1.0 / 362880 - q * (1.0 / 39916800)))));
    const double c =
        1 + q * (-0.5 +
                 q * (1.0 / 24 + q * (-1.0 / 720 +
                                      q * (1.0 / 40320 + q * (-1.0 / 3628800 +
                                                              q * (1.0 / 479001600))))));
    const double along = quarter & 1 ? -s : c, across = quarter & 1 ? c : s;
    *cosine = quarter & 2 ? -along : along;
    *sine = quarter & 2 ? -across : across;
}

/* As rng_normal() of each two words, in vectors: there are a hundred million of them. */
HOT static void normals(float *out, const uint32_t *words, int64_t pairs, double scale) {
#pragma omp simd
    for (int64_t i = 0; i < pairs; i++) {
        double cosine, sine;
        const double u = ((double)words[2 * i] + 1) * 0x1p-32;
        const double radius = __builtin_sqrt(-2 * log_of(u));
        turn_of(words[2 * i + 1], &cosine, &sine);
        out[2 * i] = (float)(scale * (double)(float)(radius * cosine));
        out[2 * i + 1] = (float)(scale * (double)(float)(radius * sine));
    }
}

enum { CHUNK = 1024 /* elements drawn at a time */ };

/* Elements first .. first + count - 1 of the tensor that the row's name has; first is a
 * multiple of 4, which a draw gives, and count at most CHUNK. */
static void draw(const struct rule *rule, size_t first, size_t count, float *out) {
    uint32_t words[CHUNK];
    float values[CHUNK];
    for (size_t i = 0; i < count; i += 4) {
        const size_t block = (first + i) / 4;
        const struct rng_block b =
            rng_draw(rule->stream, (uint32_t)block, (uint32_t)(block >> 32), 0, 0);
        memcpy(words + i, b.word, sizeof b.word);
    }
    if (rule->is_uniform)
        for (size_t i = 0; i < count; i++)
            values[i] = (float)(rule->scale * (2 * rng_uniform(words[i]) - 1));
    else
        normals(values, words, (int64_t)(count + 1) / 2, rule->scale);
    memcpy(out, values, count * sizeof *out);
}

static float element(const struct rule *rule, size_t i) {
    float block[4];
    draw(rule, i / 4 * 4, 4, block);
    return block[i % 4];
}

/* Four values a draw, so that a row's values do not depend on who else drew. */
static void fill(struct parameter *row, const struct rule *rule) {
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < row->count; i += CHUNK)
        draw(rule, i, row->count - i < CHUNK ? row->count - i : CHUNK, row->value + i);
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
