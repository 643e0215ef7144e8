/* interrupt - signals as flags.
 *
 * sig_atomic_t is all that a handler may write. SA_RESTART lets system calls go on, so
 * that no read or write elsewhere has to expect EINTR because of these signals. */
#include "base/interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t stop_signal, save_asked;

static void on_stop(int number) {
    if (stop_signal)
        _exit(128 + number);
    stop_signal = number;
}

static void on_save(int number) {
    (void)number;
    save_asked = 1;
}

void interrupt_install(void) {
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    stop_signal = save_asked = 0;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = on_save;
    sigaction(SIGUSR1, &action, NULL);
}

enum status interrupt_stop(void) {
    const int number = stop_signal;
    if (number == 0)
        return OK;
    return number == SIGINT ? STOPPED_SIGINT : STOPPED_SIGTERM;
}

bool interrupt_save(void) {
    const bool asked = save_asked;
    save_asked = 0;
    return asked;
}
