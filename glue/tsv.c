/* tsv - rows and fields of GLUE's tab-separated files; errors name path and line.
 *
 * Why not a CSV reader: GLUE's files hold unbalanced quotes. With quoting switched on,
 * one swallows all lines up to the next: QNLI's dev set loses 196 of 5463 rows that way.
 * U+2028, U+0085, form feeds and the like are text: only 0x0A ends a line.
 *
 * Fields are cut in place: the reader's line gets NULs for its tabs, and a row points
 * into it until the next line is read. A line may have any number of fields; beyond 32
 * they are counted, not kept, which is enough to say how many were found. */
#include "glue/tsv.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/file.h"

struct tsv {
    struct reader *reader;
};

enum status tsv_open(struct tsv **t, const char *path, struct error *err) {
    *t = calloc(1, sizeof **t);
    if (!*t)
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    enum status status = reader_open(&(*t)->reader, path, err);
    if (status != OK) {
        free(*t);
        *t = NULL;
    }
    return status;
}

const char *tsv_path(const struct tsv *t) { return reader_path(t->reader); }

void tsv_close(struct tsv *t) {
    if (t)
        reader_close(t->reader);
    free(t);
}

void tsv_split(char *line, struct tsv_row *row) {
    row->num_fields = 0;
    for (char *field = line; field;) {
        char *tab = strchr(field, '\t');
        if (row->num_fields < TSV_MAX_FIELDS)
            row->fields[row->num_fields] = field;
        row->num_fields++;
        if (tab)
            *tab++ = '\0';
        field = tab;
    }
}

/* Index of the first byte that belongs to no UTF-8 character or is NUL; `length` = none.
 */
static size_t first_bad_byte(const char *line, size_t length) {
    const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)line;
    for (size_t i = 0; i < length;) {
        if (bytes[i] < 0x80) {
            if (bytes[i++] == 0)
                return i - 1;
            continue;
        }
        utf8proc_int32_t character;
        const utf8proc_ssize_t width =
            utf8proc_iterate(bytes + i, (utf8proc_ssize_t)(length - i), &character);
        if (width < 1)
            return i;
        i += (size_t)width;
    }
    return length;
}

static enum status check_text(const struct tsv *t, const char *line, size_t length,
                              struct error *err) {
    const size_t bad = first_bad_byte(line, length);
    if (bad == length)
        return OK;
    const unsigned char byte = (unsigned char)line[bad];
    const bool is_utf16 = reader_line_number(t->reader) == 1 && bad == 0 && byte >= 0xfe;
    return error_set(
        err, ERR_INPUT,
        "%s:%lld: byte %zu of the line: expected UTF-8 text, found %s0x%02x%s",
        tsv_path(t), (long long)reader_line_number(t->reader), bad + 1,
        byte ? "" : "a NUL byte ", byte, is_utf16 ? " (the file looks like UTF-16)" : "");
}

enum status tsv_next(struct tsv *t, struct tsv_row *row, struct error *err) {
    char *line;
    size_t length;
    row->num_fields = 0;
    TRY(reader_line(t->reader, &line, &length, err));
    if (!line)
        return OK;
    row->line = reader_line_number(t->reader);
    if (row->line == 1 && length >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) {
        line += 3;
        length -= 3;
    }
    if (length > 0 && line[length - 1] == '\r' && reader_line_was_ended(t->reader))
        line[--length] = '\0';
    TRY(check_text(t, line, length, err));
    tsv_split(line, row);
    return OK;
}
