/* arena - one block of memory, laid out twice: first measured, then handed out.
 *
 * Layout code takes its arrays from an arena. A zeroed arena measures: every take returns
 * NULL and `used` grows. arena_open() then maps `used` bytes and the same layout code
 * runs again, now getting memory. Nothing is freed singly.
 *
 *     struct arena measure = {0}, arena;
 *     model_layout(&model, &measure);
 *     TRY(arena_open(&arena, measure.used, err));
 *     model_layout(&model, &arena);
 *
 * So the memory of a job is known, and can be printed, before its first step, and a step
 * allocates nothing. Both runs must take the same sizes in the same order. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/error.h"

#define ARENA_ALIGNMENT 64 /* bytes; a cache line and an AVX-512 register */

struct arena {
    unsigned char *base; /* NULL while measuring */
    size_t used, size;   /* bytes; `used` is SIZE_MAX once a size overflowed */
};

/* Zeroed array of `count` items of `item_bytes` each, aligned; NULL while measuring.
 * Taking more than was measured is a mistake of ours (assert). */
void *arena_take(struct arena *arena, size_t count, size_t item_bytes);

#define ARENA_TAKE(arena, type, count) \
    ((type *)arena_take(arena, (size_t)(count), sizeof(type)))

/* Maps `bytes` bytes (huge pages where the system grants them), all zero, touched once.
 */
enum status arena_open(struct arena *arena, size_t bytes, struct error *err) MUST_CHECK;
void arena_close(struct arena *arena);

#endif
