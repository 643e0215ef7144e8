/* file_writer - a file that appears under its name complete and synced, or not at all.
 *
 * The bytes go to ".<name>.<pid>.tmp" in the same folder, because rename(2) replaces a
 * name atomically only within a file system. The order matters: data reaches the disk
 * (fsync of the file) before the name points to it (rename), and the name before we
 * report success (fsync of the folder).
 *
 *   crash before the rename    the old file, or none; file_remove_stale() takes the
 *                              temporary one away later
 *   crash after it             the new file, whole
 *   full disk                  told by writer_reserve() before the work, or by a write;
 *                              the old file is untouched
 *
 * A temporary file names its process, so that nobody removes what another one is writing.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { PENDING = 1 << 17 }; /* bytes gathered before a write */

struct writer {
    int file;
    char path[PATH_BYTES], folder[PATH_BYTES], temporary[PATH_BYTES];
    uint64_t written;
    size_t pending;
    char bytes[PENDING];
};

/* The folder a path lies in, and the temporary name beside it: "dir/.name.<pid>.tmp". */
static enum status name_files(struct writer *w, const char *path, struct error *err) {
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const int directory = slash ? (int)(slash - path) + 1 : 0;
    const int length = snprintf(w->temporary, PATH_BYTES, "%.*s.%s.%ld.tmp", directory,
                                path, name, (long)getpid());
    if (length >= PATH_BYTES)
        return error_set(err, ERR_INPUT, "%.100s...: path too long", path);
    struct stat info; /* a rename onto /dev/null would replace the device */
    if (!*name || (stat(path, &info) == 0 && !S_ISREG(info.st_mode)))
        return error_set(err, ERR_INPUT,
                         "%s: expected a file name, found a directory or device", path);
    snprintf(w->path, PATH_BYTES, "%s", path);
    snprintf(w->folder, PATH_BYTES, "%.*s", directory, path);
    if (!directory)
        strcpy(w->folder, ".");
    return OK;
}

enum status writer_open(struct writer **w, const char *path, struct error *err) {
    *w = malloc(sizeof **w);
    if (!*w)
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    (*w)->file = -1;
    (*w)->written = (*w)->pending = 0;
    enum status status = name_files(*w, path, err);
    if (status == OK) {
        const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
        (*w)->file = open((*w)->temporary, flags, 0666);
        if ((*w)->file < 0)
            status = error_system(err, path, "cannot create");
    }
    if (status != OK) {
        free(*w);
        *w = NULL;
    }
    return status;
}

enum status writer_reserve(struct writer *w, uint64_t length, struct error *err) {
    int code = 0;
    do
        code =
            length == 0 ? 0 : fallocate(w->file, FALLOC_FL_KEEP_SIZE, 0, (off_t)length);
    while (code != 0 && errno == EINTR);
    if (code != 0 && errno != EOPNOTSUPP && errno != ENOSYS)
        return error_system(err, w->path, "cannot reserve room");
    return OK;
}

static enum status write_all(struct writer *w, const char *bytes, size_t length,
                             struct error *err) {
    while (length) {
        const ssize_t n = write(w->file, bytes, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_system(err, w->path, "cannot write");
        bytes += n;
        length -= (size_t)n;
    }
    return OK;
}

static enum status flush_pending(struct writer *w, struct error *err) {
    const size_t length = w->pending;
    w->pending = 0;
    return write_all(w, w->bytes, length, err);
}

enum status writer_write(struct writer *w, const void *bytes, size_t length,
                         struct error *err) {
    w->written += length;
    if (length > PENDING - w->pending)
        TRY(flush_pending(w, err));
    if (length > PENDING)
        return write_all(w, bytes, length, err);
    if (length)
        memcpy(w->bytes + w->pending, bytes, length);
    w->pending += length;
    return OK;
}

enum status writer_overwrite(struct writer *w, uint64_t offset, const void *bytes,
                             size_t length, struct error *err) {
    assert(length <= w->written && offset <= w->written - length);
    TRY(flush_pending(w, err));
    const off_t end = lseek(w->file, 0, SEEK_CUR);
    if (end < 0 || lseek(w->file, (off_t)offset, SEEK_SET) < 0)
        return error_system(err, w->path, "cannot seek");
    TRY(write_all(w, bytes, length, err));
    if (lseek(w->file, end, SEEK_SET) < 0)
        return error_system(err, w->path, "cannot seek");
    return OK;
}

uint64_t writer_bytes(const struct writer *w) { return w->written; }

enum status writer_commit(struct writer *w, struct error *err) {
    TRY(flush_pending(w, err));
    if (fsync(w->file) != 0)
        return error_system(err, w->path, "cannot sync");
    const int closed = close(w->file); /* the file is gone from us even on an error */
    w->file = -1;
    if (closed != 0 || rename(w->temporary, w->path) != 0) {
        error_system(err, w->path, "cannot finish");
        unlink(w->temporary);
        return err->status;
    }
    return file_sync(w->folder, err);
}

void writer_close(struct writer *w) {
    if (!w)
        return;
    if (w->file >= 0) {
        close(w->file);
        unlink(w->temporary);
    }
    free(w);
}

enum status file_write(const char *path, const void *bytes, size_t length,
                       struct error *err) {
    struct writer *w;
    TRY(writer_open(&w, path, err));
    enum status status = writer_write(w, bytes, length, err);
    if (status == OK)
        status = writer_commit(w, err);
    writer_close(w);
    return status;
}

/* The process in ".<name>.<pid>.tmp", -1 for other names. */
static int64_t owner(const char *name) {
    const size_t length = strlen(name);
    if (name[0] != '.' || length < 6 || strcmp(name + length - 4, ".tmp") != 0)
        return -1;
    size_t start = length - 4;
    while (start > 0 && name[start - 1] >= '0' && name[start - 1] <= '9')
        start--;
    const bool is_number = start < length - 4 && start > 1 && name[start - 1] == '.';
    return is_number ? strtoll(name + start, NULL, 10) : -1;
}

static int is_temporary(const struct dirent *entry) { return owner(entry->d_name) >= 0; }

bool file_owner_is_alive(int64_t pid) {
    return kill((pid_t)pid, 0) == 0 || errno != ESRCH;
}

static enum status remove_one(const char *directory, const char *name,
                              struct error *err) {
    char path[PATH_BYTES];
    TRY(file_join(path, directory, name, err));
    if (file_owner_is_alive(owner(name)) || unlink(path) == 0)
        return OK;
    return error_system(err, path, "cannot remove");
}

enum status file_remove_stale(const char *directory, struct error *err) {
    struct dirent **entries;
    const int count = scandir(directory, &entries, is_temporary, alphasort);
    if (count < 0)
        return error_system(err, directory, "cannot list");
    enum status status = OK;
    for (int i = 0; i < count; i++) {
        if (status == OK)
            status = remove_one(directory, entries[i]->d_name, err);
        free(entries[i]);
    }
    free(entries);
    return status;
}
