/* test_cpus - the number of usable processors follows the affinity mask. */
#include <sched.h>

#include "base/cpus.h"
#include "tests/support.h"

static void one_allowed_processor_is_one(void **state) {
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    const int all = cpus_usable();
    assert_in_range(all, 1, CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(cpus_usable(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(cpus_usable(), all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_allowed_processor_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
