/* test_interrupt - the first signal asks, the second ends the process. */
#include "base/interrupt.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support.h"

static void signals_are_flags(void **state) {
    (void)state;
    interrupt_install();
    assert_int_equal(interrupt_stop(), OK);
    assert_false(interrupt_save());
    raise(SIGUSR1);
    assert_true(interrupt_save());
    assert_false(interrupt_save());
    raise(SIGINT);
    assert_int_equal(interrupt_stop(), STOPPED_SIGINT);
    assert_int_equal(interrupt_stop(), STOPPED_SIGINT);
    interrupt_install();
    assert_int_equal(interrupt_stop(), OK);
    raise(SIGTERM);
    assert_int_equal(interrupt_stop(), STOPPED_SIGTERM);
    interrupt_install();
}

static void a_second_signal_ends_the_process_at_once(void **state) {
    (void)state;
    static const int rows[][3] = {
        {SIGINT, SIGINT, 130}, {SIGTERM, SIGTERM, 143}, {SIGINT, SIGTERM, 143}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const pid_t child = fork();
        if (child == 0) {
            interrupt_install();
            raise(rows[i][0]);
            raise(rows[i][1]);
            _exit(0);
        }
        int code;
        assert_int_equal(waitpid(child, &code, 0), child);
        assert_true(WIFEXITED(code));
        assert_int_equal(WEXITSTATUS(code), rows[i][2]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_are_flags),
        cmocka_unit_test(a_second_signal_ends_the_process_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
