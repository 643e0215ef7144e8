/* table - the score table: models side by side, for people or for programs. */
#ifndef GLUE_TABLE_H
#define GLUE_TABLE_H

#include "glue/scores.h"

/* Values of --format; the default is the first. */
#define TABLE_FORMATS "plain|markdown|tsv|json"

/* Appends the table of `count` models to `out`. Plain and Markdown show percentages,
 * median [lowest, highest] over seeds, and say what was measured; TSV and JSON have the
 * values as they are, JSON also those of every seed. Nothing in it depends on the day. */
enum status table_write(const struct scores *models, int count, const char *format,
                        struct buffer *out, struct error *err) MUST_CHECK;

/* The same for programs (table_export.c). */
enum status table_write_tsv(const struct scores *models, int count, struct buffer *out,
                            struct error *err) MUST_CHECK;
enum status table_write_json(const struct scores *models, int count, struct buffer *out,
                             struct error *err) MUST_CHECK;
/* Was one of the runs held back by --max-train-samples or --max-eval-samples? */
bool table_is_limited(const struct scores_run *runs, int count);

#endif
