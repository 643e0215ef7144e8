/* notice - one line handed to whoever listens.
 *
 * Sinks are values, not a global hook: a test listens by passing its own. */
#include "base/notice.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/terminal.h"

void notice(const struct notices *to, const char *format, ...) {
    if (!to || !to->line)
        return;
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    to->line(to->self, text);
}

/* On a terminal the line first wipes a progress bar that may stand there; the bar's next
 * update draws it again below. */
static void line_to_stderr(void *self, const char *text) {
    (void)self;
    fprintf(stderr, "%s%s\n", terminal_is_smart(STDERR_FILENO) ? TERMINAL_WIPE : "",
            text);
}

const struct notices notices_stderr = {line_to_stderr, NULL};
