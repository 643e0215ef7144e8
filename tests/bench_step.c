/* bench_step - our training steps on command: what tests/bench puts beside PyTorch.
 *
 * usage: bench_step [key=value ...]    keys: see `keys` and `words` below
 *        bench_step presets            a line an arrangement: name, rows|batch (norms
 * over)
 *
 * A line "step COUNT LENGTHS" on stdin runs COUNT steps on sequences of such lengths
 * ("128x32,40" = 32 of 128 tokens and one of 40; none beyond what lengths= said) and is
 * answered by a line of seconds, means of COUNT: step, and in it forward, head, backward,
 * update (norm, clipping, AdamW), and cpu. The first step of a shape makes its
 * primitives. It is the code that finetune and pretrain run, on random weights and
 * made-up tokens; train=0 is evaluation, forward and loss without gradients. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "encoder/adamw.h"
#include "encoder/encoder.h"
#include "encoder/scattered.h"
#include "finetune/head.h"
#include "pretrain/mlm_head.h"

/* ---- Options. ---- */

static struct sizes {
    double layers, hidden, heads, ffn, vocab, dropout, masked, threads, train;
} z = {12, 768, 12, 3072, 50265, 0.1, 0.15, 0, 1};
static const char *task = "mlm", *dtype = "auto", *arch = "postln", *most = "128x32";

static const struct {
    const char *name;
    double *value;
} keys[] = {{"layers", &z.layers}, {"hidden", &z.hidden},   {"heads", &z.heads},
            {"ffn", &z.ffn},       {"vocab", &z.vocab},     {"dropout", &z.dropout},
            {"masked", &z.masked}, {"threads", &z.threads}, {"train", &z.train}};
static const struct {
    const char *name, **value;
} words[] = {{"task", &task}, {"dtype", &dtype}, {"arch", &arch}, {"lengths", &most}};

static void fail(const char *what, const char *text) {
    fprintf(stderr, "bench_step: %s %s\n", what, text);
    exit(2);
}

static void need(enum status status, const struct error *err) {
    if (status != OK)
        fail("failed:", err->text);
}

static void read_option(char *word) {
    char *equals = strchr(word, '=');
    if (!equals)
        fail("expected key=value, found", word);
    *equals = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i].name, word)) {
            *words[i].value = equals + 1;
            return;
        }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(keys[i].name, word)) {
            *keys[i].value = atof(equals + 1);
            return;
        }
    fail("no such key:", word);
}

static void print_presets(void) {
    struct error err;
    struct config c;
    for (const struct preset *p = config_presets; p->name; p++) {
        config_default(&c);
        need(config_set_arch(&c, p->name, &err), &err);
        printf("%s %s\n", p->name, c.arrangement.norm->buffers ? "batch" : "rows");
    }
}

/* ---- Batches. ---- */

enum { MOST_SEQUENCES = 4096 };

struct bench {
    struct config config;
    struct device *device;
    struct parameters parameters;
    struct encoder *encoder;
    struct head *head;         /* task=cls */
    struct mlm_head *mlm_head; /* task=mlm */
    struct arena arena;
    struct limits limits;
    int32_t starts[MOST_SEQUENCES + 1];
    uint32_t numbers[MOST_SEQUENCES];
    int32_t *ids, *rows, *labels;
    float *classes;
    struct tensor dhidden;
    struct batch batch;
    int64_t steps;
};

static bool is_mlm(void) { return !strcmp(task, "mlm"); }

/* "128x32,40" to starts; the number of sequences. */
static int64_t read_lengths(const char *text, int32_t *starts, int64_t *longest) {
    int64_t count = 0;
    *longest = 0;
    for (char *end = NULL; *text; text = *end == ',' ? end + 1 : end) {
        const long length = strtol(text, &end, 10);
        const long times = *end == 'x' ? strtol(end + 1, &end, 10) : 1;
        if (end == text || length < 1 || times < 1 || count + times > MOST_SEQUENCES ||
            (*end && *end != ','))
            fail("no lengths:", text);
        for (long i = 0; i < times; i++, count++)
            starts[count + 1] = starts[count] + (int32_t)length;
        *longest = length > *longest ? length : *longest;
    }
    return count;
}

