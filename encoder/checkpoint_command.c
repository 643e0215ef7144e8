/* checkpoint_command - normglue checkpoint: inspect, verify, export and convert model
 * directories.
 *
 * inspect prints what is there, verify judges it, export takes the model out, convert
 * gives it another arrangement. All take what --model takes: a model directory, a
 * checkpoint, or the output folder of a training.
 *
 * inspect counts parameters from the file, so that what it says needs no model to be
 * built; running statistics are no parameters. verify goes on after a fault and says all
 * of them; its exit status is that there was one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"
#include "base/options.h"
#include "base/subcommand.h"
#include "encoder/checkpoint.h"
#include "encoder/checkpoint_folders.h"
#include "encoder/convert.h"
#include "encoder/field.h"
#include "encoder/fold.h"
#include "encoder/manifest.h"
#include "encoder/model_files.h"
#include "encoder/norm.h"
#include "encoder/weights.h"

struct values {
    struct options_state *state; /* base/options keeps its memory here */
    const char *format, *output, *to, *stream_center;
    bool overwrite, fold;
};

static const struct option inspect_options[] = {
    {"format", OPTION_CHOICE, offsetof(struct values, format), "table", 0, 0,
     "table|json", "Options", "how to print", false},
    {0},
};
static const struct option verify_options[] = {{0}};
#define OUTPUT_ROWS                                                        \
    {"output", OPTION_STRING, offsetof(struct values, output), NULL, 0, 0, \
     "DIR",    "Options",     "where the model goes",          true},      \
        {"overwrite",                                                      \
         OPTION_FLAG,                                                      \
         offsetof(struct values, overwrite),                               \
         "false",                                                          \
         0,                                                                \
         0,                                                                \
         NULL,                                                             \
         "Options",                                                        \
         "replace the model files of a folder that is not empty",          \
         false},
static const struct option export_options[] = {
    OUTPUT_ROWS{"fold", OPTION_FLAG, offsetof(struct values, fold), "false", 0, 0, NULL,
                "Options",
                "put norms' fixed parts and head scales into the matrices beside them",
                false},
    {0},
};
static const struct option convert_options[] = {
    OUTPUT_ROWS{"to", OPTION_CHOICE, offsetof(struct values, to), NULL, 0, 0,
                "prerms|precrms", "Options", "the arrangement that computes the same",
                true},
    {"stream-center", OPTION_CHOICE, offsetof(struct values, stream_center), "auto", 0, 0,
     "auto|writers|after_dropout", "Options",
     "who keeps the stream's mean at 0: the output matrices, each token's branch, or "
     "what "
     "dropout and norms need",
     false},
    {0},
};

static const struct command inspect_command = {
    "normglue checkpoint inspect",
    "[OPTION]... DIR",
    "Prints what a model directory, a checkpoint or an output folder holds.",
    NULL,
    inspect_options,
    "DIR"};
static const struct command verify_command = {
    "normglue checkpoint verify",
    "[OPTION]... DIR",
    "Reads every byte of a checkpoint, or of all checkpoints and the model of an output "
    "folder, and compares sizes and checksums.",
    "Exit status 7 when one of them is damaged.\n",
    verify_options,
    "DIR"};
static const struct command export_command = {
    "normglue checkpoint export",
    "--output DIR [OPTION]... DIR",
    "Copies the model files out of a training output or checkpoint, without the training "
    "state.",
    "--fold writes a model for inference that gives the same outputs (1e-5): head "
    "scales\n"
    "go into the output projection, bn, un and pn without groups into the next layer,\n"
    "gains and biases of norms into the matrix that reads them.\n",
    export_options,
    "DIR"};

static const struct command convert_command = {
    "normglue checkpoint convert",
    "--to NAME --output DIR [OPTION]... DIR",
    "Turns a Pre-LN model into one with RMSNorm or CRMSNorm that gives the same outputs.",
    "Exit status 7, with the reason, when its arrangement has no such form.\n",
    convert_options,
    "DIR"};

/* A running statistic, as some kind of norm has it? */
static bool is_buffer(const char *name) {
    const char *dot = strrchr(name, '.');
    for (const struct norm_kind *const *kind = norm_kinds; dot && *kind; kind++)
        for (const struct norm_buffer *b = (*kind)->buffers; b && b->name; b++)
            if (!strcmp(dot + 1, b->name))
                return true;
    return false;
}

static int64_t number_of_parameters(const struct weights *w) {
    int64_t total = 0;
    for (int i = 0; i < w->count; i++)
        if (w->items[i].tensor->dtype[0] != 'I' && /* position_ids are no parameters */
            !is_buffer(w->items[i].name))
            total += (int64_t)w->items[i].tensor->count;
    return total;
}

