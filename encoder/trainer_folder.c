/* trainer_folder - the output folder: may a run use it, and where does it begin.
 *
 * Rules, from the strictest:
 *   a file               is no folder
 *   an empty folder      or none: always fine
 *   --overwrite          takes any, but removes only an older run's checkpoints and model
 *   --resume auto        takes one with checkpoints, or with nothing but what a run that
 *                        was killed before its first leaves
 *   --resume DIR         the folder that DIR lies in
 *
 * Without any of them a folder that holds something is refused: the commonest way to lose
 * a training is to start another in its place. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json_file.h"
#include "encoder/checkpoint_folders.h"
#include "encoder/manifest.h"
#include "encoder/trainer_run.h"

/* Token shards of pretraining, made before training begins; they check themselves, so a
 * folder with nothing else counts as empty. */
#define DATA "data"

/* What a run may have left that was killed before its first checkpoint. */
static const char *const leftovers[] = {"run_config.json", "metrics.jsonl",
                                        "timing.jsonl", DATA};

static bool is_leftover(const char *name) {
    for (size_t i = 0; i < sizeof leftovers / sizeof *leftovers; i++)
        if (!strcmp(name, leftovers[i]))
            return true;
    size_t length = strlen(name);
    return checkpoint_folder_is_temporary(name) ||
           (name[0] == '.' && length > 4 && !strcmp(name + length - 4, ".tmp"));
}

struct contents {
    char other[256]; /* the first name that no run of ours leaves early on; "" = none */
    bool empty, has_checkpoint;
};

static enum status look(const char *output, struct contents *found, struct error *err) {
    struct stat info;
    *found = (struct contents){.empty = true};
    if (stat(output, &info) != 0)
        return OK;
    if (!S_ISDIR(info.st_mode))
        return error_set(err, ERR_USAGE,
                         "%s: expected a folder for the output, found a file", output);
    struct dirent **entries;
    int count = scandir(output, &entries, NULL, alphasort);
    if (count < 0)
        return error_system(err, output, "cannot list");
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (strcmp(name, ".") && strcmp(name, "..")) {
            found->empty &= strcmp(name, DATA) == 0;
            found->has_checkpoint |= checkpoint_folder_step(name) >= 0;
            if (!is_leftover(name) && !*found->other)
                snprintf(found->other, sizeof found->other, "%s", name);
        }
        free(entries[i]);
    }
    free(entries);
    return OK;
}

static bool resume_is(const struct trainer_options *o, const char *word) {
    return !strcmp(o->resume ? o->resume : "never", word);
}

