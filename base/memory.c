/* memory - what the process holds.
 *
 * The peak and not the present size: what a job needs is what it had at most. */
#include "base/memory.h"

#include <sys/resource.h>

size_t memory_peak(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * 1024 : 0;
}
