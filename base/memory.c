/* memory - what the process holds. */
#include "base/memory.h"

#include <sys/resource.h>

size_t memory_peak(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * 1024 : 0;
}