/* A fact about the model a row, for both formats. */
static json_t *describe_config(const struct config *c) {
    json_t *object = json_object();
    json_object_set_new(object, "model_type", json_string(c->model_type));
    json_object_set_new(object, "arch", json_string(c->arch));
    for (const struct field *f = config_fields; f->name; f++) {
        char text[FIELD_TEXT];
        json_object_set_new(object, f->name,
                            json_loads(field_format(f, c, text), JSON_DECODE_ANY, NULL));
    }
    return object;
}

static json_t *describe_tensors(const struct weights *w) {
    json_t *list = json_array();
    for (int i = 0; i < w->count; i++) {
        const struct safetensor *t = w->items[i].tensor;
        json_t *shape = json_array();
        for (int d = 0; d < t->rank; d++)
            json_array_append_new(shape, json_integer(t->shape[d]));
        json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "name", t->name, "dtype",
                                              t->dtype, "shape", shape));
    }
    return list;
}

/* Of trainer_state.json, where one lies beside the model. */
static json_t *describe_training(const char *directory) {
    static const char *const keys[] = {"global_step", "max_steps", "best_global_step",
                                       "best_metric", "num_input_tokens_seen"};
    char path[PATH_BYTES];
    struct error ignored;
    json_t *state, *found = json_object();
    if (file_join(path, directory, "trainer_state.json", &ignored) != OK ||
        !file_exists(path) || json_file_read(&state, path, &ignored) != OK)
        return found;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set(found, keys[i], json_object_get(state, keys[i]));
    json_decref(state);
    return found;
}

static void print_members(const json_t *object) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        printf("%-30s %s\n", key,
               json_is_string(value) ? json_string_value(value)
               : text                ? text
                                     : "");
        free(text);
    }
}

static void print_tensors(const struct weights *w) {
    printf("\n%-70s %-5s %s\n", "tensor", "dtype", "shape");
    for (int i = 0; i < w->count; i++) {
        const struct safetensor *t = w->items[i].tensor;
        printf("%-70s %-5s", t->name, t->dtype);
        for (int d = 0; d < t->rank; d++)
            printf("%s%lld", d ? " x " : " ", (long long)t->shape[d]);
        printf("\n");
    }
}

static void print_model(const char *path, const struct config *c, const struct weights *w,
                        bool as_json) {
    json_t *head =
        json_pack("{s:s, s:I, s:i}", "directory", path, "parameters",
                  (json_int_t)number_of_parameters(w), "tensor_count", w->count);
    json_t *model = describe_config(c), *training = describe_training(path);
    if (as_json) {
        json_object_set(head, "config", model);
        json_object_set(head, "training", training);
        json_object_set_new(head, "tensors", describe_tensors(w));
        json_dumpf(head, stdout, JSON_INDENT(2));
        printf("\n");
    } else {
        print_members(head);
        print_members(training);
        print_members(model);
        print_tensors(w);
    }
    json_decref(head);
    json_decref(model);
    json_decref(training);
}

/* All commands take one. */
static enum status check_directory(const struct call *call, struct error *err) {
    if (call->operands.count == 1)
        return OK;
    return error_set(err, ERR_USAGE, "expected one directory, found %d",
                     call->operands.count);
}

static enum status inspect(const struct call *call, struct error *err) {
    TRY(check_directory(call, err));
    const struct values *v = call->values;
    const char *directory = call->operands.items[0];
    char path[PATH_BYTES];
    struct config config;
    struct weights weights;
    TRY(checkpoint_resolve_model(directory, path, &notices_stderr, err));
    TRY(config_read(&config, path, err));
    TRY(weights_open(&weights, path, err));
    print_model(path, &config, &weights, !strcmp(v->format, "json"));
    weights_close(&weights);
    return OK;
}

static void report(const char *path, enum status status, const struct error *err,
                   int *damaged) {
    if (status == OK)
        printf("ok       %s\n", path);
    else
        printf("damaged  %s (%s)\n", path, err->text);
    *damaged += status != OK;
}

static enum status verify_folders(const char *output, int *seen, int *damaged,
                                  struct error *err) {
    struct checkpoint_folders folders;
    TRY(checkpoint_folders_list(&folders, output, err));
    enum status status = OK;
    for (int i = 0; i < folders.count && status == OK; i++) {
        char path[PATH_BYTES];
        struct error fault;
        status = checkpoint_folder_path(path, output, folders.steps[i], err);
        if (status == OK)
            report(path, checkpoint_verify(path, &fault), &fault, damaged);
    }
    *seen += folders.count;
    checkpoint_folders_free(&folders);
    return status;
}

