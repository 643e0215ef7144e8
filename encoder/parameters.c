/* parameters - the registry of what is trained.
 *
 *   value      | query | key | value |..| bias |..| ... | buffers |
 *   gradient   | the same places                        |
 *   exp_avg    | the same places                        |
 *   exp_avg_sq | the same places                        |
 *
 * Four blocks with the same offsets: the optimizer and the norm of the gradient go over
 * blocks, whatever the rows are; the checkpoint and the initialiser over rows. A row
 * begins at a cache line, unless it adjoins the one before.
 *
 * Stale gradients: a product can write its result or add to it. Clearing 500 MB before
 * every step, only to add to zeros, is memory traffic for nothing; so rows whose gradient
 * is a product are left as they are after an update and called stale. The first product
 * of a step writes (parameters_adds), anybody else who wants to read or add clears first
 * (parameters_settle). */
#include "encoder/parameters.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PADDING = 16 }; /* elements: a row of values begins at a cache line */

/* A row that did not fit into memory is counted but absent; parameters_allocate tells. */
static struct parameter *append(struct parameters *p) {
    if (p->count == p->capacity) {
        const int capacity = p->capacity ? 2 * p->capacity : 64;
        void *rows = realloc(p->rows, (size_t)capacity * sizeof *p->rows);
        if (!rows) {
            p->failed = true;
            return NULL;
        }
        p->rows = rows;
        p->capacity = capacity;
    }
    struct parameter *row = calloc(1, sizeof *row);
    if (!row)
        p->failed = true;
    else
        p->rows[p->count++] = row;
    return row;
}

struct parameter *parameters_add(struct parameters *p, struct parameter_spec spec,
                                 int64_t rows, int64_t columns, const char *name, ...) {
    assert(rows > 0 && columns >= 0 && !p->value);
    struct parameter *row = append(p);
    if (!row)
        return NULL;
    va_list arguments;
    va_start(arguments, name);
    vsnprintf(row->name, sizeof row->name, name, arguments);
    va_end(arguments);
    row->rank = columns ? 2 : 1;
    row->shape[0] = rows;
    row->shape[1] = columns;
    row->count = (size_t)rows * (size_t)(columns ? columns : 1);
    row->init = spec.init;
    row->gain = spec.gain != 0 ? spec.gain : 1;
    row->zero_row = spec.init == PARAMETER_EMBEDDING ? spec.zero_row : -1;
    row->decay = spec.decay;
    row->is_head = spec.is_head;
    row->adjoins = spec.adjoins;
    row->is_buffer = spec.is_buffer;
    row->side = spec.side;
    row->stream = spec.stream;
    row->is_product = spec.is_product;
    row->scatters = spec.scatters;
    return row;
}

static size_t padded(size_t count) { return (count + PADDING - 1) / PADDING * PADDING; }

/* Where the elements of each row, of buffers or of all others, begin in the blocks.
 * Returns the end of the last. */
static size_t place_rows(struct parameters *p, bool buffers, size_t end) {
    for (int i = 0; i < p->count; i++) {
        if (p->rows[i]->is_buffer != buffers)
            continue;
        p->rows[i]->offset = p->rows[i]->adjoins ? end : padded(end);
        end = p->rows[i]->offset + p->rows[i]->count;
    }
    return padded(end);
}

static void take_blocks(struct parameters *p) {
    p->value = ARENA_TAKE(&p->arena, float, p->held);
    if (!p->training)
        return;
    p->gradient = ARENA_TAKE(&p->arena, float, p->total);
    p->exp_avg = ARENA_TAKE(&p->arena, float, p->total);
    p->exp_avg_sq = ARENA_TAKE(&p->arena, float, p->total);
    for (int i = 0; i < p->count; i++)
        if (p->rows[i]->scatters)
            p->rows[i]->marked =
                ARENA_TAKE(&p->arena, unsigned char, p->rows[i]->shape[0]);
}

enum status parameters_allocate(struct parameters *p, bool training, struct error *err) {
    if (p->failed)
        return error_set(err, ERR_MEMORY, "out of memory while naming the parameters");
    p->training = training;
    p->total = place_rows(p, false, 0);
    p->held = place_rows(p, true, p->total);
    take_blocks(p);
    TRY(arena_open(&p->arena, p->arena.used, err));
    take_blocks(p);
    for (int i = 0; i < p->count; i++) {
        struct parameter *row = p->rows[i];
        row->value = p->value + row->offset;
        if (!training || row->is_buffer)
            continue;
        row->gradient = p->gradient + row->offset;
        row->exp_avg = p->exp_avg + row->offset;
        row->exp_avg_sq = p->exp_avg_sq + row->offset;
        row->is_stale = row->is_product;
    }
    return OK;
}

void parameters_clear_gradients(struct parameters *p) {
    for (int i = 0; i < p->count; i++) {
        struct parameter *row = p->rows[i];
        row->is_stale = row->is_product;
        if (row->gradient && !row->is_product)
            memset(row->gradient, 0, row->count * sizeof *row->gradient);
    }
}

bool parameters_adds(struct parameter *row) {
    const bool adds = !row->is_stale;
    row->is_stale = row->is_scattered = false;
    return adds;
}

void parameters_settle(struct parameter *row) {
    if (!row->is_stale)
        return;
    memset(row->gradient, 0, row->count * sizeof *row->gradient);
    row->is_stale = row->is_scattered = false;
}

void parameters_settle_all(const struct parameters *p) {
    for (int i = 0; i < p->count; i++)
        parameters_settle(p->rows[i]);
}

struct parameter *parameters_find(const struct parameters *p, const char *name) {
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->rows[i]->name, name) == 0)
            return p->rows[i];
    return NULL;
}

int64_t parameters_number(const struct parameters *p) {
    int64_t number = 0;
    for (int i = 0; i < p->count; i++)
        number += p->rows[i]->is_buffer ? 0 : (int64_t)p->rows[i]->count;
    return number;
}

void parameters_free(struct parameters *p) {
    for (int i = 0; i < p->count; i++)
        free(p->rows[i]);
    free(p->rows);
    arena_close(&p->arena);
    *p = (struct parameters){0};
}