/* Every n-th row is masked so that their share is exact. */
static bool is_masked(int64_t row) {
    return floor((double)(row + 1) * z.masked) > floor((double)row * z.masked);
}

static int64_t count_outputs(int64_t sequences, int64_t tokens) {
    return is_mlm() ? (int64_t)floor((double)tokens * z.masked) : sequences;
}

static void fill_batch(struct bench *b, const char *lengths) {
    int64_t longest, outputs = 0;
    const int64_t sequences = read_lengths(lengths, b->starts, &longest);
    const int64_t tokens = b->starts[sequences];
    for (int64_t n = 0; n < tokens; n++)
        if (is_mlm() && is_masked(n)) {
            b->labels[outputs] = b->ids[n];
            b->rows[outputs++] = (int32_t)n;
        }
    for (int64_t s = 0; s < sequences && !is_mlm(); s++)
        b->rows[outputs++] = b->starts[s];
    b->batch = (struct batch){sequences,  tokens,  b->ids, b->starts,
                              b->numbers, b->rows, outputs};
}

/* ---- The model. ---- */

static void lay_out(struct bench *b, struct arena *arena) {
    const struct limits l = b->limits;
    const bool train = z.train > 0;
    encoder_layout(b->encoder, arena, l, train);
    if (is_mlm())
        mlm_head_layout(b->mlm_head, arena, l.output_rows, train);
    else
        head_layout(b->head, arena, l.output_rows, train);
    b->ids = ARENA_TAKE(arena, int32_t, l.tokens);
    b->rows = ARENA_TAKE(arena, int32_t, l.output_rows);
    b->labels = ARENA_TAKE(arena, int32_t, l.output_rows);
    b->classes = ARENA_TAKE(arena, float, l.output_rows);
    b->dhidden =
        tensor_take(arena, DTYPE_F32, l.output_rows, config_stream_size(&b->config));
}

static void set_config(struct config *c) {
    struct error err;
    config_default(c);
    c->num_hidden_layers = (int64_t)z.layers;
    c->hidden_size = (int64_t)z.hidden;
    c->num_attention_heads = (int64_t)z.heads;
    c->intermediate_size = (int64_t)z.ffn;
    c->vocab_size = (int64_t)z.vocab;
    c->hidden_dropout_prob = c->attention_probs_dropout_prob = z.dropout;
    c->num_labels = 2;
    need(config_set_arch(c, arch, &err), &err);
    need(config_check(c, &err), &err);
}

static void declare(struct bench *b) {
    struct error err;
    struct parameters *p = &b->parameters;
    need(encoder_declare(&b->encoder, &b->config, b->device, p, &err), &err);
    if (is_mlm())
        need(mlm_head_declare(&b->mlm_head, &b->config, b->device, p,
                              encoder_word_embeddings(b->encoder), &err),
             &err);
    else
        need(head_declare(&b->head, &b->config, b->device, p, &err), &err);
    need(parameters_allocate(p, z.train > 0, &err), &err);
    parameters_initialise(p, &b->config, 1);
    if (z.train > 0 && !is_mlm()) /* as classifier_load() */
        scattered_settle(encoder_word_embeddings(b->encoder));
    if (z.train > 0)
        parameters_clear_gradients(p);
}

static void open_model(struct bench *b) {
    struct error err;
    struct arena measure = {0};
    int64_t longest;
    set_config(&b->config);
    need(device_open(&b->device, (int)z.threads, NULL, &err), &err);
    need(device_set_dtype_named(b->device, dtype, &err), &err);
    declare(b);
    const int64_t sequences = read_lengths(most, b->starts, &longest);
    const int64_t tokens = b->starts[sequences];
    b->limits =
        (struct limits){tokens, sequences, longest, count_outputs(sequences, tokens)};
    lay_out(b, &measure);
    need(arena_open(&b->arena, measure.used, &err), &err);
    lay_out(b, &b->arena);
    for (int64_t n = 0; n < tokens; n++)
        b->ids[n] = (int32_t)(5 + n * 7919 % ((int64_t)z.vocab - 5));
    for (int64_t s = 0; s < sequences; s++)
        b->numbers[s] = (uint32_t)s;
    for (int64_t s = 0; s < b->limits.output_rows; s++)
        b->classes[s] = (float)(s % 2);
}

