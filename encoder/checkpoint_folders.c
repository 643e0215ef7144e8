/* checkpoint_folders - the checkpoint-<step> folders of an output directory.
 *
 * Nothing here opens a file of a checkpoint but through the manifest. Names are matched
 * to the last character: "checkpoint-007" or "checkpoint-7-old" are somebody else's.
 *
 * Renaming a folder is the one thing that a file system does at once. So a checkpoint
 * comes into being by it and goes by it: first to a temporary name, which counts as
 * nothing, then its files. Temporary folders carry the process that made them; they are
 * removed by whoever comes next, unless that process is alive. */
#include "encoder/checkpoint_folders.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "encoder/manifest.h"

#define NAME "checkpoint-"
#define TEMPORARY ".tmp-checkpoint-"

/* Digits without sign or leading zero, at most 15; *end is what follows. -1 = none. */
static int64_t parse_number(const char *text, const char **end) {
    size_t digits = strspn(text, "0123456789");
    *end = text + digits;
    bool leading_zero = digits > 1 && *text == '0';
    return digits == 0 || digits > 15 || leading_zero ? -1 : strtoll(text, NULL, 10);
}

int64_t checkpoint_folder_step(const char *name) {
    const char *end;
    if (strncmp(name, NAME, strlen(NAME)))
        return -1;
    int64_t step = parse_number(name + strlen(NAME), &end);
    return *end ? -1 : step;
}

/* The process that made a temporary folder, -1 for other names. */
static int64_t owner(const char *name) {
    const char *end;
    if (strncmp(name, TEMPORARY, strlen(TEMPORARY)) ||
        parse_number(name + strlen(TEMPORARY), &end) < 0 || *end != '.')
        return -1;
    int64_t pid = parse_number(end + 1, &end);
    return *end ? -1 : pid;
}

bool checkpoint_folder_is_temporary(const char *name) { return owner(name) >= 0; }

static int is_checkpoint(const struct dirent *entry) {
    return checkpoint_folder_step(entry->d_name) >= 0;
}
static int is_temporary(const struct dirent *entry) { return owner(entry->d_name) >= 0; }

static int descending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* -1 and a sentence on failure; a directory that is not there has no entries. */
static int list(const char *output, struct dirent ***entries,
                int (*wanted)(const struct dirent *), struct error *err) {
    int count = scandir(output, entries, wanted, alphasort);
    if (count >= 0)
        return count;
    *entries = NULL;
    if (errno == ENOENT)
        return 0;
    error_system(err, output, "cannot list");
    return -1;
}

enum status checkpoint_folders_list(struct checkpoint_folders *f, const char *output,
                                    struct error *err) {
    struct dirent **entries;
    *f = (struct checkpoint_folders){0};
    int count = list(output, &entries, is_checkpoint, err);
    if (count < 0)
        return err->status;
    f->steps = malloc(((size_t)count + 1) * sizeof *f->steps);
    for (int i = 0; i < count; i++) {
        if (f->steps)
            f->steps[f->count++] = checkpoint_folder_step(entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    if (!f->steps)
        return error_set(err, ERR_MEMORY, "%s: out of memory", output);
    qsort(f->steps, (size_t)f->count, sizeof *f->steps, descending);
    return OK;
}

void checkpoint_folders_free(struct checkpoint_folders *f) {
    free(f->steps);
    *f = (struct checkpoint_folders){0};
}

enum status checkpoint_folder_path(char path[PATH_BYTES], const char *output,
                                   int64_t step, struct error *err) {
    char name[64];
    snprintf(name, sizeof name, NAME "%lld", (long long)step);
    return file_join(path, output, name, err);
}

enum status checkpoint_folder_temporary(char path[PATH_BYTES], const char *output,
                                        int64_t step, struct error *err) {
    char name[96];
    snprintf(name, sizeof name, TEMPORARY "%lld.%lld", (long long)step,
             (long long)getpid());
    return file_join(path, output, name, err);
}

/* "<path>.damaged", or the first free "<path>.damaged-<n>". */
static enum status set_aside(const char *from, const char *path, struct error *err) {
    char aside[PATH_BYTES + 32];
    snprintf(aside, sizeof aside, "%s.damaged", path);
    for (int n = 2; file_exists(aside) && n < 1000; n++)
        snprintf(aside, sizeof aside, "%s.damaged-%d", path, n);
    return rename(from, aside) == 0 ? OK : error_system(err, from, "cannot rename");
}

/* The two folders change names in one step; what was there goes. */
static enum status swap(const char *temporary, const char *path, struct error *err) {
    struct error fault;
    bool was_valid = manifest_check(path, true, &fault) == OK;
    if (renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_EXCHANGE) != 0) {
        /* a file system that cannot exchange, as NFS: one after the other */
        TRY(set_aside(path, path, err));
        return rename(temporary, path) == 0 ? OK
                                            : error_system(err, path, "cannot replace");
    }
    return was_valid ? file_remove_tree(temporary, err) : set_aside(temporary, path, err);
}

enum status checkpoint_folder_publish(const char *output, int64_t step,
                                      struct error *err) {
    char path[PATH_BYTES], temporary[PATH_BYTES];
    TRY(checkpoint_folder_path(path, output, step, err));
    TRY(checkpoint_folder_temporary(temporary, output, step, err));
    if (file_exists(path))
        TRY(swap(temporary, path, err));
    else if (rename(temporary, path) != 0)
        return error_system(err, temporary, "cannot rename");
    return file_sync(output, err);
}

enum status checkpoint_folder_remove(const char *output, int64_t step,
                                     struct error *err) {
    char path[PATH_BYTES], temporary[PATH_BYTES];
    TRY(checkpoint_folder_path(path, output, step, err));
    TRY(checkpoint_folder_temporary(temporary, output, step, err));
    if (rename(path, temporary) != 0)
        return error_system(err, path, "cannot rename");
    return file_remove_tree(temporary, err);
}

static enum status remove_stale(const char *output, const char *name, struct error *err) {
    char path[PATH_BYTES];
    int64_t pid = owner(name);
    if (pid != getpid() && file_owner_is_alive(pid))
        return OK;
    TRY(file_join(path, output, name, err));
    return file_is_directory(path) ? file_remove_tree(path, err) : OK;
}

enum status checkpoint_folders_clean(const char *output, struct error *err) {
    struct dirent **entries;
    int count = list(output, &entries, is_temporary, err);
    enum status status = count < 0 ? err->status : OK;
    for (int i = 0; i < count; i++) {
        if (status == OK)
            status = remove_stale(output, entries[i]->d_name, err);
        free(entries[i]);
    }
    free(entries);
    return status;
}
