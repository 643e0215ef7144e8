/* notice - how library code says something worth a line without printing: it hands the
 * line to a sink that the command chose.
 *
 * Notices are for what a user may want to know though nothing failed: a default that was
 * chosen, a file that was skipped and why. Failures are errors (base/error.h), results go
 * to stdout. */
#ifndef BASE_NOTICE_H
#define BASE_NOTICE_H

#include "base/error.h"

struct notices {
    void (*line)(void *self, const char *text); /* NULL = nobody listens */
    void *self;
};

/* One sentence, no newline. `to` may be NULL. */
void notice(const struct notices *to, const char *format, ...) PRINTF_LIKE(2, 3);
/* The sink of commands: "<text>\n" on stderr, above a progress bar if one is shown. */
extern const struct notices notices_stderr;

#endif
