/* team - the threads of a run, how they share the rows of a pass, and their scratch.
 *
 * Passes over the rows of a batch are cut into parts of whole blocks of 32 rows, the same
 * for any number of threads. What is summed over rows (the gradients of biases, gains and
 * scales) is summed within a part, and then over the parts in order: the bits do not
 * depend on the number of threads, and every row is read once for all that it gives.
 *
 *     #pragma omp parallel for schedule(static) num_threads(team->threads)
 *     for (int part = 0; part < team_parts(rows); part++) {
 *         float *sums = team_sums(team, part, width);
 *         for (int64_t n = team_first(rows, part); n < team_first(rows, part + 1); n++)
 *             ... adds to sums[0 .. width - 1] ...
 *     }
 *     team_add(team, rows, width, 0, gradient, width);
 *
 * A team needs no opening: {.threads = n} is one. */
#ifndef ENCODER_TEAM_H
#define ENCODER_TEAM_H

#include <stdbool.h>
#include <stdint.h>

enum { TEAM_PARTS = 32, TEAM_BLOCK = 32 /* rows */ };

struct team {
    int threads;
    int64_t sums_each, room_each; /* floats a part and a thread have */
    float *sums, *room;
    bool failed; /* a reservation was out of memory */
};

/* Makes room for `sums` floats a part and `room` floats a thread, if there is less.
 * Called while layers are declared; device_check() tells whether all were granted. */
void team_reserve(struct team *t, int64_t sums, int64_t room);
void team_close(struct team *t);

/* Parts that `rows` rows are cut into, and where part `part` begins. */
static inline int64_t team_part_rows(int64_t rows) {
    const int64_t blocks = (rows + TEAM_BLOCK - 1) / TEAM_BLOCK;
    return (blocks + TEAM_PARTS - 1) / TEAM_PARTS * TEAM_BLOCK;
}
static inline int team_parts(int64_t rows) {
    return rows > 0 ? (int)((rows - 1) / team_part_rows(rows)) + 1 : 0;
}
static inline int64_t team_first(int64_t rows, int part) {
    const int64_t first = part * team_part_rows(rows);
    return first < rows ? first : rows;
}

/* The part's sums, cleared. */
float *team_sums(const struct team *t, int part, int64_t width);
/* to[i] += sums[offset + i] of all parts of a pass over `rows` rows. */
void team_add(const struct team *t, int64_t rows, int64_t offset, float *to,
              int64_t count);
/* The calling thread's room. */
float *team_room(const struct team *t);

#endif
