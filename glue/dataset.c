/* dataset - a split of an official GLUE folder as examples.
 *
 * The first line decides how the file is read:
 *
 *   the split has no header (CoLA train, dev)    it is a row; columns by position
 *   it is the header of another task             error that names both (swapped folders)
 *   it has the names of the columns needed       columns by name, wherever they are
 *   it has none of them but the official width   columns by position, with a notice;
 *                                                a row if its label is valid
 *   anything else                                error with expected and found names
 *
 * STS-B and QQP came swapped from a widely used download script, MNLI's dev files have
 * five annotators' labels before gold_label, SST-2's test file has the text in another
 * column than its train file: by name all three are read right.
 *
 * Texts go into one growing block, so rows keep offsets until the file has ended.
 */
#include "glue/dataset.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "glue/glue.h"
#include "glue/tasks.h"
#include "glue/tsv.h"

/* Where the parts of an example are in a row of this file. */
struct columns {
    int text_a, text_b, label; /* -1: not there */
    int64_t num_fields;
};

/* A row read so far: texts as offsets, because their block still grows and moves. */
struct pending {
    size_t text_a, text_b;
    float label;
    int64_t line;
};

struct reading {
    const struct task *task;
    const struct glue_row *row;
    const struct glue_split *split;
    struct tsv *tsv;
    struct columns columns;
    struct buffer texts, rows; /* rows: struct pending */
    int64_t skipped, first_skipped;
};

static struct columns find_columns(const struct glue_row *row,
                                   const struct tsv_row *header) {
    struct columns c = {-1, -1, -1, header->num_fields};
    for (int i = 0; i < header->num_fields && i < TSV_MAX_FIELDS; i++) {
        if (strcmp(header->fields[i], row->text_a) == 0)
            c.text_a = i;
        else if (row->text_b && strcmp(header->fields[i], row->text_b) == 0)
            c.text_b = i;
        else if (strcmp(header->fields[i], row->label) == 0)
            c.label = i;
    }
    return c;
}

enum { HEADER_BYTES = 256 };

/* Where the columns are in the official file, from its header in tasks.c. */
static struct columns official_columns(const struct glue_row *row,
                                       const struct glue_split *split) {
    char header[HEADER_BYTES];
    struct tsv_row names;
    memcpy(header, split->header, strlen(split->header) + 1);
    tsv_split(header, &names);
    return find_columns(row, &names);
}

static bool is_header(const struct tsv_row *row, const char *header) {
    for (int i = 0; i < row->num_fields && i < TSV_MAX_FIELDS; i++) {
        const size_t length = strlen(row->fields[i]);
        if (strncmp(header, row->fields[i], length) != 0)
            return false;
        header += length;
        if (*header++ != (i + 1 < row->num_fields ? '\t' : '\0'))
            return false;
    }
    return true;
}

/* Is the line the header of any split of the task? */
static bool has_header(const struct task *task, const struct tsv_row *row) {
    for (const struct glue_split *s = tasks_row(task)->splits; s->name; s++)
        if (is_header(row, s->header))
            return true;
    return false;
}

/* The other task whose official header this is, or NULL. */
static const struct task *owner_of_header(const struct task *task,
                                          const struct tsv_row *row) {
    if (has_header(task, row))
        return NULL;
    for (int i = 0; i < glue_tasks.count; i++)
        if (has_header(glue_tasks.items[i], row))
            return glue_tasks.items[i];
    return NULL;
}

/* A label is one of the row's words or, without words, a score; nothing else is guessed.
 */
static enum status parse_label(const struct reading *r, const char *field, int64_t line,
                               float *label, struct error *err) {
    char *end;
    for (int i = 0; r->row->words && i < r->task->num_labels; i++)
        if (strcmp(field, r->row->words[i]) == 0) {
            *label = (float)i;
            return OK;
        }
    if (r->row->words) {
        const char *const *w = r->row->words;
        const bool three = r->task->num_labels > 2;
        return error_set(err, ERR_INPUT,
                         "%s:%lld: expected label %s%s%s or %s, found '%s'%s",
                         tsv_path(r->tsv), (long long)line, w[0], three ? ", " : "",
                         three ? w[1] : "", w[three ? 2 : 1], field,
                         strcmp(field, "-") == 0 ? " (a row without agreed label)" : "");
    }
    const double value = strtod(field, &end);
    if (strspn(field, "0123456789.") < strlen(field) || end == field || *end ||
        !(value >= 0 && value <= TASKS_MAX_SCORE))
        return error_set(err, ERR_INPUT,
                         "%s:%lld: expected a score from 0 to %d, found '%s'",
                         tsv_path(r->tsv), (long long)line, TASKS_MAX_SCORE, field);
    *label = (float)value;
    return OK;
}