static enum status read_model(const char *directory, struct error *err) {
    struct config config;
    struct weights weights;
    TRY(config_read(&config, directory, err));
    TRY(weights_open(&weights, directory, err));
    weights_close(&weights);
    return OK;
}

static enum status verify(const struct call *call, struct error *err) {
    TRY(check_directory(call, err));
    const char *directory = call->operands.items[0];
    struct error fault;
    int seen = 0, damaged = 0;
    if (!file_is_directory(directory))
        return error_set(err, ERR_INPUT, "%s: expected a directory", directory);
    if (model_files_hold(directory, MANIFEST_NAME)) {
        report(directory, checkpoint_verify(directory, &fault), &fault, &damaged);
        seen++;
    } else if (model_files_hold(directory, "config.json")) {
        report(directory, read_model(directory, &fault), &fault, &damaged);
        seen++;
    }
    TRY(verify_folders(directory, &seen, &damaged, err));
    if (!seen)
        return error_set(err, ERR_INPUT, "%s: expected a model or checkpoints in it",
                         directory);
    return damaged ? error_set(err, ERR_INCOMPATIBLE, "%s: %d of %d damaged", directory,
                               damaged, seen)
                   : OK;
}

static enum status check_output(const struct values *v, struct error *err) {
    if (!model_files_hold(v->output, "config.json") || v->overwrite)
        return OK;
    return error_set(err, ERR_USAGE,
                     "%s: there is a model in it already: choose another folder or give "
                     "--overwrite",
                     v->output);
}

/* Bytes are copied, nothing is converted: the exported weights are those that were
 * trained. */
static enum status export_copy(const struct values *v, const char *directory,
                               struct error *err) {
    char path[PATH_BYTES];
    TRY(checkpoint_resolve_model(directory, path, &notices_stderr, err));
    TRY(read_model(path, err));
    if (!model_files_hold(path, "model.safetensors"))
        return error_set(err, ERR_INPUT,
                         "%s: sharded models are exported with --fold only", path);
    TRY(file_make_directory(v->output, err));
    return model_files_copy(path, v->output, err);
}

/* Reads the model, changes it with `change`, writes the result. */
static enum status rewrite_model(const struct values *v, const char *directory,
                                 enum status (*change)(struct rewrite *,
                                                       const struct values *,
                                                       struct error *),
                                 struct error *err) {
    struct rewrite r;
    TRY(rewrite_open(&r, directory, &notices_stderr, err));
    enum status status = change(&r, v, err);
    if (status == OK)
        status = rewrite_write(&r, v->output, err);
    rewrite_close(&r);
    return status;
}

static enum status change_by_folding(struct rewrite *r, const struct values *v,
                                     struct error *err) {
    (void)v;
    return fold_model(r, err);
}

static enum status change_by_converting(struct rewrite *r, const struct values *v,
                                        struct error *err) {
    const struct convert_target target = {v->to, v->stream_center};
    return convert_model(r, target, &notices_stderr, err);
}

static enum status export(const struct call *call, struct error *err) {
    TRY(check_directory(call, err)); const struct values *v = call->values;
    const char *directory = call->operands.items[0];
    TRY(check_output(v, err));
    TRY(v->fold ? rewrite_model(v, directory, change_by_folding, err)
                : export_copy(v, directory, err));
    printf("%s\n", v->output);
    return OK;
}

static enum status convert(const struct call *call, struct error *err) {
    TRY(check_directory(call, err));
    const struct values *v = call->values;
    const char *directory = call->operands.items[0];
    TRY(check_output(v, err));
    TRY(rewrite_model(v, directory, change_by_converting, err));
    printf("%s\n", v->output);
    return OK;
}

static int run_inspect(int argc, char **argv) {
    struct values values;
    return options_run(&inspect_command, &values, argc, argv, inspect);
}
static int run_verify(int argc, char **argv) {
    struct values values;
    return options_run(&verify_command, &values, argc, argv, verify);
}
static int run_export(int argc, char **argv) {
    struct values values;
    return options_run(&export_command, &values, argc, argv, export);
}
static int run_convert(int argc, char **argv) {
    struct values values;
    return options_run(&convert_command, &values, argc, argv, convert);
}

int checkpoint_command(int argc, char **argv) {
    static const struct subcommand rows[] = {
        {"inspect", run_inspect, "tensors, arrangement, sizes, training"},
        {"verify", run_verify, "compare every byte with the checksums"},
        {"export", run_export, "the model alone, out of a training output"},
        {"convert", run_convert, "the same function with RMSNorm or CRMSNorm"},
    };
    static const struct subcommands all = {"normglue checkpoint", NULL, NULL, rows,
                                           sizeof rows / sizeof *rows};
    return subcommand_run(&all, argc, argv);
}