/* Is `path` a checkpoint of this output folder? */
static bool lies_in(const char *output, const char *path) {
    char parent[PATH_BYTES];
    struct stat a, b;
    struct error ignored;
    return file_join(parent, path, "..", &ignored) == OK && stat(output, &a) == 0 &&
           stat(parent, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

enum status trainer_check_output(const struct trainer_options *o, struct error *err) {
    struct contents found;
    if (!o->output || !*o->output)
        return error_set(err, ERR_USAGE, "output: expected a folder");
    TRY(look(o->output, &found, err));
    if (found.empty || o->overwrite)
        return OK;
    bool covered = resume_is(o, "auto")    ? found.has_checkpoint || !*found.other
                   : resume_is(o, "never") ? false
                                           : lies_in(o->output, o->resume);
    if (covered)
        return OK;
    return error_set(err, ERR_USAGE,
                     "%s: the output folder is not empty%s%s%s: choose another, or give "
                     "%s--overwrite to start anew",
                     o->output, *found.other ? " (it holds " : "", found.other,
                     *found.other ? ")" : "",
                     found.has_checkpoint ? "--resume auto to go on or " : "");
}

static enum status remove_file(const char *output, const char *name, struct error *err) {
    char path[PATH_BYTES];
    TRY(file_join(path, output, name, err));
    return unlink(path) == 0 || !file_exists(path)
               ? OK
               : error_system(err, path, "cannot remove");
}

/* The checkpoints and the final model of an older run, told by its trainer_state.json. */
static enum status remove_run(const char *output, struct error *err) {
    struct checkpoint_folders folders;
    char path[PATH_BYTES];
    TRY(checkpoint_folders_list(&folders, output, err));
    enum status status = OK;
    for (int i = 0; i < folders.count && status == OK; i++) {
        struct error fault;
        status = checkpoint_folder_path(path, output, folders.steps[i], err);
        if (status == OK && manifest_check(path, false, &fault) == OK)
            status = checkpoint_folder_remove(output, folders.steps[i], err);
    }
    checkpoint_folders_free(&folders);
    TRY(status);
    TRY(file_join(path, output, "trainer_state.json", err));
    if (!file_exists(path))
        return OK;
    TRY(remove_file(output, "model.safetensors", err));
    return remove_file(output, "trainer_state.json", err);
}

enum status trainer_clean_folder(const struct trainer_options *o, bool anew,
                                 struct error *err) {
    TRY(checkpoint_folders_clean(o->output, err));
    TRY(file_remove_stale(o->output, err));
    return anew && o->overwrite ? remove_run(o->output, err) : OK;
}

/* The checkpoint to go on from; path[0] = 0 when the run starts anew. */
static enum status find_beginning(const struct run *r, char path[PATH_BYTES],
                                  struct error *err) {
    const struct trainer_options *o = r->options;
    path[0] = 0;
    if (resume_is(o, "never"))
        return OK;
    if (resume_is(o, "auto"))
        return checkpoint_newest(o->output, path, r->notices, err);
    if ((size_t)snprintf(path, PATH_BYTES, "%s", o->resume) >= PATH_BYTES)
        return error_set(err, ERR_USAGE, "resume: path too long");
    return OK;
}

static enum status resume(struct run *r, const char *path, uint64_t *offset,
                          struct error *err) {
    json_t *state;
    char file[PATH_BYTES];
    TRY(file_join(file, path, "trainer_state.json", err));
    TRY(checkpoint_verify(path, err));
    TRY(json_file_read(&state, file, err));
    enum status status = trainer_state_read(r, state, file, offset, err);
    json_decref(state);
    TRY(status);
    status = checkpoint_load(path, r->parameters, &state, err);
    json_decref(state);
    TRY(status);
    r->saved_step = lies_in(r->options->output, path) ? r->step : -1;
    if (r->saved_step < 0) /* its metrics.jsonl stands in another folder */
        *offset = 0;
    notice(r->notices, "resuming from %s: step %lld of %lld", path, (long long)r->step,
           (long long)r->options->max_steps);
    return OK;
}

/* timing.jsonl is only ever continued. */
static enum status open_logs(struct run *r, uint64_t offset, bool anew,
                             struct error *err) {
    char path[PATH_BYTES];
    struct stat info;
    TRY(file_join(path, r->options->output, "metrics.jsonl", err));
    TRY(runlog_open(&r->metrics, path, offset, err));
    TRY(file_join(path, r->options->output, "timing.jsonl", err));
    uint64_t length = !anew && stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
    return runlog_open(&r->timing, path, length, err);
}

/* Two trainings in one folder would cut each other's log. The lock goes with the process,
 * however it ends; where a file system has none, there is none. */
static enum status lock(struct run *r, struct error *err) {
    const char *output = r->options->output;
    TRY(file_make_directory(output, err));
    r->lock = open(output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->lock < 0)
        return error_system(err, output, "cannot open");
    if (flock(r->lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return OK;
    return error_set(err, ERR_FAILED, "%s: another training is using this folder",
                     output);
}

enum status trainer_start(struct run *r, struct error *err) {
    char path[PATH_BYTES];
    uint64_t offset = 0;
    TRY(trainer_check_output(r->options, err));
    TRY(lock(r, err));
    TRY(find_beginning(r, path, err));
    bool anew = !path[0];
    TRY(trainer_clean_folder(r->options, anew, err));
    if (!anew)
        TRY(resume(r, path, &offset, err));
    TRY(open_logs(r, offset, anew, err));
    if (!r->job->run_config)
        return OK;
    TRY(file_join(path, r->options->output, "run_config.json", err));
    return json_file_write(r->job->run_config, path, err);
}
