/* grid - cells of text in rows, written aligned by display width or as Markdown.
 *
 * Width is counted in columns of a terminal, not bytes: a model's folder may be named in
 * any script. Cells are kept as one block of NUL-ended strings with their starts.
 *
 *   starts   one a cell, row by row: cell (r, c) is text + starts[r * columns + c]
 *
 * Two passes: all cells are known before the first is written, as a column is as wide as
 * its widest cell. */
#include "glue/grid.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { CELL_BYTES = 4096 + 64 }; /* a path and some words; longer cells are cut */

enum status grid_add(struct grid *g, struct error *err, const char *format, ...) {
    char cell[CELL_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(cell, sizeof cell, format, args);
    va_end(args);
    if (g->count == g->capacity) {
        const size_t capacity = g->capacity ? 2 * g->capacity : 64;
        size_t *starts = realloc(g->starts, capacity * sizeof *starts);
        if (!starts)
            return error_set(err, ERR_MEMORY, "out of memory: a table");
        g->starts = starts;
        g->capacity = capacity;
    }
    g->starts[g->count++] = g->text.length;
    return buffer_add(&g->text, cell, strlen(cell) + 1, err);
}

enum status grid_end_row(struct grid *g, struct error *err) {
    while (g->count % (size_t)g->columns != 0)
        TRY(grid_add(g, err, "%s", ""));
    return OK;
}

void grid_free(struct grid *g) {
    buffer_free(&g->text);
    free(g->starts);
    *g = (struct grid){0};
}

static const char *cell_at(const struct grid *g, size_t row, int column) {
    return g->text.data + g->starts[row * (size_t)g->columns + (size_t)column];
}

static size_t num_rows(const struct grid *g) { return g->count / (size_t)g->columns; }

/* Columns on a screen: 2 for wide East Asian characters, 0 for combining ones. */
static int display_width(const char *text) {
    int width = 0;
    while (*text) {
        utf8proc_int32_t character;
        const utf8proc_ssize_t bytes =
            utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &character);
        width += bytes > 0 ? utf8proc_charwidth(character) : 1;
        text += bytes > 0 ? bytes : 1;
    }
    return width;
}

static int column_width(const struct grid *g, int column) {
    int width = 0;
    for (size_t row = 0; row < num_rows(g); row++) {
        const int cell = display_width(cell_at(g, row, column));
        width = cell > width ? cell : width;
    }
    return width;
}

static enum status write_padded(struct buffer *out, const char *text, int width,
                                bool right, struct error *err) {
    const int space = width - display_width(text);
    return buffer_print(out, err, "%*s%s%*s", right ? space : 0, "", text,
                        right ? 0 : space, "");
}

/* No blanks at the end of a line: tables are pasted and compared. */
static enum status end_line(struct buffer *out, struct error *err) {
    while (out->length > 0 && out->data[out->length - 1] == ' ')
        out->length--;
    return buffer_add(out, "\n", 1, err);
}

static bool is_right(const struct grid *g, int column) {
    return column < 32 && (g->right >> column & 1);
}

static enum status write_rule(const struct grid *g, struct buffer *out,
                              struct error *err) {
    for (int c = 0; c < g->columns; c++) {
        for (int i = column_width(g, c); i > 0; i--)
            TRY(buffer_add(out, "-", 1, err));
        TRY(buffer_add(out, "  ", 2, err));
    }
    return end_line(out, err);
}

enum status grid_write_plain(const struct grid *g, struct buffer *out,
                             struct error *err) {
    for (size_t row = 0; row < num_rows(g); row++) {
        for (int c = 0; c < g->columns; c++) {
            TRY(write_padded(out, cell_at(g, row, c), column_width(g, c), is_right(g, c),
                             err));
            TRY(buffer_add(out, "  ", 2, err));
        }
        TRY(end_line(out, err));
        if (row == 0)
            TRY(write_rule(g, out, err));
    }
    return OK;
}

/* What Markdown would take for its own; a newline would end the row. */
static enum status write_escaped(struct buffer *out, const char *text,
                                 struct error *err) {
    for (; *text; text++) {
        if (strchr("|*\\_", *text))
            TRY(buffer_add(out, "\\", 1, err));
        TRY(buffer_add(out, *text == '\n' ? " " : text, 1, err));
    }
    return OK;
}

enum status grid_write_markdown(const struct grid *g, struct buffer *out,
                                struct error *err) {
    for (size_t row = 0; row < num_rows(g); row++) {
        for (int c = 0; c < g->columns; c++) {
            TRY(buffer_print(out, err, "| "));
            TRY(write_escaped(out, cell_at(g, row, c), err));
            TRY(buffer_print(out, err, " "));
        }
        TRY(buffer_print(out, err, "|\n"));
        for (int c = 0; row == 0 && c < g->columns; c++)
            TRY(buffer_print(out, err, is_right(g, c) ? "|---:" : "|---"));
        if (row == 0)
            TRY(buffer_print(out, err, "|\n"));
    }
    return OK;
}
