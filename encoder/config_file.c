/* config_file - config.json of a model directory: read strictly, written so that
 * transformers opens it.
 *
 * Reading: unknown keys are ignored, as transformers does, except the few whose other
 * values would make it compute another function. Integers become sizes of allocations, so
 * that each has bounds. A file's model_type must agree with its switches, because
 * transformers looks at the model_type alone.
 *
 * Writing: keys of transformers first, then a line for every row of field.c. Numbers are
 * written by hand with the fewest digits that read back exactly: 0.1, not
 * 0.1000000000000001. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/json_file.h"
#include "encoder/field.h"
#include "encoder/modelling.h"

/* What transformers calls the arrangements. */
static const struct {
    const char *model_type, *class_name, *arch;
} model_types[] = {
    {"roberta", "Roberta", "postln"},
    {"roberta-prelayernorm", "RobertaPreLayerNorm", "preln"},
    {"normglue", "NormGlue", "postln"},
};

static enum status bad_value(const char *path, const char *key, const char *expected,
                             const json_t *found, struct error *err) {
    char *text = json_dumps(found, JSON_ENCODE_ANY | JSON_COMPACT);
    error_set(err, ERR_INPUT, "%s: %s: expected %s, found %.80s", path, key, expected,
              text ? text : "something else");
    free(text);
    return ERR_INPUT;
}

/* A word, or a number by its name ("auto"): the parser of the command line reads it, and
 * what it calls a usage error is a bad file here. */
static enum status read_text(const struct field *f, struct config *c, const char *path,
                             const char *text, struct error *err) {
    if (field_parse(f, c, text, err) == OK)
        return OK;
    error_context(err, "%s", path);
    return err->status = ERR_INPUT;
}

/* An object of numbers, as field_format writes it. */
static enum status read_numbers(const struct field *f, struct config *c,
                                const json_t *object, const char *path,
                                struct error *err) {
    const char *name;
    json_t *value;
    if (object && !json_is_null(object) && !json_is_object(object))
        return bad_value(path, f->key, "an object of numbers", object, err);
    json_object_foreach((json_t *)object, name, value) {
        char text[FIELD_TEXT];
        if (!json_is_number(value))
            return bad_value(path, f->key, "an object of numbers", object, err);
        snprintf(text, sizeof text, "%.100s=%.17g", name, json_number_value(value));
        TRY(read_text(f, c, path, text, err));
    }
    return OK;
}

/* An absent or null field keeps its value. */
static enum status read_field(const struct field *f, struct config *c,
                              const json_t *object, const char *path, struct error *err) {
    const json_t *value = json_object_get(object, f->key);
    void *place = (char *)c + f->offset;
    if (json_is_string(value) && f->kind != FIELD_INTEGER && f->kind != FIELD_FLAG)
        return read_text(f, c, path, json_string_value(value), err);
    switch (f->kind) {
        case FIELD_INTEGER:
            return json_file_integer(object, path, f->key, (int64_t)f->least,
                                     (int64_t)f->most, *(int64_t *)place, place, err);
        case FIELD_NUMBER:
            return json_file_number(object, path, f->key, f->least, f->most,
                                    *(double *)place, place, err);
        case FIELD_FLAG:
            return json_file_boolean(object, path, f->key, *(bool *)place, place, err);
        case FIELD_NUMBERS:
            return read_numbers(f, c, value, path, err);
        default:
            return !value || json_is_null(value)
                       ? OK
                       : bad_value(path, f->key, "a word", value, err);
    }
}

