/* whole_model - a small encoder with both heads. */
#include "tests/whole_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "encoder/checkpoint.h"
#include "finetune/head.h"
#include "pretrain/mlm_head.h"
#include "tests/support.h"

enum { WIDTH = 16 };

struct parts {
    struct device *device;
    struct parameters parameters;
    struct encoder *encoder;
    struct mlm_head *mlm;
    struct head *classifier;
    struct arena arena;
};

static struct error err;

static void declare(struct parts *p, const struct config *config) {
    *p = (struct parts){0};
    SUPPORT_OK(device_open(&p->device, 1, NULL, &err), err);
    SUPPORT_OK(encoder_declare(&p->encoder, config, p->device, &p->parameters, &err),
               err);
    SUPPORT_OK(mlm_head_declare(&p->mlm, config, p->device, &p->parameters,
                                encoder_word_embeddings(p->encoder), &err),
               err);
    SUPPORT_OK(head_declare(&p->classifier, config, p->device, &p->parameters, &err),
               err);
    SUPPORT_OK(parameters_allocate(&p->parameters, false, &err), err);
}

static void undeclare(struct parts *p) {
    head_free(p->classifier);
    mlm_head_free(p->mlm);
    encoder_free(p->encoder);
    parameters_free(&p->parameters);
    arena_close(&p->arena);
    device_close(p->device);
}

/* Values of ordinary size, gains about 1 and variances above 0, so that every term of
 * every formula counts: zeros and ones would hide what is left out. */
static void fill(struct parameters *p) {
    for (int i = 0; i < p->count; i++) {
        struct parameter *row = p->rows[i];
        const struct rng r = rng_stream(5, RNG_TEST, (uint32_t)i, 0);
        for (size_t j = 0; j < row->count; j++) {
            float normal[2];
            const struct rng_block b = rng_draw(r, (uint32_t)j, 0, 0, 0);
            rng_normal(b.word[0], b.word[1], normal);
            row->value[j] = 0.3f * normal[0] + (row->init == PARAMETER_ONE);
            if (row->is_buffer && row->init == PARAMETER_ONE)
                row->value[j] = fabsf(row->value[j]) + 0.2f;
        }
    }
    parameters_center_values(p, 1);
}

const char *whole_model_write(const char *name, const char *arch, const char *switches,
                              double dropout) {
    struct config c;
    struct parts p;
    const char *path = support_path(name);
    config_default(&c);
    c.num_hidden_layers = 2;
    c.hidden_size = WIDTH;
    c.num_attention_heads = 4;
    c.intermediate_size = 24;
    c.vocab_size = WHOLE_MODEL_VOCAB;
    c.max_position_embeddings = 20;
    c.hidden_dropout_prob = dropout;
    c.num_labels = WHOLE_MODEL_LABELS;
    for (int i = 0; i < c.num_labels; i++)
        snprintf(c.labels[i].name, sizeof c.labels[i].name, "label %d", i);
    SUPPORT_OK(config_set_arch(&c, arch, &err), err);
    SUPPORT_OK(config_set_switches(&c, switches, &err), err);
    SUPPORT_OK(config_check(&c, &err), err);
    declare(&p, &c);
    fill(&p.parameters);
    SUPPORT_OK(file_make_directory(path, &err), err);
    SUPPORT_OK(config_write(&c, path, "MaskedLM", &err), err);
    SUPPORT_OK(checkpoint_write_parameters(path, &p.parameters, &err), err);
    undeclare(&p);
    return path;
}

/* Lengths 7, 1, 12, 4. */
static int32_t ids[WHOLE_MODEL_TOKENS] = {0, 5, 6, 7, 8, 9, 2, 2, 0, 11, 12, 13,
                                          5, 5, 5, 3, 4, 6, 7, 2, 0, 30, 29, 2};
static const int32_t starts[] = {0, 7, 8, 20, 24};
static const uint32_t numbers[] = {0, 1, 2, 3};

static void layout(struct parts *p, struct arena *arena) {
    const struct limits limits = {WHOLE_MODEL_TOKENS, 4, 12, WHOLE_MODEL_TOKENS};
    encoder_layout(p->encoder, arena, limits, false);
    mlm_head_layout(p->mlm, arena, WHOLE_MODEL_TOKENS, false);
    head_layout(p->classifier, arena, 16, false);
}

static void copy(double *to, struct tensor from) {
    for (int64_t i = 0; i < from.rows * from.columns; i++)
        to[i] = (double)tensor_floats(from)[i];
}

/* Two passes: all rows for the MLM head, then the first of each sequence for the
 * classifier. */
void whole_model_run(struct whole_model *m, const char *directory) {
    int32_t all[WHOLE_MODEL_TOKENS];
    struct arena measure = {0};
    struct tensor hidden;
    struct parts p;
    for (int32_t i = 0; i < WHOLE_MODEL_TOKENS; i++)
        all[i] = i;
    SUPPORT_OK(config_read(&m->config, directory, &err), err);
    declare(&p, &m->config);
    SUPPORT_OK(
        checkpoint_read_parameters(directory, &m->config, &p.parameters, 0, NULL, &err),
        err);
    layout(&p, &measure);
    SUPPORT_OK(arena_open(&p.arena, measure.used, &err), err);
    layout(&p, &p.arena);
    struct batch batch = {4,   WHOLE_MODEL_TOKENS, ids, starts, numbers,
                          all, WHOLE_MODEL_TOKENS};
    SUPPORT_OK(encoder_forward(p.encoder, &batch, (struct pass){0}, &hidden, &err), err);
    copy(m->mlm, mlm_head_forward(p.mlm, hidden));
    batch.output_rows = starts;
    batch.num_output_rows = 4;
    SUPPORT_OK(encoder_forward(p.encoder, &batch, (struct pass){0}, &hidden, &err), err);
    copy(m->labels, head_forward(p.classifier, hidden, (struct pass){0}, numbers));
    undeclare(&p);
}

/* NaN anywhere makes the difference NaN, which no bound lets through. */
static double difference(const double *a, const double *b, int count) {
    double most = 0, largest = 0;
    for (int i = 0; i < count; i++) {
        const double d = fabs(a[i] - b[i]);
        most = support_worse(most, d);
        largest = fmax(largest, fabs(a[i]));
    }
    return most / largest;
}

double whole_model_difference(const struct whole_model *a, const struct whole_model *b) {
    return support_worse(
        difference(a->mlm, b->mlm, sizeof a->mlm / sizeof *a->mlm),
        difference(a->labels, b->labels, sizeof a->labels / sizeof *a->labels));
}