static enum status add_text(struct reading *r, const char *text, size_t *offset,
                            struct error *err) {
    *offset = r->texts.length;
    return buffer_add(&r->texts, text, strlen(text) + 1, err);
}

/* QQP's published files have rows that are cut or run together; published readers leave
 * them out too. In a test file every row asks for an answer: there it is an error. */
static enum status add_row(struct reading *r, const struct tsv_row *row,
                           struct error *err) {
    struct pending p = {.label = NAN, .line = row->line};
    const struct columns c = r->columns;
    if (row->num_fields != c.num_fields && r->row->skip_malformed && c.label >= 0) {
        if (r->skipped++ == 0)
            r->first_skipped = row->line;
        return OK;
    }
    if (row->num_fields != c.num_fields)
        return error_set(err, ERR_INPUT,
                         "%s:%lld: expected %lld fields separated by tabs, found %lld",
                         tsv_path(r->tsv), (long long)row->line, (long long)c.num_fields,
                         (long long)row->num_fields);
    if (c.label >= 0)
        TRY(parse_label(r, row->fields[c.label], row->line, &p.label, err));
    TRY(add_text(r, row->fields[c.text_a], &p.text_a, err));
    if (c.text_b >= 0)
        TRY(add_text(r, row->fields[c.text_b], &p.text_b, err));
    return buffer_add(&r->rows, &p, sizeof p, err);
}

/* The names of a header line as far as a sentence can show them. */
static enum status list_names(const struct tsv_row *header, struct buffer *out,
                              struct error *err) {
    for (int i = 0; i < header->num_fields && i < TSV_MAX_FIELDS; i++)
        if (out->length < HEADER_BYTES)
            TRY(buffer_print(out, err, "%s%.40s", i ? "|" : "", header->fields[i]));
    return OK;
}

static enum status wrong_header(const struct reading *r, const struct tsv_row *header,
                                const char *missing, struct error *err) {
    struct buffer found = {0};
    char expected[HEADER_BYTES];
    memcpy(expected, r->split->header, strlen(r->split->header) + 1);
    for (char *c = expected; *c; c++)
        if (*c == '\t')
            *c = '|';
    enum status status = list_names(header, &found, err);
    if (status == OK)
        status = error_set(
            err, ERR_INPUT,
            "%s:%lld: no column '%s'; expected the header '%s', found '%s'",
            tsv_path(r->tsv), (long long)header->line, missing, expected, found.data);
    buffer_free(&found);
    return status;
}

/* A first line whose label would be valid is taken as a row: a file without a header
 * loses none. */
static enum status by_position(struct reading *r, const struct tsv_row *first,
                               const struct notices *notices, struct error *err) {
    struct error ignored;
    float label;
    const bool is_row =
        r->columns.label >= 0 && parse_label(r, first->fields[r->columns.label],
                                             first->line, &label, &ignored) == OK;
    notice(notices, "%s: unknown header, columns are taken by position%s",
           tsv_path(r->tsv), is_row ? "; line 1 is read as a row" : "");
    return is_row ? add_row(r, first, err) : OK;
}

/* The decisions of the table above, in its order. */
static enum status read_header(struct reading *r, const struct tsv_row *header,
                               const struct notices *notices, struct error *err) {
    const struct columns official = official_columns(r->row, r->split);
    const struct columns found = find_columns(r->row, header);
    const bool labelled = official.label >= 0;
    const struct task *owner = owner_of_header(r->task, header);
    r->columns = official;
    if (r->split->headerless)
        return add_row(r, header, err);
    if (owner)
        return error_set(err, ERR_INPUT,
                         "%s:1: expected the columns of %s, found those of %s: is the "
                         "file in the wrong folder?",
                         tsv_path(r->tsv), r->task->title, owner->title);
    if (found.text_a < 0 && found.text_b < 0 && found.label < 0 &&
        header->num_fields == official.num_fields)
        return by_position(r, header, notices, err);
    if (found.text_a < 0)
        return wrong_header(r, header, r->row->text_a, err);
    if (r->row->text_b && found.text_b < 0)
        return wrong_header(r, header, r->row->text_b, err);
    if (labelled && found.label < 0)
        return wrong_header(r, header, r->row->label, err);
    r->columns = found;
    if (!labelled)
        r->columns.label = -1;
    return OK;
}

