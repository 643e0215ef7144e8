/* bench_encoder - a training step of an encoder with MLM head: time, tokens and flops a
 * second.
 *
 * usage: bench_encoder [key=value ...]   sizes layers hidden heads ffn vocab, batch
 * sequences length masked, dropout, threads, steps, arch; also real=1: lengths as GLUE's
 * (mean 40, at most `length`). One line: median step time and rates, and the
 * processor time of that step, which other work on the machine disturbs less. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "encoder/adamw.h"
#include "encoder/encoder.h"
#include "pretrain/mlm_head.h"

/* ---- Options. ---- */

static struct sizes {
    double layers, hidden, heads, ffn, vocab, sequences, length, masked, dropout, threads,
        steps, real, train, bf16;
} z = {2, 128, 4, 512, 2000, 16, 64, 0.15, 0.1, 1, 30, 0, 1, 0};
static const char *arch = "postln";

static const struct {
    const char *name;
    double *value;
} keys[] = {{"layers", &z.layers},   {"hidden", &z.hidden}, {"heads", &z.heads},
            {"ffn", &z.ffn},         {"vocab", &z.vocab},   {"sequences", &z.sequences},
            {"length", &z.length},   {"masked", &z.masked}, {"dropout", &z.dropout},
            {"threads", &z.threads}, {"steps", &z.steps},   {"real", &z.real},
            {"train", &z.train},     {"bf16", &z.bf16}};

static void read_option(const char *word) {
    const char *equals = strchr(word, '=');
    if (equals && strncmp(word, "arch=", 5) == 0) {
        arch = equals + 1;
        return;
    }
    for (size_t i = 0; equals && i < sizeof keys / sizeof *keys; i++)
        if (strlen(keys[i].name) == (size_t)(equals - word) &&
            strncmp(keys[i].name, word, (size_t)(equals - word)) == 0) {
            *keys[i].value = atof(equals + 1);
            return;
        }
    fprintf(stderr, "bench_encoder: what is %s?\n", word);
    exit(2);
}

static void need(enum status status, const struct error *err) {
    if (status == OK)
        return;
    fprintf(stderr, "bench_encoder: %s\n", err->text);
    exit(1);
}

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now(void) { return seconds(CLOCK_MONOTONIC); }

/* ---- The model and its batch. ---- */

struct bench {
    struct config config;
    struct device *device;
    struct parameters parameters;
    struct encoder *encoder;
    struct mlm_head *head;
    struct arena arena;
    int32_t *ids, *starts, *rows, *labels;
    uint32_t *numbers;
    struct batch batch;
};

static void *array(int64_t count) {
    void *a = calloc((size_t)count, 4);
    if (!a)
        exit(1);
    return a;
}

/* Lengths of about 1/4 to 2.5 times 40, as sentences have. */
static int64_t length_of(int64_t sequence) {
    const struct rng r = rng_stream(1, RNG_TEST, 0, 0);
    float normal[2];
    struct rng_block b = rng_draw(r, (uint32_t)sequence, 0, 0, 0);
    rng_normal(b.word[0], b.word[1], normal);
    const double l = z.real > 0 ? 36.0 * exp(0.5 * (double)normal[0]) : z.length;
    return (int64_t)fmax(4, fmin(z.length, l));
}

static void make_batch(struct bench *b) {
    const int64_t sequences = (int64_t)z.sequences;
    const int64_t most = sequences * (int64_t)z.length;
    int64_t n = 0, masked = 0;
    b->ids = array(most), b->rows = array(most), b->labels = array(most);
    b->starts = array(sequences + 1), b->numbers = array(sequences);
    for (int64_t s = 0; s < sequences; s++) {
        b->numbers[s] = (uint32_t)s;
        const int64_t end = n + length_of(s);
        for (; n < end; n++) {
            b->ids[n] = (int32_t)(5 + n * 7919 % ((int64_t)z.vocab - 5));
            if (fmod((double)n * z.masked, 1) + z.masked >= 1) {
                b->labels[masked] = b->ids[n];
                b->rows[masked++] = (int32_t)n;
            }
        }
        b->starts[s + 1] = (int32_t)n;
    }
    b->batch =
        (struct batch){sequences, n, b->ids, b->starts, b->numbers, b->rows, masked};
}

static void layout(struct bench *b, struct arena *arena) {
    const struct limits limits = {b->batch.num_tokens, b->batch.num_sequences,
                                  (int64_t)z.length, b->batch.num_output_rows};
    encoder_layout(b->encoder, arena, limits, z.train > 0);
    mlm_head_layout(b->head, arena, limits.output_rows, z.train > 0);
}

