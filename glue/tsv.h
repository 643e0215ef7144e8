/* tsv - rows and fields of GLUE's tab-separated files; errors name path and line.
 *
 * Nothing is quoted: '"' is an ordinary character. Only 0x0A ends a line and only 0x09 a
 * field; one CR before the line's end and a byte-order mark at the start are dropped.
 * NUL bytes and anything that is not UTF-8 are errors. Plain and gzip files. */
#ifndef GLUE_TSV_H
#define GLUE_TSV_H

#include <stdint.h>

#include "base/error.h"

enum { TSV_MAX_FIELDS = 32 }; /* that are kept of a line; more are only counted */

struct tsv_row {
    char *fields[TSV_MAX_FIELDS]; /* NUL-terminated; valid until the next row */
    int64_t num_fields;           /* all of the line's; 0 = the file has ended */
    int64_t line;                 /* from 1 */
};

struct tsv;
/* Plain or gzip; *t is NULL after an error. */
enum status tsv_open(struct tsv **t, const char *path, struct error *err) MUST_CHECK;
/* The next line, empty ones too (they have one empty field). ERR_INPUT names path and
 * line. */
enum status tsv_next(struct tsv *t, struct tsv_row *row, struct error *err) MUST_CHECK;
const char *tsv_path(const struct tsv *t);
void tsv_close(struct tsv *t); /* NULL is fine */

/* Splits a line at its tabs, in place: the rule of tsv_next for lines from elsewhere. */
void tsv_split(char *line, struct tsv_row *row);

#endif