/* ---- Steps. ---- */

enum part { STEP, FORWARD, HEAD, BACKWARD, UPDATE, CPU, PARTS };
static const char *const part_names[PARTS] = {"step",     "forward", "head",
                                              "backward", "update",  "cpu"};

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Loss of the head and its gradient in dhidden; without training the loss alone. */
static void run_head(struct bench *b, struct pass pass, struct tensor hidden,
                     struct tensor dhidden) {
    const struct tensor *wanted = pass.train ? &dhidden : NULL;
    if (is_mlm()) {
        mlm_head_loss(b->mlm_head, hidden, b->labels, wanted);
        return;
    }
    head_forward(b->head, hidden, pass, b->numbers);
    head_loss(b->head, hidden, b->classes, pass, b->numbers, wanted);
}

/* As the trainer's. */
static void update(struct bench *b) {
    static const struct adamw rule = {1e-5, 0.9, 0.98, 1e-6, 0.01};
    const int threads = device_threads(b->device);
    const double scale = 1 / (double)b->batch.num_output_rows;
    parameters_center_gradients(&b->parameters, threads);
    const double norm = adamw_gradient_norm(&b->parameters, scale, threads);
    adamw_update(&b->parameters, &rule, scale * fmin(1, 1 / (norm + 1e-6)), b->steps,
                 threads);
    parameters_center_values(&b->parameters, threads);
}

static void step(struct bench *b, double parts[PARTS]) {
    struct error err;
    const struct pass pass = {
        .train = z.train > 0, .seed = 1, .step = (uint64_t)++b->steps};
    struct tensor hidden;
    const struct tensor dhidden = tensor_head(b->dhidden, b->batch.num_output_rows);
    double at[UPDATE + 1];
    const double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    at[0] = seconds(CLOCK_MONOTONIC);
    need(encoder_forward(b->encoder, &b->batch, pass, &hidden, &err), &err);
    at[1] = seconds(CLOCK_MONOTONIC);
    run_head(b, pass, hidden, dhidden);
    at[2] = seconds(CLOCK_MONOTONIC);
    if (pass.train)
        encoder_backward(b->encoder, &b->batch, pass, dhidden);
    at[3] = seconds(CLOCK_MONOTONIC);
    if (pass.train)
        update(b);
    at[4] = seconds(CLOCK_MONOTONIC);
    need(device_check(b->device, &err), &err);
    parts[STEP] += at[4] - at[0];
    for (int p = FORWARD; p <= UPDATE; p++)
        parts[p] += at[p] - at[p - 1];
    parts[CPU] += seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
}

static void answer(struct bench *b, char *line) {
    double parts[PARTS] = {0};
    char lengths[8192];
    int count;
    if (sscanf(line, "step %d %8191s", &count, lengths) != 2 || count < 1)
        fail("expected \"step COUNT LENGTHS\", found", line);
    fill_batch(b, lengths);
    for (int i = 0; i < count; i++)
        step(b, parts);
    for (int p = 0; p < PARTS; p++)
        printf("%s=%.6f%c", part_names[p], parts[p] / count, p + 1 < PARTS ? ' ' : '\n');
    fflush(stdout);
}

int main(int argc, char **argv) {
    static struct bench b;
    static char line[8300];
    if (argc == 2 && !strcmp(argv[1], "presets")) {
        print_presets();
        return 0;
    }
    for (int i = 1; i < argc; i++)
        read_option(argv[i]);
    open_model(&b);
    printf("%s\n", device_description(b.device));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        answer(&b, line);
    return 0;
}