static void open_model(struct bench *b) {
    struct error err;
    struct arena measure = {0};
    config_default(&b->config);
    b->config.num_hidden_layers = (int64_t)z.layers;
    b->config.hidden_size = (int64_t)z.hidden;
    b->config.num_attention_heads = (int64_t)z.heads;
    b->config.intermediate_size = (int64_t)z.ffn;
    b->config.vocab_size = (int64_t)z.vocab;
    b->config.max_position_embeddings = (int64_t)z.length + 2;
    b->config.hidden_dropout_prob = b->config.attention_probs_dropout_prob = z.dropout;
    need(config_set_arch(&b->config, arch, &err), &err);
    need(config_check(&b->config, &err), &err);
    need(device_open(&b->device, (int)z.threads, NULL, &err), &err);
    need(device_set_dtype(b->device, z.bf16 > 0 ? DTYPE_BF16 : DTYPE_F32, &err), &err);
    need(encoder_declare(&b->encoder, &b->config, b->device, &b->parameters, &err), &err);
    need(mlm_head_declare(&b->head, &b->config, b->device, &b->parameters,
                          encoder_word_embeddings(b->encoder), &err),
         &err);
    need(parameters_allocate(&b->parameters, z.train > 0, &err), &err);
    parameters_initialise(&b->parameters, &b->config, 1);
    layout(b, &measure);
    need(arena_open(&b->arena, measure.used, &err), &err);
    layout(b, &b->arena);
}

/* ---- Steps. ---- */

struct times {
    double forward, head, backward, update, whole, cpu;
};

static struct times step(struct bench *b, int64_t number) {
    static const struct adamw rule = {1e-4, 0.9, 0.98, 1e-6, 0.01};
    struct error err;
    const struct pass pass = {.train = z.train > 0, .seed = 1, .step = (uint64_t)number};
    struct tensor hidden;
    const double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), t0 = now();
    need(encoder_forward(b->encoder, &b->batch, pass, &hidden, &err), &err);
    const double t1 = now();
    mlm_head_loss(b->head, hidden, b->labels, z.train > 0 ? &hidden : NULL);
    const double t2 = now();
    if (z.train > 0)
        encoder_backward(b->encoder, &b->batch, pass, hidden);
    const double t3 = now();
    if (z.train > 0) {
        const double scale = 1 / (double)b->batch.num_output_rows;
        const double norm = adamw_gradient_norm(&b->parameters, scale, (int)z.threads);
        adamw_update(&b->parameters, &rule, scale * fmin(1, 1 / norm), number,
                     (int)z.threads);
    }
    const double t4 = now();
    return (struct times){t1 - t0, t2 - t1, t3 - t2,
                          t4 - t3, t4 - t0, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu};
}

/* Flops of a step's products, nothing computed twice counted, last layer in full. */
static double flops(const struct bench *b) {
    const double n = (double)b->batch.num_tokens, m = (double)b->batch.num_output_rows;
    double pairs = 0;
    for (int64_t s = 0; s < b->batch.num_sequences; s++)
        pairs += pow((double)(b->starts[s + 1] - b->starts[s]), 2);
    const double weights = 4 * z.hidden * z.hidden + 2 * z.hidden * z.ffn;
    const double layer = 2 * n * weights + 4 * pairs * z.hidden;
    const double head = 2 * m * z.hidden * (z.hidden + z.vocab);
    return (z.train > 0 ? 3 : 1) * (z.layers * layer + head);
}

static int by_whole(const void *a, const void *b) {
    const double x = ((const struct times *)a)->whole,
                 y = ((const struct times *)b)->whole;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    static struct bench b;
    for (int i = 1; i < argc; i++)
        read_option(argv[i]);
    make_batch(&b);
    open_model(&b);
    const int count = (int)z.steps;
    const double planned = (double)memory_peak();
    struct times *times = calloc((size_t)count, sizeof *times);
    for (int i = -2; times && i < count; i++) {
        const struct times t = step(&b, i + 3);
        if (i >= 0)
            times[i] = t;
    }
    qsort(times, (size_t)count, sizeof *times, by_whole);
    const struct times t = times[count / 2];
    printf(
        "%s, %lld tokens: %.2f ms [%.2f..%.2f] (forward %.2f, head %.2f, backward "
        "%.2f, update %.2f), %.0f tokens/s, %.0f GF/s; %.2f ms of processor time; %.0f "
        "MB planned, %.0f used\n",
        device_description(b.device), (long long)b.batch.num_tokens, 1e3 * t.whole,
        1e3 * times[count / 4].whole, 1e3 * times[3 * count / 4].whole, 1e3 * t.forward,
        1e3 * t.head, 1e3 * t.backward, 1e3 * t.update,
        (double)b.batch.num_tokens / t.whole, flops(&b) / t.whole / 1e9, 1e3 * t.cpu,
        planned / 1e6, (double)memory_peak() / 1e6);
    free(times);
    return 0;
}
