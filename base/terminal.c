/* terminal - what stands behind a file descriptor.
 *
 * $COLUMNS is believed first, so that help can be told how wide to be when it is piped.
 */
#include "base/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool terminal_is_smart(int file) {
    const char *term = getenv("TERM");
    return isatty(file) && !(term && strcmp(term, "dumb") == 0);
}

int terminal_columns(int file, int otherwise) {
    const char *columns = getenv("COLUMNS");
    const long asked = columns ? strtol(columns, NULL, 10) : 0;
    if (asked > 0 && asked < 10000)
        return (int)asked;
    struct winsize size;
    if (ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return otherwise;
}
