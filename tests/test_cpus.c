/* test_cpus - the affinity mask bounds the processors. */
#include "base/cpus.h"

#include <sched.h>
#include <unistd.h>

#include "tests/support.h"

static void at_least_one_and_no_more_than_there_are(void **state) {
    (void)state;
    assert_in_range(cpus_usable(), 1, sysconf(_SC_NPROCESSORS_ONLN));
}

static void a_mask_of_one_processor_leaves_one(void **state) {
    (void)state;
    cpu_set_t saved, one;
    assert_int_equal(sched_getaffinity(0, sizeof saved, &saved), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &saved))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    const int usable = cpus_usable();
    assert_int_equal(sched_setaffinity(0, sizeof saved, &saved), 0);
    assert_int_equal(usable, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_least_one_and_no_more_than_there_are),
        cmocka_unit_test(a_mask_of_one_processor_leaves_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
