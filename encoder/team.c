/* team - the scratch of row passes: a part's sums, a thread's rows.
 *
 * Sums and rooms are taken while layers are declared, for the widest pass; parts are a
 * cache line apart at least, so that two threads never write to one. */
#include "encoder/team.h"

#include <assert.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "encoder/vector.h"

enum { LINE = 16 }; /* floats of a cache line: threads do not share one */

static float *take(int64_t count) {
    return aligned_alloc(LINE * sizeof(float), (size_t)count * sizeof(float));
}

void team_reserve(struct team *t, int64_t sums, int64_t room) {
    sums = (sums + LINE - 1) / LINE * LINE;
    room = (room + LINE - 1) / LINE * LINE;
    if (sums > t->sums_each) {
        free(t->sums);
        t->sums = take(TEAM_PARTS * sums);
        t->sums_each = t->sums ? sums : 0;
    }
    if (room > t->room_each) {
        free(t->room);
        t->room = take(t->threads * room);
        t->room_each = t->room ? room : 0;
    }
    t->failed |= t->sums_each < sums || t->room_each < room;
}

void team_close(struct team *t) {
    free(t->sums);
    free(t->room);
    *t = (struct team){.threads = t->threads};
}

float *team_sums(const struct team *t, int part, int64_t width) {
    assert(width <= t->sums_each && part < TEAM_PARTS);
    float *sums = t->sums + part * t->sums_each;
    memset(sums, 0, (size_t)width * sizeof *sums);
    return sums;
}

HOT static void add(float *to, const float *from, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] += from[i];
}

void team_add(const struct team *t, int64_t rows, int64_t offset, float *to,
              int64_t count) {
    for (int part = 0; part < team_parts(rows); part++)
        add(to, t->sums + part * t->sums_each + offset, count);
}

float *team_room(const struct team *t) {
    return t->room + omp_get_thread_num() * t->room_each;
}
