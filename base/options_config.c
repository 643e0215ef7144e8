/* options_config - options from a file: `key = value` lines or a JSON object.
 *
 * The same rows, the same parsers and the same sentences as on the command line, with
 * path and line in front. JSON is recognised by its '{', so that run_config.json of an
 * earlier run is a config file as it stands. */
#include "base/options_config.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json_file.h"
#include "base/options_value.h"

enum { MAX_BYTES = 1 << 20 };

struct config {
    const struct command *command;
    void *values;
    struct options_state *state;
    const char *path;
    int line; /* 0: a JSON file, whose values have no line */
};

/* "<path>:<line>: <key>: " in front of the sentence. */
static enum status at(const struct config *c, const char *key, struct error *err) {
    if (err->status == ERR_USAGE)
        err->status = ERR_INPUT;
    if (c->line)
        return error_context(err, "%s:%d: %s", c->path, c->line, key);
    return error_context(err, "%s: %s", c->path, key);
}

static enum status find(const struct config *c, const char *key,
                        const struct option **row, struct error *err) {
    *row = options_value_find(c->command, key, strlen(key));
    if (*row)
        return OK;
    const char *near = options_value_nearest(c->command, key);
    error_set(err, ERR_INPUT, "no such option%s%s%s", near ? "; did you mean '" : "",
              near ? near : "", near ? "'?" : "");
    return at(c, key, err);
}

/* A list of the file replaces the default; further lines of the same key add. */
static void begin_row(const struct config *c, const struct option *row) {
    bool *given = &c->state->given[row - c->command->options];
    if (!*given)
        options_value_restart_list(row, c->values);
    *given = true;
}

static enum status set(const struct config *c, const char *key, const struct option *row,
                       const char *text, bool is_words, struct error *err) {
    char *copy = options_value_keep(c->state, text);
    if (!copy)
        return error_set(err, ERR_MEMORY, "%s: out of memory", c->path);
    const enum status status = is_words
                                   ? options_value_set_words(row, c->values, copy, err)
                                   : options_value_set(row, c->values, copy, err);
    return status == OK ? OK : at(c, key, err);
}

/* -- key = value ----------------------------------------------------------------------
 */

static char *trimmed(char *text) {
    text += strspn(text, " \t\r");
    size_t length = strlen(text);
    while (length && strchr(" \t\r", text[length - 1]))
        text[--length] = '\0';
    return text;
}

/* A '#' at the start or after a blank begins a comment, unless inside quotes. */
static void cut_comment(char *line) {
    bool is_quoted = false;
    for (char *c = line; *c; c++) {
        is_quoted ^= *c == '"';
        if (*c == '#' && !is_quoted && (c == line || c[-1] == ' ' || c[-1] == '\t')) {
            *c = '\0';
            return;
        }
    }
}

/* Takes the quotes off a value that is one quoted text. */
static char *unquoted(char *value) {
    const size_t length = strlen(value);
    if (length < 2 || value[0] != '"' || strchr(value + 1, '"') != value + length - 1)
        return value;
    value[length - 1] = '\0';
    return value + 1;
}

static enum status read_line(const struct config *c, char *line, struct error *err) {
    cut_comment(line);
    line = trimmed(line);
    if (!*line)
        return OK;
    char *equals = strchr(line, '=');
    if (!equals)
        return error_set(err, ERR_INPUT, "%s:%d: expected 'key = value', found '%.200s'",
                         c->path, c->line, line);
    *equals = '\0';
    const char *key = trimmed(line);
    char *value = trimmed(equals + 1);
    const struct option *row;
    TRY(find(c, key, &row, err));
    begin_row(c, row);
    const bool is_list = row->kind == OPTION_LIST;
    return set(c, key, row, is_list ? value : unquoted(value), is_list, err);
}

static enum status read_lines(struct config *c, struct buffer *text, struct error *err) {
    if (strlen(text->data) != text->length)
        return error_set(err, ERR_INPUT, "%s: expected text, found a NUL byte", c->path);
    for (char *line = text->data, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        c->line++;
        TRY(read_line(c, line, err));
    }
    return OK;
}

/* -- JSON -----------------------------------------------------------------------------
 */

/* A scalar as the user would type it. */
static enum status set_scalar(const struct config *c, const char *key,
                              const struct option *row, const json_t *value,
                              struct error *err) {
    char number[64];
    if (json_is_string(value))
        return set(c, key, row, json_string_value(value), false, err);
    if (json_is_boolean(value))
        return set(c, key, row, json_is_true(value) ? "true" : "false", false, err);
    if (json_is_number(value)) {
        const size_t length =
            json_dumpb(value, number, sizeof number - 1, JSON_ENCODE_ANY);
        number[length < sizeof number ? length : 0] = '\0';
        return set(c, key, row, number, false, err);
    }
    error_set(err, ERR_INPUT, "expected a text, number or truth value, found %s",
              json_is_array(value) ? "a list" : "an object");
    return at(c, key, err);
}

static enum status set_member(const struct config *c, const char *key,
                              const json_t *value, struct error *err) {
    const struct option *row;
    TRY(find(c, key, &row, err));
    if (json_is_null(
            value)) /* as if not named: what run_config.json says of unset rows */
        return OK;
    begin_row(c, row);
    if (row->kind != OPTION_LIST || !json_is_array(value))
        return set_scalar(c, key, row, value, err);
    for (size_t i = 0; i < json_array_size(value); i++)
        TRY(set_scalar(c, key, row, json_array_get(value, i), err));
    return OK;
}

static enum status read_json(const struct config *c, const struct buffer *text,
                             struct error *err) {
    json_t *object;
    TRY(json_file_parse(&object, c->path, text->data, text->length, err));
    enum status status = OK;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        if (status == OK)
            status = set_member(c, key, value, err);
    }
    json_decref(object);
    return status;
}

enum status options_config_read(const struct command *command, void *values,
                                const char *path, struct error *err) {
    struct config c = {command, values, *(struct options_state **)values, path, 0};
    struct buffer text = {0};
    enum status status = file_read(&text, path, MAX_BYTES, err);
    if (status == OK && text.data[strspn(text.data, " \t\r\n")] == '{')
        status = read_json(&c, &text, err);
    else if (status == OK)
        status = read_lines(&c, &text, err);
    buffer_free(&text);
    return status;
}
