/* checkpoint - the model directory and the training state beside it, saved so that a
 * crash at any moment leaves the old one or the new one, never a mix.
 *
 * A save, in order:
 *   1. .tmp-checkpoint-<step>.<pid>/ is built: the model's files, model.safetensors,
 *      optimizer.safetensors, trainer_state.json; base/file reserves room, writes, syncs
 *      and renames each file
 *   2. checkpoint.json with sizes and checksums, the last file
 *   3. the folder is renamed to checkpoint-<step>, its parent synced
 *   4. everything is read back and compared
 *   5. only then do older checkpoints go, each renamed to a temporary name first
 * A kill before 3 leaves a temporary folder that the next save or start removes; after 3
 * the new checkpoint counts. tests/test_crash.c kills at every system call.
 *
 * optimizer.safetensors: exp_avg.<parameter> and exp_avg_sq.<parameter> in F32, step as
 * I64. */
#include "encoder/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"
#include "encoder/checkpoint_folders.h"
#include "encoder/manifest.h"
#include "encoder/safetensors.h"

#define MODEL "model.safetensors"
#define OPTIMIZER "optimizer.safetensors"
#define STATE "trainer_state.json"

static struct safetensor row_item(const struct parameter *row, const char *name,
                                  const float *data) {
    struct safetensor item = {
        .name = name, .dtype = "F32", .rank = row->rank, .data = data};
    memcpy(item.shape, row->shape, sizeof row->shape);
    return item;
}

enum status checkpoint_write_parameters(const char *directory, const struct parameters *p,
                                        struct error *err) {
    char path[PATH_BYTES];
    TRY(file_join(path, directory, MODEL, err));
    struct safetensor *items = malloc(((size_t)p->count + 1) * sizeof *items);
    if (!items)
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    for (int i = 0; i < p->count; i++)
        items[i] = row_item(p->rows[i], p->rows[i]->name, p->rows[i]->value);
    enum status status = safetensors_write(path, items, p->count, err);
    free(items);
    return status;
}

/* Moments under torch's names with the parameter's name behind: "exp_avg.<parameter>". */
static const char *const moment_names[] = {"exp_avg", "exp_avg_sq"};
static float *moment(const struct parameter *row, int which) {
    return which ? row->exp_avg_sq : row->exp_avg;
}

/* Two items a trained row, and the step last. The names live beside them in `names`.
 * Returns their number. */
static int fill_items(struct safetensor *items, char (*names)[160],
                      const struct parameters *p, const int64_t *step) {
    int count = 0;
    for (int i = 0; i < p->count; i++)
        for (int which = 0; which < 2 && !p->rows[i]->is_buffer; which++, count++) {
            snprintf(names[count], sizeof *names, "%s.%s", moment_names[which],
                     p->rows[i]->name);
            items[count] = row_item(p->rows[i], names[count], moment(p->rows[i], which));
        }
    items[count++] = (struct safetensor){.name = "step", .dtype = "I64", .data = step};
    return count;
}

static enum status write_moments(const char *directory, const struct parameters *p,
                                 int64_t step, struct error *err) {
    char path[PATH_BYTES];
    TRY(file_join(path, directory, OPTIMIZER, err));
    const size_t most = 2 * (size_t)p->count + 1;
    struct safetensor *items = malloc(most * sizeof *items);
    char(*names)[160] = malloc(most * sizeof *names);
    enum status status = OK;
    if (items && names) {
        const int count = fill_items(items, names, p, &step);
        status = safetensors_write(path, items, count, err);
    } else {
        status = error_set(err, ERR_MEMORY, "%s: out of memory", path);
    }
    free(items);
    free(names);
    return status;
}

/* A model with a weight that is not finite is never saved over a good one. */
static enum status check_finite(const struct parameters *p, struct error *err) {
    for (int i = 0; i < p->count; i++) {
        const struct parameter *row = p->rows[i];
        for (size_t j = 0; j < row->count; j++)
            if (!isfinite(row->value[j]))
                return error_set(err, ERR_NONFINITE,
                                 "%s: element %zu is %g: the model is not saved",
                                 row->name, j, (double)row->value[j]);
    }
    return OK;
}

enum status checkpoint_save_model(const char *directory, const struct parameters *p,
                                  struct checkpoint_writer writer, struct error *err) {
    TRY(check_finite(p, err));
    TRY(file_make_directory(directory, err));
    TRY(writer.write(writer.self, directory, err));
    return checkpoint_write_parameters(directory, p, err);
}

static enum status build(const char *directory, int64_t step, const struct parameters *p,
                         const json_t *state, struct checkpoint_writer writer,
                         struct error *err) {
    char path[PATH_BYTES];
    TRY(checkpoint_save_model(directory, p, writer, err));
    TRY(write_moments(directory, p, step, err));
    TRY(file_join(path, directory, STATE, err));
    TRY(json_file_write(state, path, err));
    return manifest_write(directory, step, err);
}

/* Counts sound checkpoints from the newest on; those beyond `keep` go, but for the best.
 * Damaged ones neither count nor go. */
static enum status prune(const char *output, int keep, int64_t keep_step,
                         struct error *err) {
    struct checkpoint_folders folders;
    TRY(checkpoint_folders_list(&folders, output, err));
    enum status status = OK;
    int sound = 0;
    for (int i = 0; i < folders.count && status == OK; i++) {
        char path[PATH_BYTES];
        struct error fault;
        status = checkpoint_folder_path(path, output, folders.steps[i], err);
        if (status != OK || manifest_check(path, false, &fault) != OK)
            continue;
        if (++sound > keep && folders.steps[i] != keep_step)
            status = checkpoint_folder_remove(output, folders.steps[i], err);
    }
    checkpoint_folders_free(&folders);
    return status;
}