/* Keys of transformers whose other values would compute another function. */
static enum status check_foreign(const json_t *object, const char *path,
                                 struct error *err) {
    static const struct {
        const char *key, *only;
    } rows[] = {
        {"hidden_act", "gelu"},
        {"position_embedding_type", "absolute"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *found;
        TRY(json_file_string(object, path, rows[i].key, rows[i].only, &found, err));
        if (strcmp(found, rows[i].only))
            return error_set(err, ERR_INPUT, "%s: %s: expected \"%s\", found \"%s\"",
                             path, rows[i].key, rows[i].only, found);
    }
    bool decoder;
    TRY(json_file_boolean(object, path, "is_decoder", false, &decoder, err));
    return decoder ? error_set(err, ERR_INPUT,
                               "%s: is_decoder: expected false, found true: only "
                               "encoders are supported",
                               path)
                   : OK;
}

/* The switches that a file leaves out are those of what transformers knows by this name.
 */
static enum status set_type(struct config *c, const json_t *object, const char *path,
                            struct error *err) {
    const char *type;
    TRY(json_file_string(object, path, "model_type", NULL, &type, err));
    if (!type)
        return error_set(err, ERR_INPUT, "%s: model_type is missing", path);
    for (size_t i = 0; i < sizeof model_types / sizeof *model_types; i++)
        if (!strcmp(model_types[i].model_type, type)) {
            TRY(config_set_arch(c, model_types[i].arch, err));
            snprintf(c->model_type, sizeof c->model_type, "%s", type);
            return OK;
        }
    return error_set(err, ERR_INPUT,
                     "%s: model_type: expected roberta, roberta-prelayernorm or "
                     "normglue, found \"%.60s\"",
                     path, type);
}

static enum status set_label(struct config *c, const char *path, size_t id,
                             const char *name, struct error *err) {
    if (strlen(name) >= sizeof c->labels[id].name)
        return error_set(err, ERR_INPUT,
                         "%s: id2label: name %zu is longer than %zu bytes", path, id,
                         sizeof c->labels[id].name - 1);
    strcpy(c->labels[id].name, name);
    return OK;
}

/* {"0": "no", "1": "yes"}: every id from 0 on has a name. */
static enum status read_id2label(struct config *c, const json_t *names, const char *path,
                                 struct error *err) {
    size_t count = json_object_size(names), most = sizeof c->labels / sizeof *c->labels;
    if (!json_is_object(names) || count < 1 || count > most)
        return bad_value(path, "id2label", "an object of 1 to 64 names", names, err);
    for (size_t id = 0; id < count; id++) {
        char key[24];
        snprintf(key, sizeof key, "%zu", id);
        const char *name = json_string_value(json_object_get(names, key));
        if (!name)
            return error_set(
                err, ERR_INPUT,
                "%s: id2label: expected a name for each of \"0\" to \"%zu\", "
                "found none for \"%s\"",
                path, count - 1, key);
        TRY(set_label(c, path, id, name, err));
    }
    c->num_labels = (int)count;
    return OK;
}

static bool is_classifier(const json_t *object) {
    const char *name =
        json_string_value(json_array_get(json_object_get(object, "architectures"), 0));
    return name && strstr(name, "ForSequenceClassification");
}

/* transformers leaves id2label out when it is LABEL_0 and LABEL_1. */
static enum status read_labels(struct config *c, const json_t *object, const char *path,
                               struct error *err) {
    const json_t *names = json_object_get(object, "id2label");
    if (names && !json_is_null(names))
        return read_id2label(c, names, path, err);
    int64_t count;
    TRY(json_file_integer(object, path, "num_labels", 1, 64,
                          is_classifier(object) ? 2 : 0, &count, err));
    for (int64_t id = 0; id < count; id++)
        snprintf(c->labels[id].name, sizeof c->labels[id].name, "LABEL_%d", (int)id);
    c->num_labels = (int)count;
    return OK;
}

/* Written out, because the pipeline of transformers takes one label for a sigmoid without
 * it. */
static const char *problem_type(const struct config *c) {
    return c->num_labels == 1 ? "regression" : "single_label_classification";
}

static enum status read_task(struct config *c, const json_t *object, const char *path,
                             struct error *err) {
    const char *task, *problem;
    TRY(read_labels(c, object, path, err));
    TRY(json_file_string(object, path, "finetuning_task", "", &task, err));
    snprintf(c->finetuning_task, sizeof c->finetuning_task, "%.31s", task);
    TRY(json_file_string(object, path, "problem_type", problem_type(c), &problem, err));
    if (strcmp(problem, problem_type(c)))
        return error_set(err, ERR_INPUT,
                         "%s: problem_type: expected \"%s\" with %d labels, found "
                         "\"%.60s\"",
                         path, problem_type(c), c->num_labels, problem);
    return OK;
}

/* The classes of transformers have other defaults for absent keys than fresh models. */
static void set_absent(struct config *c) {
    c->max_position_embeddings = 512;
    c->type_vocab_size = 2;
    c->arrangement.norm_eps = 1e-12;
}

/* In the order of field.c: sizes before what is resolved with the depth; final_eps
 * follows norm_eps unless the file names it. */
static enum status read_fields(struct config *c, const json_t *object, const char *path,
                               struct error *err) {
    set_absent(c);
    for (const struct field *f = config_fields; f->name; f++) {
        if (!strcmp(f->name, "final_eps"))
            c->arrangement.final_eps = c->arrangement.norm_eps;
        TRY(read_field(f, c, object, path, err));
    }
    const char *arch;
    TRY(json_file_string(object, path, "arch", NULL, &arch, err));
    if (arch)
        snprintf(c->arch, sizeof c->arch, "%s", arch);
    return OK;
}

static enum status read_object(struct config *c, const json_t *object, const char *path,
                               struct error *err) {
    config_default(c);
    if (!json_is_object(object))
        return error_set(err, ERR_INPUT, "%s: expected a JSON object", path);
    TRY(set_type(c, object, path, err));
    TRY(check_foreign(object, path, err));
    TRY(read_fields(c, object, path, err));
    TRY(read_task(c, object, path, err));
    struct config checked = *c;
    if (config_check(&checked, err) != OK) {
        error_context(err, "%s", path);
        return err->status = ERR_INPUT;
    }
    if (strcmp(c->model_type, "normglue") && strcmp(c->model_type, checked.model_type))
        return error_set(err, ERR_INPUT,
                         "%s: its switches make a %s model, but model_type is %s", path,
                         checked.model_type, c->model_type);
    *c = checked;
    return OK;
}

enum status config_read(struct config *c, const char *directory, struct error *err) {
    char path[PATH_BYTES];
    json_t *object;
    TRY(file_join(path, directory, "config.json", err));
    TRY(json_file_read(&object, path, err));
    enum status status = read_object(c, object, path, err);
    json_decref(object);
    return status;
}

static enum status add_architecture(struct buffer *out, const struct config *c,
                                    const char *task_head, struct error *err) {
    const char *class_name = NULL;
    for (size_t i = 0; i < sizeof model_types / sizeof *model_types; i++)
        if (!strcmp(model_types[i].model_type, c->model_type))
            class_name = model_types[i].class_name;
    TRY(buffer_print(out, err, "{\n  \"architectures\": [\n    \"%s%s%s\"\n  ],\n",
                     class_name, strcmp(task_head, "Model") ? "For" : "", task_head));
    if (modelling_is_needed(c))
        TRY(buffer_print(out, err, "  \"auto_map\": %s,\n", modelling_auto_map));
    return buffer_print(out, err,
                        "  \"model_type\": \"%s\",\n  \"arch\": \"%s\",\n"
                        "  \"hidden_act\": \"gelu\",\n",
                        c->model_type, c->arch);
}

static enum status add_fields(struct buffer *out, const struct config *c,
                              struct error *err) {
    for (const struct field *f = config_fields; f->name; f++) {
        char text[FIELD_TEXT];
        TRY(buffer_print(out, err, "  \"%s\": %s,\n", f->key, field_format(f, c, text)));
    }
    return OK;
}

static enum status add_name(struct buffer *out, const char *name, struct error *err) {
    return buffer_add_json_string(out, name, strlen(name), err);
}

static enum status add_labels(struct buffer *out, const struct config *c,
                              struct error *err) {
    TRY(buffer_print(out, err, "  \"id2label\": {"));
    for (int i = 0; i < c->num_labels; i++) {
        TRY(buffer_print(out, err, "%s\n    \"%d\": ", i ? "," : "", i));
        TRY(add_name(out, c->labels[i].name, err));
    }
    TRY(buffer_print(out, err, "\n  },\n  \"label2id\": {"));
    for (int i = 0; i < c->num_labels; i++) {
        TRY(buffer_print(out, err, "%s\n    ", i ? "," : ""));
        TRY(add_name(out, c->labels[i].name, err));
        TRY(buffer_print(out, err, ": %d", i));
    }
    return buffer_print(out, err, "\n  },\n  \"problem_type\": \"%s\",\n",
                        problem_type(c));
}

static enum status add_all(struct buffer *out, const struct config *c,
                           const char *task_head, struct error *err) {
    TRY(add_architecture(out, c, task_head, err));
    TRY(add_fields(out, c, err));
    if (c->num_labels > 0)
        TRY(add_labels(out, c, err));
    if (*c->finetuning_task) {
        TRY(buffer_print(out, err, "  \"finetuning_task\": "));
        TRY(add_name(out, c->finetuning_task, err));
        TRY(buffer_print(out, err, ",\n"));
    }
    return buffer_print(out, err,
                        "  \"tie_word_embeddings\": true,\n"
                        "  \"torch_dtype\": \"float32\"\n}\n");
}

enum status config_write(const struct config *c, const char *directory,
                         const char *task_head, struct error *err) {
    char path[PATH_BYTES];
    struct buffer out = {0};
    enum status status = add_all(&out, c, task_head, err);
    if (status == OK && modelling_is_needed(c))
        status = modelling_write(directory, err);
    if (status == OK)
        status = file_join(path, directory, "config.json", err);
    if (status == OK)
        status = file_write(path, out.data, out.length, err);
    buffer_free(&out);
    return status;
}
