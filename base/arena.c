/* arena - one block of memory, laid out twice: first measured, then handed out.
 *
 * Memory comes from mmap and not from malloc: it is zero, it begins at a page, it goes
 * back as a whole, and huge pages can be asked for before it is touched. Touching it at
 * once takes the page faults out of the first step and makes "out of memory" an answer at
 * the start, as far as the system tells.
 *
 * While measuring, sizes that overflow stick at SIZE_MAX, so that layout code needs no
 * check of its own: arena_open() refuses. */
#include "base/arena.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* Rounded up to the alignment; SIZE_MAX when that is more than a size can hold. */
static size_t bytes_of(size_t count, size_t item_bytes) {
    size_t bytes;
    if (__builtin_mul_overflow(count, item_bytes, &bytes) ||
        __builtin_add_overflow(bytes, ARENA_ALIGNMENT - 1, &bytes))
        return SIZE_MAX;
    return bytes / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
}

void *arena_take(struct arena *arena, size_t count, size_t item_bytes) {
    const size_t bytes = bytes_of(count, item_bytes), at = arena->used;
    if (bytes == SIZE_MAX || __builtin_add_overflow(at, bytes, &arena->used))
        arena->used = SIZE_MAX;
    if (!arena->base)
        return NULL;
    assert(arena->used <= arena->size);
    return arena->base + at;
}

/* Fresh pages are zero already. Clearing them is the kernel's work, which all threads
 * share: it takes most of a large run's start. */
static void touch(unsigned char *base, size_t size) {
    enum { PAGE = 4096, STRETCH = 4 << 20 };
#pragma omp parallel for schedule(dynamic)
    for (size_t first = 0; first < size; first += STRETCH)
        for (size_t at = first; at < size && at < first + STRETCH; at += PAGE)
            base[at] = 0;
}

enum status arena_open(struct arena *arena, size_t bytes, struct error *err) {
    *arena = (struct arena){0};
    if (bytes == SIZE_MAX)
        return error_set(err, ERR_MEMORY, "the sizes asked for overflow");
    const size_t size = bytes ? bytes : ARENA_ALIGNMENT;
    void *base =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return error_set(err, ERR_MEMORY, "out of memory: %.1f MB asked for", size / 1e6);
    madvise(base, size, MADV_HUGEPAGE); /* a wish: refused on small or old systems */
    touch(base, size);                  /* page faults now, not inside a training step */
    *arena = (struct arena){.base = base, .size = size};
    return OK;
}

void arena_close(struct arena *arena) {
    if (arena->base)
        munmap(arena->base, arena->size);
    *arena = (struct arena){0};
}