static enum status read_rows(struct reading *r, int64_t limit,
                             const struct notices *notices, struct error *err) {
    struct tsv_row row;
    TRY(tsv_next(r->tsv, &row, err));
    if (row.num_fields == 0)
        return error_set(err, ERR_INPUT, "%s: the file is empty; expected %s rows",
                         tsv_path(r->tsv), r->task->title);
    TRY(read_header(r, &row, notices, err));
    while (limit == 0 || r->rows.length < (size_t)limit * sizeof(struct pending)) {
        TRY(tsv_next(r->tsv, &row, err));
        if (row.num_fields == 0)
            break;
        TRY(add_row(r, &row, err));
    }
    if (r->rows.length == 0)
        return error_set(err, ERR_INPUT, "%s: no rows after the header",
                         tsv_path(r->tsv));
    if (r->skipped > 0)
        notice(notices,
               "%s: %lld row%s without exactly %lld fields left out, the first is line "
               "%lld",
               tsv_path(r->tsv), (long long)r->skipped, r->skipped > 1 ? "s" : "",
               (long long)r->columns.num_fields, (long long)r->first_skipped);
    return OK;
}

/* The block of texts no longer moves, so offsets become pointers; it changes hands. */
static enum status finish(struct reading *r, struct examples *out, struct error *err) {
    const struct pending *rows = (const struct pending *)(const void *)r->rows.data;
    out->count = r->rows.length / sizeof *rows;
    out->items = calloc(out->count, sizeof *out->items);
    out->path = strdup(tsv_path(r->tsv));
    if (!out->items || !out->path)
        return error_set(err, ERR_MEMORY, "%s: out of memory", tsv_path(r->tsv));
    out->labelled = r->columns.label >= 0;
    out->skipped = r->skipped;
    out->owned = r->texts.data;
    for (size_t i = 0; i < out->count; i++)
        out->items[i] = (struct example){
            .text_a = r->texts.data + rows[i].text_a,
            .text_b = r->columns.text_b >= 0 ? r->texts.data + rows[i].text_b : NULL,
            .label = rows[i].label,
            .line = rows[i].line};
    r->texts = (struct buffer){0};
    return OK;
}

/* DATA/<folder>/<split>.tsv, with a sentence for each part that is not there. */
static enum status find_file(const struct reading *r, const char *data,
                             char path[PATH_BYTES], struct error *err) {
    char folder[PATH_BYTES], name[64];
    snprintf(name, sizeof name, "%s.tsv", r->split->name);
    TRY(file_join(folder, data, r->row->folder, err));
    TRY(file_join(path, folder, name, err));
    if (!file_is_directory(data))
        return error_set(err, ERR_INPUT, "%s: expected the GLUE folder, found no folder",
                         data);
    if (!file_is_directory(folder))
        return error_set(err, ERR_INPUT,
                         "%s: expected the folder %s in the GLUE folder, found none",
                         data, r->row->folder);
    return OK;
}

static enum status no_split(const struct task *task, const char *split,
                            struct error *err) {
    char list[128] = "";
    for (const struct glue_split *s = tasks_row(task)->splits; s->name; s++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", s->name);
    }
    return error_set(err, ERR_USAGE, "%s has no split '%s'; it has %s", task->title,
                     split, list);
}

enum status dataset_read(const struct task *task, const char *data, const char *split,
                         int64_t limit, struct examples *out,
                         const struct notices *notices, struct error *err) {
    char path[PATH_BYTES];
    struct reading r = {
        .task = task, .row = tasks_row(task), .split = tasks_split(task, split)};
    *out = (struct examples){0};
    if (!r.split)
        return no_split(task, split, err);
    TRY(find_file(&r, data, path, err));
    enum status status = tsv_open(&r.tsv, path, err);
    if (status == OK)
        status = read_rows(&r, limit, notices, err);
    if (status == OK)
        status = finish(&r, out, err);
    if (status != OK)
        examples_free(out);
    buffer_free(&r.texts);
    buffer_free(&r.rows);
    tsv_close(r.tsv);
    return status;
}
