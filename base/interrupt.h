/* interrupt - signals as flags: SIGINT and SIGTERM ask to save and stop, SIGUSR1 to save
 * and go on.
 *
 * Handlers only set a flag; a loop asks between two steps, when its state is whole:
 *
 *     interrupt_install();
 *     while (step < max_steps && interrupt_stop() == OK) {
 *         ...
 *         if (interrupt_save()) ...
 *     }
 *
 * The flags are the one global state of the program, because a handler has no argument.
 * A second SIGINT or SIGTERM ends the process at once without touching a file. */
#ifndef BASE_INTERRUPT_H
#define BASE_INTERRUPT_H

#include <stdbool.h>

#include "base/error.h"

/* Sets the handlers and forgets what came before. Commands call it, jobs only ask. */
void interrupt_install(void);
/* OK, STOPPED_SIGINT or STOPPED_SIGTERM. */
enum status interrupt_stop(void);
/* True once after each SIGUSR1. */
bool interrupt_save(void);

#endif
