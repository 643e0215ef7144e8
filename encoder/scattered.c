/* scattered - zeros that take no memory. */
#include "encoder/scattered.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Whole pages are given back; small ones, because a huge page would come back for each
 * row of the table. */
static bool drop_pages(unsigned char *first, unsigned char *last) {
    const size_t bytes = (size_t)(last - first);
    madvise(first, bytes, MADV_NOHUGEPAGE); /* a wish */
    return madvise(first, bytes, MADV_DONTNEED) == 0;
}

static unsigned char *page_after(unsigned char *at, size_t page) {
    return at + (page - (uintptr_t)at % page) % page;
}

static void clear(unsigned char *begin, unsigned char *end) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *first = page_after(begin, page), *last = end - (uintptr_t)end % page;
    if (first >= last || !drop_pages(first, last)) {
        memset(begin, 0, (size_t)(end - begin));
        return;
    }
    memset(begin, 0, (size_t)(first - begin));
    memset(last, 0, (size_t)(end - last));
}

void scattered_settle(struct parameter *row) {
    assert(row->marked);
    if (!row->is_stale)
        return;
    clear((unsigned char *)row->gradient, (unsigned char *)(row->gradient + row->count));
    memset(row->marked, 0, (size_t)row->shape[0]);
    row->is_scattered = true;
    row->is_stale = false;
}
