/* cpus - affinity mask, core topology and cgroup quota.
 *
 * Threads beyond the cores cost time: two hyper-threads of a core share its multipliers,
 * so a product gains nothing from both. And threads beyond a container's quota are
 * stopped for the rest of each period, all of them, where OpenMP's barriers then spin.
 * Hence cores of the affinity mask, at most what the quota pays for: cpu.max (cgroup v2)
 * or cpu.cfs_quota_us (v1). */
#include "base/cpus.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>

/* Scans the first line of a small system file; 0 fields when there is none. */
static int scan(const char *path, const char *format, void *first, void *second) {
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    const int fields = fscanf(file, format, first, second);
    fclose(file);
    return fields;
}

/* Is `cpu` the first of its core among the allowed ones? Its siblings are listed like
 * "0-1" or "0,4"; the first one stands for the core. */
static bool stands_for_core(int cpu, const cpu_set_t *allowed) {
    char path[96], separator;
    int first = cpu;
    snprintf(path, sizeof path,
             "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    scan(path, "%d%c", &first, &separator);
    return first == cpu || first < 0 || first >= CPU_SETSIZE ||
           !CPU_ISSET(first, allowed);
}

static int cores(void) {
    cpu_set_t allowed;
    int count = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return 1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        count += CPU_ISSET(cpu, &allowed) && stands_for_core(cpu, &allowed);
    return count;
}

/* Whole processors that the quota pays for, rounded up; 0 = no limit. */
static int quota(void) {
    long long microseconds = 0, period = 0;
    if (scan("/sys/fs/cgroup/cpu.max", "%lld %lld", &microseconds, &period) != 2) {
        scan("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "%lld%lld", &microseconds, &period);
        scan("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "%lld%lld", &period, &period);
    }
    if (microseconds <= 0 || period <= 0)
        return 0;
    return (int)((microseconds + period - 1) / period);
}

int cpus_usable(void) {
    const int have = cores(), paid = quota();
    const int usable = paid > 0 && paid < have ? paid : have;
    return usable > 0 ? usable : 1;
}
