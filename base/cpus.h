/* cpus - how many processors this process may use. */
#ifndef BASE_CPUS_H
#define BASE_CPUS_H

/* Physical cores among the processors of the affinity mask (hyper-threads of one core
 * share its arithmetic units), at most what the cgroup's quota pays for. At least 1. */
int cpus_usable(void);

#endif
