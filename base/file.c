/* file - mapping, whole reads, checksums, folders. The stream readers and writers are
 * file_reader.c and file_writer.c.
 *
 * What makes a path safe to open: a FIFO, socket or device where a file is expected is
 * refused before anything is read, so that nothing blocks. Folders are removed through
 * descriptors, one level inside the other and never through a link (openat with
 * O_NOFOLLOW): a name that is exchanged meanwhile cannot lead outside. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *kind_of(mode_t mode) {
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

enum status file_open(int *file, struct stat *info, const char *path, struct error *err) {
    /* NONBLOCK: opening a FIFO must not wait for its writer */
    *file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*file < 0)
        return error_system(err, path, "cannot open");
    if (fstat(*file, info) != 0) {
        error_system(err, path, "cannot look at it");
    } else if (!S_ISREG(info->st_mode)) {
        error_set(err, ERR_INPUT, "%s: expected a regular file, found %s", path,
                  kind_of(info->st_mode));
    } else {
        return OK;
    }
    close(*file);
    *file = -1;
    return err->status;
}

enum status file_map(struct mapping *m, const char *path, struct error *err) {
    int file;
    struct stat info;
    *m = (struct mapping){0};
    TRY(file_open(&file, &info, path, err));
    void *data = NULL;
    if (info.st_size > 0)
        data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED)
        error_system(err, path, "cannot map");
    else
        *m = (struct mapping){data, (size_t)info.st_size};
    close(file);
    return data == MAP_FAILED ? err->status : OK;
}

void file_unmap(struct mapping *m) {
    if (m->data)
        munmap((void *)m->data, m->size);
    *m = (struct mapping){0};
}

static enum status read_all(struct buffer *out, int file, size_t size, size_t limit,
                            const char *path, struct error *err) {
    if (size > limit)
        return error_set(err, ERR_INPUT, "%s: expected at most %zu bytes, found %zu",
                         path, limit, size);
    TRY(buffer_reserve(out, size, err));
    for (size_t done = 0; done < size;) {
        const ssize_t n = read(file, out->data + out->length, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_system(err, path, "cannot read");
        if (n == 0) /* it shrank while we read */
            break;
        done += (size_t)n;
        out->length += (size_t)n;
    }
    out->data[out->length] = '\0';
    return OK;
}

enum status file_read(struct buffer *out, const char *path, size_t limit,
                      struct error *err) {
    int file;
    struct stat info;
    TRY(file_open(&file, &info, path, err));
    const enum status status =
        read_all(out, file, (size_t)info.st_size, limit, path, err);
    close(file);
    return status;
}

enum status file_checksum(const char *path, uint64_t *size, uint32_t *crc,
                          struct error *err) {
    struct mapping m;
    TRY(file_map(&m, path, err));
    *size = m.size;
    *crc = file_crc32c(0, m.data, m.size);
    file_unmap(&m);
    return OK;
}

bool file_exists(const char *path) { return access(path, F_OK) == 0; }

bool file_is_directory(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Somebody else may make it at the same moment: that it is there is what counts. */
static enum status make_one(const char *path, struct error *err) {
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && file_is_directory(path)))
        return OK;
    return error_system(err, path, "cannot create the folder");
}

enum status file_make_directory(const char *path, struct error *err) {
    char part[PATH_BYTES];
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part)
        return error_set(err, ERR_INPUT, "%.100s...: path too long", path);
    for (char *slash = strchr(part + 1, '/'); slash && part[0];
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        TRY(make_one(part, err));
        *slash = '/';
    }
    return make_one(part, err);
}

enum status file_sync(const char *path, struct error *err) {
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return error_system(err, path, "cannot open");
    const bool failed = fsync(file) != 0;
    if (failed)
        error_system(err, path, "cannot sync");
    close(file);
    return failed ? err->status : OK;
}

/* Removes all that is in `folder` (which it closes); false with errno set on failure. */
static bool empty_folder(int folder) {
    DIR *entries = fdopendir(folder);
    if (!entries) {
        close(folder);
        return false;
    }
    bool is_done = true;
    for (struct dirent *entry; is_done && (entry = readdir(entries));) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        const int inner =
            openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        is_done = inner < 0
                      ? unlinkat(folder, name, 0) == 0
                      : empty_folder(inner) && unlinkat(folder, name, AT_REMOVEDIR) == 0;
    }
    const int number = errno;
    closedir(entries);
    errno = number;
    return is_done;
}

enum status file_remove_tree(const char *path, struct error *err) {
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 && errno == ENOENT)
        return OK;
    if (folder < 0 || !empty_folder(folder) || rmdir(path) != 0)
        return error_system(err, path, "cannot remove the folder");
    return OK;
}

enum status file_join(char path[PATH_BYTES], const char *directory, const char *name,
                      struct error *err) {
    const size_t length = strlen(directory);
    const char *slash = length && directory[length - 1] == '/' ? "" : "/";
    if (snprintf(path, PATH_BYTES, "%s%s%s", directory, slash, name) >= PATH_BYTES)
        return error_set(err, ERR_INPUT, "%.100s.../%.100s: path too long", directory,
                         name);
    return OK;
}
