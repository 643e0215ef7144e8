/* runlog - metrics.jsonl: one JSON object a line, append-only.
 *
 * O_APPEND and one write a line: lines of a killed process are whole but for the last.
 * Cutting back to a recorded length is what makes an interrupted log equal to one that
 * was not. */
#include "base/runlog.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"

struct runlog {
    int file;
    uint64_t offset;
    char *path;
    struct buffer
        line; /* kept, so that logging does not allocate after the first lines */
};

static enum status cut_to(struct runlog *log, struct error *err) {
    struct stat info;
    if (fstat(log->file, &info) != 0)
        return error_system(err, log->path, "cannot look at the log");
    if (!S_ISREG(info.st_mode))
        return error_set(err, ERR_INPUT, "%s: expected a regular file", log->path);
    if ((uint64_t)info.st_size < log->offset)
        return error_set(err, ERR_INCOMPATIBLE,
                         "%s: expected at least the %llu bytes that the checkpoint "
                         "records, found %lld",
                         log->path, (unsigned long long)log->offset,
                         (long long)info.st_size);
    if (ftruncate(log->file, (off_t)log->offset) != 0)
        return error_system(err, log->path, "cannot cut the log");
    return OK;
}

static enum status open_file(struct runlog *log, const char *path, struct error *err) {
    log->path = strdup(path);
    if (!log->path)
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    /* NONBLOCK: opening a FIFO must not wait for its reader */
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;
    log->file = open(path, flags, 0666);
    if (log->file < 0)
        return error_system(err, path, "cannot open the log");
    return cut_to(log, err);
}

enum status runlog_open(struct runlog **log, const char *path, uint64_t offset,
                        struct error *err) {
    *log = calloc(1, sizeof **log);
    if (!*log)
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    (*log)->file = -1;
    (*log)->offset = offset;
    const enum status status = open_file(*log, path, err);
    if (status != OK) {
        runlog_close(*log);
        *log = NULL;
    }
    return status;
}

static enum status write_line(struct runlog *log, struct error *err) {
    for (size_t done = 0; done < log->line.length;) {
        const ssize_t n =
            write(log->file, log->line.data + done, log->line.length - done);
        if (n < 0 && errno != EINTR)
            return error_system(err, log->path, "cannot write");
        if (n > 0) {
            done += (size_t)n;
            log->offset += (uint64_t)n;
        }
    }
    return OK;
}

enum status runlog_line(struct runlog *log, struct error *err, const char *format, ...) {
    if (!log)
        return OK;
    char members[4096];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(members, sizeof members, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof members)
        return error_set(err, ERR_FAILED, "%s: a line of over %zu bytes", log->path,
                         sizeof members);
    buffer_clear(&log->line);
    TRY(buffer_print(&log->line, err, "{%s}\n", members));
    return write_line(log, err);
}

const char *runlog_number(char text[32], double value) {
    if (isfinite(value))
        snprintf(text, 32, "%.9g", value);
    else
        strcpy(text, "null");
    return text;
}

uint64_t runlog_offset(const struct runlog *log) { return log ? log->offset : 0; }

enum status runlog_sync(struct runlog *log, struct error *err) {
    if (log && fsync(log->file) != 0)
        return error_system(err, log->path, "cannot sync");
    return OK;
}

void runlog_close(struct runlog *log) {
    if (!log)
        return;
    if (log->file >= 0)
        close(log->file);
    buffer_free(&log->line);
    free(log->path);
    free(log);
}
