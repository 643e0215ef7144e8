/* rewrite - a model directory in memory, to be changed into another that computes the
 * same.
 *
 * Linear layers and norms are addressed the way that the identities speak of them: a site
 * is a norm with the layers that read it, a writer is a matrix whose output goes into the
 * stream. The changes below are exact in real numbers; they are computed in double and
 * rounded once. */
#include "encoder/rewrite.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encoder/checkpoint.h"
#include "encoder/model_files.h"
#include "encoder/weights.h"

/* ---- Reading. ---- */

/* Copies of other tensors, which are not written again. */
static bool is_alias(const struct weights *w, const struct weight *x) {
    return x->tensor->dtype[0] == 'I' || !strcmp(x->name, "lm_head.decoder.weight") ||
           (!strcmp(x->name, "lm_head.decoder.bias") && weights_find(w, "lm_head.bias"));
}

static enum status take(struct rewrite *r, const struct weight *x, struct error *err) {
    struct rewrite_tensor *t = &r->items[r->count];
    if (x->tensor->rank < 1 || x->tensor->rank > 2)
        return error_set(err, ERR_INPUT,
                         "%s: %s: expected a vector or a matrix, found %d axes",
                         x->file->path, x->tensor->name, x->tensor->rank);
    const bool is_bias = !strcmp(x->name, "lm_head.decoder.bias");
    snprintf(t->name, sizeof t->name, "%s", is_bias ? "lm_head.bias" : x->name);
    t->rank = x->tensor->rank;
    memcpy(t->shape, x->tensor->shape, sizeof t->shape);
    t->value = malloc((x->tensor->count + 1) * sizeof *t->value);
    if (!t->value)
        return error_set(err, ERR_MEMORY, "%s: out of memory for %s", x->file->path,
                         x->tensor->name);
    r->count++;
    return safetensors_to_f32(x->file, x->tensor, t->value, err);
}

static enum status take_all(struct rewrite *r, const struct weights *w,
                            struct error *err) {
    r->items = calloc((size_t)w->count + 1, sizeof *r->items);
    if (!r->items)
        return error_set(err, ERR_MEMORY, "%s: out of memory", r->directory);
    for (int i = 0; i < w->count; i++)
        if (!is_alias(w, &w->items[i]))
            TRY(take(r, &w->items[i], err));
    return OK;
}

enum status rewrite_open(struct rewrite *r, const char *directory,
                         const struct notices *notices, struct error *err) {
    struct weights weights;
    *r = (struct rewrite){0};
    TRY(checkpoint_resolve_model(directory, r->directory, notices, err));
    TRY(config_read(&r->config, r->directory, err));
    TRY(weights_open(&weights, r->directory, err));
    enum status status = take_all(r, &weights, err);
    weights_close(&weights);
    if (status != OK)
        rewrite_close(r);
    return status;
}

void rewrite_close(struct rewrite *r) {
    for (int i = 0; i < r->count; i++)
        free(r->items[i].value);
    free(r->items);
    *r = (struct rewrite){0};
}

/* ---- Finding. ---- */

static struct rewrite_tensor *find(const struct rewrite *r, const char *name) {
    for (int i = 0; i < r->count; i++)
        if (!strcmp(r->items[i].name, name))
            return &r->items[i];
    return NULL;
}

