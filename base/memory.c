/* memory - what the process holds, and on what pages.
 *
 * The peak and not the present size: what a job needs is what it had at most. */
#include "base/memory.h"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>

size_t memory_peak(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * 1024 : 0;
}

void memory_use_huge_pages(void *start, size_t bytes) {
    const uintptr_t page = (uintptr_t)1 << 21, from = (uintptr_t)start;
    const uintptr_t first = (from + page - 1) & ~(page - 1);
    const uintptr_t end = (from + bytes) & ~(page - 1);
    if (first < end) /* a wish: where it is refused all is only slower */
        madvise((char *)start + (first - from), end - first, MADV_HUGEPAGE);
}
