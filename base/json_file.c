/* json_file - JSON documents on jansson, read strictly.
 *
 * jansson parses; this file says what it does not: depth is bounded before it recurses, a
 * key that stands twice is an error, numbers are checked against bounds where they are
 * read, and every sentence names the path and the key. A getter with a fallback is one
 * line at the caller, so that no field is read without its bounds. */
#include "base/json_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

static const size_t MAX_BYTES = (size_t)1 << 30;
enum { MAX_DEPTH = 64 };

/* jansson itself stops at 2048 levels; this looks at brackets outside strings. */
static enum status check_depth(const char *path, const char *text, size_t length,
                               struct error *err) {
    int depth = 0, line = 1;
    bool is_string = false;
    for (size_t i = 0; i < length; i++) {
        const char c = text[i];
        line += c == '\n';
        if (is_string && c == '\\')
            i++;
        else if (c == '"')
            is_string = !is_string;
        else if (!is_string && (c == '[' || c == '{') && ++depth > MAX_DEPTH)
            return error_set(err, ERR_INPUT, "%s:%d: more than %d levels of brackets",
                             path, line, MAX_DEPTH);
        else if (!is_string && (c == ']' || c == '}'))
            depth--;
    }
    return OK;
}

enum status json_file_parse(json_t **out, const char *path, const char *text,
                            size_t length, struct error *err) {
    json_error_t found;
    *out = NULL;
    TRY(check_depth(path, text, length, err));
    const size_t strict = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    *out = json_loadb(text, length, strict, &found);
    if (!*out && json_error_code(&found) == json_error_numeric_overflow)
        *out = json_loadb(text, length, strict | JSON_DECODE_INT_AS_REAL, &found);
    if (*out)
        return OK;
    if (json_error_code(&found) == json_error_out_of_memory)
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    return error_set(err, ERR_INPUT, "%s:%d:%d: %s", path, found.line, found.column,
                     found.text);
}

enum status json_file_read(json_t **out, const char *path, struct error *err) {
    struct buffer text = {0};
    *out = NULL;
    enum status status = file_read(&text, path, MAX_BYTES, err);
    if (status == OK)
        status = json_file_parse(out, path, text.data, text.length, err);
    buffer_free(&text);
    return status;
}

static int add_to_buffer(const char *bytes, size_t length, void *buffer) {
    struct error ignored;
    return buffer_add(buffer, bytes, length, &ignored) == OK ? 0 : -1;
}

enum status json_file_write(const json_t *value, const char *path, struct error *err) {
    struct buffer text = {0};
    enum status status = OK;
    if (json_dump_callback(value, add_to_buffer, &text, JSON_INDENT(2)) != 0 ||
        add_to_buffer("\n", 1, &text) != 0)
        status = error_set(err, ERR_MEMORY, "%s: out of memory", path);
    if (status == OK)
        status = file_write(path, text.data, text.length, err);
    buffer_free(&text);
    return status;
}

/* The value as short text, for "found ...". */
static const char *describe(const json_t *value, char text[64]) {
    const size_t size = 64;
    const size_t length = json_dumpb(value, text, size - 1, JSON_ENCODE_ANY);
    if (length == 0 || length >= size)
        snprintf(text, size, "a long %s",
                 json_is_string(value)   ? "string"
                 : json_is_object(value) ? "object"
                                         : "list");
    else
        text[length] = '\0';
    return text;
}

static enum status unexpected(const json_t *value, const char *path, const char *key,
                              const char *expected, struct error *err) {
    char text[64];
    return error_set(err, ERR_INPUT, "%s: %s: expected %s, found %s", path, key, expected,
                     describe(value, text));
}

/* The member, or NULL when absent or null. */
static const json_t *member(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

/* A whole number, also when it is written as a real. */
static bool is_whole(const json_t *value, int64_t *number) {
    const double real = json_number_value(value);
    *number = json_integer_value(value);
    if (!json_is_real(value))
        return json_is_integer(value);
    if (!(fabs(real) < 0x1p53) || real != floor(real))
        return false;
    *number = (int64_t)real;
    return true;
}

enum status json_file_integer(const json_t *object, const char *path, const char *key,
                              int64_t least, int64_t most, int64_t fallback, int64_t *out,
                              struct error *err) {
    const json_t *value = member(object, key);
    int64_t number = fallback;
    const bool is_fine =
        !value || (is_whole(value, &number) && number >= least && number <= most);
    *out = number;
    if (is_fine)
        return OK;
    char expected[96];
    snprintf(expected, sizeof expected, "an integer in %lld..%lld", (long long)least,
             (long long)most);
    return unexpected(value, path, key, expected, err);
}

enum status json_file_number(const json_t *object, const char *path, const char *key,
                             double least, double most, double fallback, double *out,
                             struct error *err) {
    const json_t *value = member(object, key);
    const double number = json_number_value(value);
    *out = value ? number : fallback;
    if (!value || (json_is_number(value) && number >= least && number <= most))
        return OK;
    char expected[96];
    snprintf(expected, sizeof expected, "a number in %g..%g", least, most);
    return unexpected(value, path, key, expected, err);
}

enum status json_file_boolean(const json_t *object, const char *path, const char *key,
                              bool fallback, bool *out, struct error *err) {
    const json_t *value = member(object, key);
    const json_int_t number = json_integer_value(value);
    *out = value ? json_is_true(value) || number == 1 : fallback;
    if (!value || json_is_boolean(value) ||
        (json_is_integer(value) && (number == 0 || number == 1)))
        return OK;
    return unexpected(value, path, key, "true or false", err);
}

enum status json_file_string(const json_t *object, const char *path, const char *key,
                             const char *fallback, const char **out, struct error *err) {
    const json_t *value = member(object, key);
    *out = value ? json_string_value(value) : fallback;
    if (!value || (json_is_string(value) && strlen(*out) == json_string_length(value)))
        return OK;
    return unexpected(value, path, key, "a string", err);
}
