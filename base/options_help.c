/* options_help - the table of options as --help and as Markdown.
 *
 * A row's line is put together from what the row knows anyway: name, kind, words, bounds,
 * default, required. So no help text states a bound that the parser does not check. The
 * manual (make docs) is the same walk with other brackets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/options_value.h"
#include "base/terminal.h"

enum { WIDTH = 90, HELP_COLUMN = 34 };

/* The rows that every table has. */
static const struct option own_rows[] = {
    {.name = "config",
     .kind = OPTION_STRING,
     .words = "FILE",
     .group = "General",
     .help = "options from a file: 'name = value' lines, or a JSON object"},
    {.name = "help",
     .kind = OPTION_FLAG,
     .group = "General",
     .help = "print this text and exit (also -h)"},
    {0},
};

static const char *value_name(const struct option *row) {
    static const char *const names[] = {
        [OPTION_INTEGER] = "N",   [OPTION_NUMBER] = "X",  [OPTION_FLAG] = "",
        [OPTION_STRING] = "TEXT", [OPTION_CHOICE] = NULL, [OPTION_LIST] = "TEXT",
    };
    if (row->kind == OPTION_CHOICE)
        return strlen(row->words) <= 20 ? row->words : "WORD";
    return row->words ? row->words : names[row->kind];
}

/* "--[no-]shuffle", "--train FILE..." */
static const char *heading(const struct option *row, char text[128]) {
    const char *name = value_name(row);
    const bool is_on =
        row->kind == OPTION_FLAG && row->initial && strcmp(row->initial, "true") == 0;
    snprintf(text, 128, "--%s%s%s%s%s", is_on ? "[no-]" : "", row->name, *name ? " " : "",
             name, row->kind == OPTION_LIST ? "..." : "");
    for (char *c = text; *c && *c != ' '; c++) /* rows named after fields have '_' */
        *c = *c == '_' ? '-' : *c;
    return text;
}

static bool has_default(const struct option *row) {
    return row->initial && row->kind != OPTION_FLAG;
}

struct line {
    char text[640];
    size_t length;
    bool is_open; /* a bracket */
};

static void add(struct line *line, const char *before, const char *text) {
    const size_t left = sizeof line->text - line->length;
    const int n = snprintf(line->text + line->length, left, "%s%s", before, text);
    line->length += (size_t)n < left ? (size_t)n : left - 1;
}

/* "(first; second" */
static void add_fact(struct line *line, const char *before, const char *text) {
    add(line, line->is_open ? "; " : " (", before);
    add(line, "", text);
    line->is_open = true;
}

/* The help line with the words and bounds that the row knows. */
static void explain(const struct option *row, struct line *line) {
    char bounds[64];
    add(line, "", row->help);
    if (row->kind == OPTION_CHOICE && value_name(row) != row->words) {
        const size_t words = line->length + 2;
        add(line, ": ", row->words);
        for (size_t i = words; i < line->length; i++)
            line->text[i] = line->text[i] == '|' ? ' ' : line->text[i];
    }
    if (*options_value_bounds(row, bounds))
        add_fact(line, "", bounds);
}

static void close_bracket(struct line *line) {
    if (line->is_open)
        add(line, "", ")");
}

/* Prints `text` word by word from `column` on, further lines indented by `indent`. */
static void print_wrapped(const char *text, int column, int indent, int width) {
    bool is_first = true;
    while (*(text += strspn(text, " "))) {
        const int length = (int)strcspn(text, " ");
        if (!is_first && column + 1 + length > width) {
            printf("\n%*s", indent, "");
            column = indent;
            is_first = true;
        }
        column += printf("%s%.*s", is_first ? "" : " ", length, text);
        text += length;
        is_first = false;
    }
    printf("\n");
}

static void print_row(const struct option *row, int width) {
    char head[128];
    struct line line = {0};
    const int column = printf("  %s", heading(row, head));
    if (column + 2 > HELP_COLUMN)
        printf("\n%*s", HELP_COLUMN, "");
    else
        printf("%*s", HELP_COLUMN - column, "");
    explain(row, &line);
    if (has_default(row))
        add_fact(&line, "default ", row->initial);
    if (row->required)
        add_fact(&line, "", "required");
    close_bracket(&line);
    print_wrapped(line.text, HELP_COLUMN, HELP_COLUMN, width);
}

/* Rows of one group stand together in the table, so a heading is due where it changes. */
static bool starts_group(const struct option *rows, const struct option *row) {
    return row == rows || strcmp(row->group, row[-1].group) != 0;
}

static void print_rows(const struct option *rows, int width) {
    for (const struct option *row = rows; row->name; row++) {
        if (starts_group(rows, row))
            printf("\n%s:\n", row->group);
        print_row(row, width);
    }
}

static void print_text(const struct command *command) {
    const int columns = terminal_columns(STDOUT_FILENO, WIDTH);
    const int width = columns < 50 ? 50 : columns > WIDTH ? WIDTH : columns;
    const int column = printf("Usage: %s", command->name);
    printf(" ");
    print_wrapped(command->usage, column + 1, column + 1, width);
    printf("\n");
    print_wrapped(command->summary, 0, 0, width);
    print_rows(command->options, width);
    print_rows(own_rows, width);
    if (command->epilog)
        printf("\n%s\n", command->epilog);
}

static void print_cell(const char *text) {
    for (; *text; text++)
        printf("%s%c", *text == '|' ? "\\" : "", *text);
}

static void print_markdown_row(const struct option *row) {
    char head[128];
    struct line line = {0};
    explain(row, &line);
    close_bracket(&line);
    printf("| `");
    print_cell(heading(row, head));
    if (has_default(row))
        printf("` | `%s` | ", row->initial);
    else
        printf("` | %s | ", row->required ? "required" : "");
    print_cell(line.text);
    printf(" |\n");
}

static void print_markdown(const struct command *command) {
    printf("### %s\n\n%s\n\n`%s %s`\n", command->name, command->summary, command->name,
           command->usage);
    for (const struct option *row = command->options; row->name; row++) {
        if (starts_group(command->options, row))
            printf("\n| %s | default | |\n|---|---|---|\n", row->group);
        print_markdown_row(row);
    }
}

void options_print_help(const struct command *command) {
    const char *form = getenv("NORMGLUE_HELP");
    if (form && strcmp(form, "markdown") == 0)
        print_markdown(command);
    else
        print_text(command);
}
