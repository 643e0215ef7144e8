/* terminal - what stands behind a file descriptor: a screen or not, and how wide. */
#ifndef BASE_TERMINAL_H
#define BASE_TERMINAL_H

#include <stdbool.h>

/* A terminal that obeys cursor codes (not TERM=dumb). */
bool terminal_is_smart(int file);
/* $COLUMNS, else what the terminal says, else `otherwise`. */
int terminal_columns(int file, int otherwise);

/* To the start of the line, which is wiped. */
#define TERMINAL_WIPE "\r\033[K"

#endif
