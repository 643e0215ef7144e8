/* error - what went wrong, as a value: a status code and one sentence.
 *
 * A function that can fail returns `enum status` and takes `struct error *err` last. The
 * place that knows writes the sentence (file and line or byte, expected, found); each
 * caller adds in front only what it alone knows. Only the command prints it, and its exit
 * code is the status. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

enum status {
    OK = 0,
    ERR_FAILED = 1,    /* anything not named below */
    ERR_USAGE = 2,     /* wrong command line or option value */
    ERR_INPUT = 3,     /* a bad input file */
    ERR_IO = 4,        /* the system refused to read or write: ENOSPC, EIO, EACCES ... */
    ERR_MEMORY = 5,    /* out of memory */
    ERR_NONFINITE = 6, /* loss or gradient is NaN or infinite */
    ERR_INCOMPATIBLE = 7, /* a checkpoint that does not fit */
    STOPPED_SIGINT = 130, /* stopped by a signal, after saving */
    STOPPED_SIGTERM = 143,
};

struct error {
    enum status status;
    char text[1024];
};

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))

/* Writes the sentence and returns `status`, so that `return error_set(err, ...)` reads as
 * one line. A text that does not fit is cut. `err` is never NULL. */
enum status error_set(struct error *err, enum status status, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* Puts "<formatted text>: " in front of the sentence and returns its status. */
enum status error_context(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3);

/* The sentence for a failed system call: "<path>: <what>: <strerror(errno)>".
 * ENOENT and EISDIR give ERR_INPUT, ENOMEM ERR_MEMORY, all others ERR_IO. */
enum status error_system(struct error *err, const char *path, const char *what);

/* Leaves the function with the status of a call that failed. */
#define TRY(call)                        \
    do {                                 \
        enum status try_status = (call); \
        if (try_status != OK)            \
            return try_status;           \
    } while (0)

#endif
