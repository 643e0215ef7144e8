/* capture - runs a command in this process with its standard streams redirected.
 *
 * Commands print and return an exit code like programs; in the test's own process they
 * run in milliseconds, under the sanitizers, and with memory that can be looked at. */
#ifndef TESTS_CAPTURE_H
#define TESTS_CAPTURE_H

#include "base/buffer.h"

struct captured {
    int code;
    struct buffer out, err; /* all that was written */
};

/* `words` end with NULL; `input` is what stdin holds. */
struct captured capture(int (*command)(int argc, char **argv), const char *input,
                        const char *const *words);
void captured_free(struct captured *c);

/* Points a standard descriptor at `file`; what restore wants. */
int capture_redirect(int standard, int file);
void capture_restore(int standard, int saved);

#endif
