/* error - what went wrong, as a value: a status code and one sentence.
 *
 * No allocation, so that "out of memory" can be said. A struct error is 1 KiB on the
 * stack of whoever asks; a longer sentence is cut, never an error of its own. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum status error_set(struct error *err, enum status status, const char *format, ...) {
    char text[sizeof err->text]; /* an argument may be err->text itself */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(err->text, text, sizeof text);
    err->status = status;
    return status;
}

enum status error_context(struct error *err, const char *format, ...) {
    char front[sizeof err->text];
    va_list args;
    va_start(args, format);
    vsnprintf(front, sizeof front, format, args);
    va_end(args);
    return error_set(err, err->status, "%s: %s", front, err->text);
}

static enum status status_of_errno(int number) {
    switch (number) {
        case ENOENT:
        case EISDIR:
            return ERR_INPUT;
        case ENOMEM:
            return ERR_MEMORY;
        default:
            return ERR_IO;
    }
}

enum status error_system(struct error *err, const char *path, const char *what) {
    const int number = errno;
    return error_set(err, status_of_errno(number), "%s: %s: %s", path, what,
                     strerror(number));
}