struct rewrite_tensor *rewrite_find(const struct rewrite *r, const char *format, ...) {
    char name[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    return find(r, name);
}

enum status rewrite_need(const struct rewrite *r, struct rewrite_tensor **t, int64_t rows,
                         int64_t columns, struct error *err, const char *format, ...) {
    char name[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    *t = find(r, name);
    if (!*t)
        return error_set(err, ERR_INCOMPATIBLE, "%s: %s is missing", r->directory, name);
    const int rank = columns ? 2 : 1;
    if ((*t)->rank == rank && (*t)->shape[0] == rows &&
        (rank == 1 || (*t)->shape[1] == columns))
        return OK;
    return error_set(err, ERR_INCOMPATIBLE,
                     "%s: %s: expected %lld x %lld by config.json, found %lld x %lld",
                     r->directory, name, (long long)rows,
                     (long long)(rank - 1 ? columns : 1), (long long)(*t)->shape[0],
                     (long long)((*t)->rank == 2 ? (*t)->shape[1] : 1));
}

void rewrite_remove(struct rewrite_tensor *t) {
    if (t)
        t->name[0] = 0;
}

static enum status need_linear(const struct rewrite *r, struct rewrite_linear *l,
                               int64_t out, int64_t in, const char *name,
                               struct error *err) {
    TRY(rewrite_need(r, &l->weight, out, in, err, "%s.weight", name));
    return rewrite_need(r, &l->bias, out, 0, err, "%s.bias", name);
}

/* ---- Sites and writers. ---- */

int rewrite_num_sites(const struct rewrite *r) {
    return 2 * (int)r->config.num_hidden_layers + r->config.arrangement.final_norm;
}

static enum status add_reader(const struct rewrite *r, struct rewrite_site *site,
                              int64_t out, const char *name, struct error *err) {
    return need_linear(r, &site->readers[site->num_readers++], out,
                       config_stream_size(&r->config), name, err);
}

static enum status find_heads(const struct rewrite *r, struct rewrite_site *site,
                              struct error *err) {
    static const char *const heads[] = {"lm_head.dense", "classifier.dense",
                                        "pooler.dense"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (rewrite_find(r, "%s.weight", heads[i]))
            TRY(add_reader(r, site, r->config.hidden_size, heads[i], err));
    return OK;
}

/* The layers that read the norm of a layer's attention or feed-forward. */
static enum status find_layer(const struct rewrite *r, int layer, bool is_attention,
                              struct rewrite_site *site, struct error *err) {
    static const char *const parts[] = {"query", "key", "value"};
    const int64_t width = r->config.hidden_size, inner = r->config.intermediate_size;
    char name[128];
    for (int i = 0; i < 3 && is_attention; i++) {
        snprintf(name, sizeof name, "encoder.layer.%d.attention.self.%s", layer,
                 parts[i]);
        TRY(add_reader(r, site, width, name, err));
    }
    snprintf(name, sizeof name, "encoder.layer.%d.intermediate.dense", layer);
    return is_attention ? OK : add_reader(r, site, inner, name, err);
}

enum status rewrite_site(const struct rewrite *r, int i, struct rewrite_site *site,
                         struct error *err) {
    const int64_t width = config_stream_size(&r->config);
    const enum norm_affine affine = r->config.arrangement.norm_affine;
    *site = (struct rewrite_site){.is_final = i == 2 * r->config.num_hidden_layers};
    if (site->is_final)
        snprintf(site->name, sizeof site->name, "LayerNorm");
    else
        snprintf(site->name, sizeof site->name, "encoder.layer.%d.%s.LayerNorm", i / 2,
                 i % 2 ? "intermediate" : "attention");
    if (affine != AFFINE_NONE)
        TRY(rewrite_need(r, &site->weight, width, 0, err, "%s.weight", site->name));
    if (affine == AFFINE_BOTH)
        TRY(rewrite_need(r, &site->bias, width, 0, err, "%s.bias", site->name));
    return site->is_final ? find_heads(r, site, err)
                          : find_layer(r, i / 2, i % 2 == 0, site, err);
}

int rewrite_num_writers(const struct rewrite *r) {
    return 2 * (int)r->config.num_hidden_layers;
}

enum status rewrite_writer(const struct rewrite *r, int i, struct rewrite_linear *writer,
                           struct error *err) {
    char name[128];
    snprintf(name, sizeof name, "encoder.layer.%d.%soutput.dense", i / 2,
             i % 2 ? "" : "attention.");
    return need_linear(r, writer, config_stream_size(&r->config),
                       i % 2 ? r->config.intermediate_size : r->config.hidden_size, name,
                       err);
}

/* ---- Changing. ---- */

void rewrite_fold_input(struct rewrite_linear l, const float *scale, const float *shift) {
    const int64_t out = l.weight->shape[0], in = l.weight->shape[1];
    for (int64_t o = 0; o < out; o++) {
        float *row = l.weight->value + o * in;
        double sum = (double)l.bias->value[o];
        for (int64_t i = 0; i < in; i++) {
            sum += shift ? (double)row[i] * (double)shift[i] : 0;
            row[i] *= scale ? scale[i] : 1;
        }
        l.bias->value[o] = (float)sum;
    }
}

void rewrite_drop_output(struct rewrite_linear l) {
    l.weight->shape[0]--;
    l.bias->shape[0]--;
}

void rewrite_imply_input(struct rewrite_linear l) {
    const int64_t out = l.weight->shape[0], in = l.weight->shape[1];
    for (int64_t o = 0; o < out; o++) {
        const float *from = l.weight->value + o * in;
        float *to = l.weight->value + o * (in - 1);
        const float last = from[in - 1];
        for (int64_t i = 0; i < in - 1; i++)
            to[i] = from[i] - last;
    }
    l.weight->shape[1]--;
}

static void center_columns(struct rewrite_tensor *t) {
    const int64_t rows = t->shape[0], columns = t->rank == 2 ? t->shape[1] : 1;
    for (int64_t c = 0; c < columns; c++) {
        double sum = 0;
        for (int64_t r = 0; r < rows; r++)
            sum += (double)t->value[r * columns + c];
        for (int64_t r = 0; r < rows; r++)
            t->value[r * columns + c] -= (float)(sum / (double)rows);
    }
}

void rewrite_center_output(struct rewrite_linear l) {
    center_columns(l.weight);
    center_columns(l.bias);
}

/* ---- Writing. ---- */

static bool is_head(const char *name) {
    return !strncmp(name, "lm_head.", 8) || !strncmp(name, "classifier.", 11);
}

/* Items and their full names, which the caller frees. Returns the number. */
static int full_items(const struct rewrite *r, struct safetensor *items,
                      char (*names)[192]) {
    int count = 0;
    for (int i = 0; i < r->count; i++) {
        const struct rewrite_tensor *t = &r->items[i];
        if (!t->name[0])
            continue;
        snprintf(names[count], sizeof *names, "%s%s%s",
                 is_head(t->name) ? "" : config_prefix(&r->config),
                 is_head(t->name) ? "" : ".", t->name);
        items[count] = (struct safetensor){
            .name = names[count], .dtype = "F32", .rank = t->rank, .data = t->value};
        memcpy(items[count].shape, t->shape, sizeof t->shape);
        count++;
    }
    return count;
}

static enum status write_tensors(const struct rewrite *r, const char *output,
                                 struct error *err) {
    char path[PATH_BYTES];
    TRY(file_join(path, output, "model.safetensors", err));
    struct safetensor *items = calloc((size_t)r->count + 1, sizeof *items);
    char(*names)[192] = calloc((size_t)r->count + 1, sizeof *names);
    enum status status = OK;
    if (items && names)
        status = safetensors_write(path, items, full_items(r, items, names), err);
    else
        status = error_set(err, ERR_MEMORY, "%s: out of memory", path);
    free(items);
    free(names);
    return status;
}

enum status rewrite_write(struct rewrite *r, const char *output, struct error *err) {
    const char *head = find(r, "classifier.dense.weight") ? "SequenceClassification"
                       : find(r, "lm_head.dense.weight")  ? "MaskedLM"
                                                          : "Model";
    TRY(config_check(&r->config, err));
    TRY(file_make_directory(output, err));
    TRY(model_files_copy_tokenizer(r->directory, output, err));
    TRY(config_write(&r->config, output, head, err));
    return write_tensors(r, output, err);
}
