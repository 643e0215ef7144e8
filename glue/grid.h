/* grid - cells of text in rows, written aligned by display width or as Markdown. */
#ifndef GLUE_GRID_H
#define GLUE_GRID_H

#include <stdbool.h>

#include "base/buffer.h"

struct grid {
    int columns;
    struct buffer text; /* all cells, each ended by a NUL */
    size_t *starts;     /* of each cell in text; owned */
    size_t count, capacity;
    unsigned right; /* bit c: column c is right-aligned (numbers) */
};

/* A zeroed grid with `columns` (and `right`) set is ready. Cells are added row by row;
 * the first row is the heading. */
enum status grid_add(struct grid *g, struct error *err, const char *format, ...)
    PRINTF_LIKE(3, 4) MUST_CHECK;
/* Empty cells up to the end of the row begun. */
enum status grid_end_row(struct grid *g, struct error *err) MUST_CHECK;

/* Appends the grid to `out`: columns two spaces apart, no space at a line's end. */
enum status grid_write_plain(const struct grid *g, struct buffer *out,
                             struct error *err) MUST_CHECK;
/* A GitHub table; '|', '*', '\' and '_' in cells are escaped. */
enum status grid_write_markdown(const struct grid *g, struct buffer *out,
                                struct error *err) MUST_CHECK;
void grid_free(struct grid *g);

#endif