enum status checkpoint_save(const char *output, int64_t step, const struct parameters *p,
                            const json_t *state, struct checkpoint_writer writer,
                            int keep, int64_t keep_step, struct error *err) {
    char temporary[PATH_BYTES], path[PATH_BYTES];
    TRY(file_make_directory(output, err));
    TRY(checkpoint_folders_clean(output, err));
    TRY(checkpoint_folder_temporary(temporary, output, step, err));
    TRY(checkpoint_folder_path(path, output, step, err));
    enum status status = build(temporary, step, p, state, writer, err);
    if (status == OK)
        status = checkpoint_folder_publish(output, step, err);
    if (status != OK) {
        struct error ignored; /* the sentence is about what failed first */
        (void)!file_remove_tree(temporary, &ignored);
        return status;
    }
    TRY(manifest_check(path, true, err));
    return prune(output, keep < 2 ? 2 : keep, keep_step, err);
}

enum status checkpoint_verify(const char *directory, struct error *err) {
    return manifest_check(directory, true, err);
}

enum status checkpoint_newest(const char *output, char path[PATH_BYTES],
                              const struct notices *notices, struct error *err) {
    struct checkpoint_folders folders;
    path[0] = 0;
    TRY(checkpoint_folders_list(&folders, output, err));
    enum status status = OK;
    bool found = false;
    for (int i = 0; i < folders.count && status == OK && !found; i++) {
        struct error fault;
        status = checkpoint_folder_path(path, output, folders.steps[i], err);
        found = status == OK && checkpoint_verify(path, &fault) == OK;
        if (status == OK && !found)
            notice(notices, "skipping %s: %s", path, fault.text);
    }
    if (!found)
        path[0] = 0;
    checkpoint_folders_free(&folders);
    return status;
}

static bool holds_model(const char *directory) {
    static const char *const names[] = {MODEL, MODEL ".index.json", "pytorch_model.bin"};
    char path[PATH_BYTES];
    struct error ignored;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (file_join(path, directory, names[i], &ignored) == OK && file_exists(path))
            return true;
    return false;
}

enum status checkpoint_resolve_model(const char *directory, char path[PATH_BYTES],
                                     const struct notices *notices, struct error *err) {
    if (!file_is_directory(directory))
        return error_set(err, ERR_INPUT, "%s: expected a model directory, found %s",
                         directory, file_exists(directory) ? "a file" : "nothing");
    if (holds_model(directory)) {
        if ((size_t)snprintf(path, PATH_BYTES, "%s", directory) < PATH_BYTES)
            return OK;
        return error_set(err, ERR_INPUT, "%.100s...: path too long", directory);
    }
    TRY(checkpoint_newest(directory, path, notices, err));
    if (!path[0])
        return error_set(err, ERR_INPUT,
                         "%s: expected model.safetensors or a checkpoint-<step> folder",
                         directory);
    notice(notices, "%s: training has not ended, using %s", directory, path);
    return OK;
}

static enum status load_item(const struct safetensors *s, const char *name,
                             const struct parameter *row, float *out, struct error *err) {
    const struct safetensor *t = safetensors_find(s, name);
    if (!t || t->count != row->count || t->rank != row->rank ||
        memcmp(t->shape, row->shape, (size_t)row->rank * sizeof *row->shape))
        return error_set(err, ERR_INCOMPATIBLE, "%s: %s is %s", s->path, name,
                         t ? "of another shape" : "missing");
    TRY(safetensors_to_f32(s, t, out, err));
    safetensors_release(s, t);
    return OK;
}

static enum status load_values(const struct safetensors *s, struct parameters *p,
                               struct error *err) {
    if (s->count != p->count)
        return error_set(err, ERR_INCOMPATIBLE, "%s: expected %d tensors, found %d",
                         s->path, p->count, s->count);
    for (int i = 0; i < p->count; i++)
        TRY(load_item(s, p->rows[i]->name, p->rows[i], p->rows[i]->value, err));
    return OK;
}

static enum status load_moments(const struct safetensors *s, struct parameters *p,
                                struct error *err) {
    for (int i = 0; i < p->count; i++)
        for (int which = 0; which < 2 && !p->rows[i]->is_buffer; which++) {
            char name[160];
            snprintf(name, sizeof name, "%s.%s", moment_names[which], p->rows[i]->name);
            TRY(load_item(s, name, p->rows[i], moment(p->rows[i], which), err));
        }
    return OK;
}

static enum status load_file(const char *directory, const char *name,
                             enum status (*load)(const struct safetensors *,
                                                 struct parameters *, struct error *),
                             struct parameters *p, struct error *err) {
    char path[PATH_BYTES];
    struct safetensors s;
    TRY(file_join(path, directory, name, err));
    TRY(safetensors_open(&s, path, err));
    enum status status = load(&s, p, err);
    safetensors_close(&s);
    return status;
}

enum status checkpoint_load(const char *directory, struct parameters *p, json_t **state,
                            struct error *err) {
    char path[PATH_BYTES];
    *state = NULL;
    TRY(checkpoint_verify(directory, err));
    TRY(load_file(directory, MODEL, load_values, p, err));
    if (p->training)
        TRY(load_file(directory, OPTIMIZER, load_moments, p, err));
    TRY(file_join(path, directory, STATE, err));
    return json_file_read(state, path, err);
}
