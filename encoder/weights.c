/* weights - every tensor of a model directory under the name we know it by.
 *
 * Two spellings of one tensor in a file are an error, because either could be meant.
 * Sharded directories deviate in practice (odd file names, wrong total sizes), so that
 * only weight_map counts: it must name exactly what the shards hold. A file name with a
 * slash is refused. */
#include "encoder/weights.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"

static const char *const prefixes[] = {"roberta.", "roberta_prelayernorm."};

const char *weights_short_name(const char *name) {
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t length = strlen(prefixes[i]);
        if (!strncmp(name, prefixes[i], length))
            return name + length;
    }
    return name;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && !strcmp(text + length - end_length, end);
}

/* gamma and beta are TensorFlow's names, which old files have. */
static void set_name(struct weight *w, const char *full) {
    const char *name = weights_short_name(full);
    int length = (int)strlen(name);
    if (ends_with(name, "LayerNorm.gamma"))
        snprintf(w->name, sizeof w->name, "%.*sweight", length - 5, name);
    else if (ends_with(name, "LayerNorm.beta"))
        snprintf(w->name, sizeof w->name, "%.*sbias", length - 4, name);
    else
        snprintf(w->name, sizeof w->name, "%s", name);
}

static enum status add_file(struct weights *w, const char *directory, const char *name,
                            struct error *err) {
    char path[PATH_BYTES];
    TRY(file_join(path, directory, name, err));
    void *grown = realloc(w->files, ((size_t)w->num_files + 1) * sizeof *w->files);
    if (!grown)
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    w->files = grown;
    TRY(safetensors_open(&w->files[w->num_files], path, err));
    w->num_files++;
    return OK;
}

/* File names of an index are names of siblings, nothing else. */
static enum status add_shard(struct weights *w, const char *directory, const char *path,
                             const char *tensor, const char *file, struct error *err) {
    char shard[PATH_BYTES];
    if (!file || strchr(file, '/') || !ends_with(file, ".safetensors"))
        return error_set(
            err, ERR_INPUT,
            "%s: weight_map: %.100s: expected the name of a .safetensors file "
            "beside it, found %.100s",
            path, tensor, file ? file : "no string");
    TRY(file_join(shard, directory, file, err));
    for (int i = 0; i < w->num_files; i++)
        if (!strcmp(w->files[i].path, shard))
            return OK;
    return add_file(w, directory, file, err);
}

static const struct safetensors *shard_of(const struct weights *w, const char *file) {
    for (int i = 0; i < w->num_files; i++) {
        const char *slash = strrchr(w->files[i].path, '/');
        if (!strcmp(slash ? slash + 1 : w->files[i].path, file))
            return &w->files[i];
    }
    return NULL;
}

/* Every tensor lies in the shard that the map names, and no shard holds another. */
static enum status check_map(const struct weights *w, const json_t *map, const char *path,
                             struct error *err) {
    size_t held = 0;
    const char *tensor;
    json_t *file;
    for (int i = 0; i < w->num_files; i++)
        held += (size_t)w->files[i].count;
    json_object_foreach((json_t *)map, tensor, file) {
        const struct safetensors *shard = shard_of(w, json_string_value(file));
        if (!safetensors_find(shard, tensor))
            return error_set(err, ERR_INPUT, "%s: weight_map: %.150s is not in %.100s",
                             path, tensor, json_string_value(file));
    }
    if (held != json_object_size(map))
        return error_set(err, ERR_INPUT,
                         "%s: weight_map names %zu tensors, the files hold %zu", path,
                         json_object_size(map), held);
    return OK;
}

static enum status read_map(struct weights *w, const char *directory, const json_t *map,
                            const char *path, struct error *err) {
    const char *tensor;
    json_t *file;
    if (!json_is_object(map))
        return error_set(err, ERR_INPUT, "%s: expected an object weight_map", path);
    json_object_foreach((json_t *)map, tensor, file)
        TRY(add_shard(w, directory, path, tensor, json_string_value(file), err));
    return check_map(w, map, path, err);
}

static enum status open_shards(struct weights *w, const char *directory, const char *path,
                               struct error *err) {
    json_t *index;
    TRY(json_file_read(&index, path, err));
    enum status status =
        read_map(w, directory, json_object_get(index, "weight_map"), path, err);
    json_decref(index);
    return status;
}

static enum status open_files(struct weights *w, const char *directory,
                              struct error *err) {
    char path[PATH_BYTES];
    TRY(file_join(path, directory, "model.safetensors", err));
    if (file_exists(path))
        return add_file(w, directory, "model.safetensors", err);
    TRY(file_join(path, directory, "model.safetensors.index.json", err));
    if (file_exists(path))
        return open_shards(w, directory, path, err);
    TRY(file_join(path, directory, "pytorch_model.bin", err));
    if (file_exists(path))
        return error_set(err, ERR_INPUT,
                         "%s: expected model.safetensors beside it: pickled weights are "
                         "not read, because they can run code",
                         path);
    return error_set(err, ERR_INPUT, "%s: no model.safetensors in it", directory);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct weight *)a)->name, ((const struct weight *)b)->name);
}

/* Longer names are nobody's we know; a buffer of fixed size then holds any. */
static enum status check_name(const struct safetensors *file, const char *name,
                              struct error *err) {
    if (strlen(name) < sizeof((struct weight *)0)->name - 8)
        return OK;
    return error_set(err, ERR_INPUT, "%s: tensor name \"%.60s...\" is too long",
                     file->path, name);
}

static enum status gather(struct weights *w, struct error *err) {
    size_t total = 0;
    for (int i = 0; i < w->num_files; i++)
        total += (size_t)w->files[i].count;
    w->items = malloc((total + 1) * sizeof *w->items);
    if (!w->items)
        return error_set(err, ERR_MEMORY, "out of memory for %zu tensor names", total);
    for (int f = 0; f < w->num_files; f++)
        for (int i = 0; i < w->files[f].count; i++) {
            struct weight *item = &w->items[w->count++];
            item->file = &w->files[f];
            item->tensor = &w->files[f].items[i];
            TRY(check_name(item->file, item->tensor->name, err));
            set_name(item, item->tensor->name);
        }
    qsort(w->items, total, sizeof *w->items, by_name);
    for (int i = 1; i < w->count; i++)
        if (!by_name(&w->items[i - 1], &w->items[i]))
            return error_set(err, ERR_INPUT, "%s: \"%s\" and \"%s\" are the same tensor",
                             w->items[i].file->path, w->items[i - 1].tensor->name,
                             w->items[i].tensor->name);
    return OK;
}

enum status weights_open(struct weights *w, const char *directory, struct error *err) {
    *w = (struct weights){0};
    enum status status = open_files(w, directory, err);
    if (status == OK)
        status = gather(w, err);
    if (status != OK)
        weights_close(w);
    return status;
}

const struct weight *weights_find(const struct weights *w, const char *name) {
    struct weight key;
    snprintf(key.name, sizeof key.name, "%s", name);
    return bsearch(&key, w->items, (size_t)w->count, sizeof key, by_name);
}

void weights_close(struct weights *w) {
    for (int i = 0; i < w->num_files; i++)
        safetensors_close(&w->files[i]);
    free(w->files);
    free(w->items);
    *w = (struct weights){0};
}
