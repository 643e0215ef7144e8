/* options_value - one row of an options table and its field.
 *
 * The field is at `offset` in the caller's struct and has the type that the row's kind
 * says (base/options.h); this file is the only one that casts to it.
 *
 * Numbers are read as people write them: 1e6 and 10_000 are integers as they are whole;
 * infinity and blanks are no numbers. Bounds are the row's and are part of the sentence
 * when they are broken.
 *
 * "Did you mean" is edit distance with swaps, at most a quarter of the letters and one,
 * or the beginning of a name. */
#include "base/options_value.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *field(const struct option *row, void *values) {
    return (char *)values + row->offset;
}

static bool is_bounded(const struct option *row) { return row->least || row->most; }

/* Bounds this far out are only there to satisfy the table. */
static bool is_far(double bound) { return !(fabs(bound) < 1e12); }

static bool same_name(const char *a, const char *b, size_t length) {
    for (size_t i = 0; i < length; i++)
        if ((a[i] == '_' ? '-' : a[i]) != (b[i] == '_' ? '-' : b[i]))
            return false;
    return a[length] == '\0';
}

const struct option *options_value_find(const struct command *command, const char *name,
                                        size_t length) {
    for (const struct option *row = command->options; row->name; row++)
        if (strlen(row->name) == length && same_name(row->name, name, length))
            return row;
    return NULL;
}

/* -- text to value --------------------------------------------------------------------
 */

const char *options_value_bounds(const struct option *row, char text[64]) {
    const bool low = is_bounded(row) && !is_far(row->least);
    const bool high = is_bounded(row) && !is_far(row->most);
    text[0] = '\0';
    if (low && high)
        snprintf(text, 64, "%.10g to %.10g", row->least, row->most);
    else if (low)
        snprintf(text, 64, "at least %.10g", row->least);
    else if (high)
        snprintf(text, 64, "at most %.10g", row->most);
    return text;
}

static enum status wrong_number(const struct option *row, const char *text,
                                struct error *err) {
    char bounds[64];
    options_value_bounds(row, bounds);
    return error_set(err, ERR_USAGE, "expected %s%s%s, found '%.200s'",
                     row->kind == OPTION_INTEGER ? "a whole number" : "a number",
                     !bounds[0]                                ? ""
                     : is_far(row->least) || is_far(row->most) ? " of "
                                                               : " from ",
                     bounds, text);
}

static bool is_inside(const struct option *row, double value) {
    return isfinite(value) &&
           (!is_bounded(row) || (value >= row->least && value <= row->most));
}

/* Copies `text` without the '_' that stand between two digits. */
static bool without_separators(const char *text, char out[64]) {
    size_t length = 0;
    for (const char *c = text; *c; c++) {
        const bool is_separator = *c == '_' && c > text && c[-1] >= '0' && c[-1] <= '9' &&
                                  c[1] >= '0' && c[1] <= '9';
        if (length == 63)
            return false;
        if (!is_separator)
            out[length++] = *c;
    }
    out[length] = '\0';
    return length > 0 && (unsigned char)out[0] > ' ';
}

static bool to_number(const char *text, double *value) {
    char plain[64], *end;
    if (!without_separators(text, plain))
        return false;
    *value = strtod(plain, &end);
    return !*end;
}

static bool to_integer(const char *text, int64_t *value) {
    char plain[64], *end;
    double number;
    if (!without_separators(text, plain))
        return false;
    errno = 0;
    *value = strtoll(plain, &end, 10);
    if (!*end)
        return errno == 0 && *value != OPTION_UNSET_INTEGER;
    if (!to_number(text, &number) || !(fabs(number) < 0x1p63) || number != floor(number))
        return false;
    *value = (int64_t)number;
    return *value != OPTION_UNSET_INTEGER;
}

static enum status set_integer(const struct option *row, int64_t *out, const char *text,
                               struct error *err) {
    int64_t value;
    if (!to_integer(text, &value) || !is_inside(row, (double)value))
        return wrong_number(row, text, err);
    *out = value;
    return OK;
}

static enum status set_number(const struct option *row, double *out, const char *text,
                              struct error *err) {
    double value;
    if (!to_number(text, &value) || !is_inside(row, value))
        return wrong_number(row, text, err);
    *out = value;
    return OK;
}

static enum status set_flag(bool *out, const char *text, struct error *err) {
    const bool is_true = strcmp(text, "true") == 0, is_false = strcmp(text, "false") == 0;
    if (!is_true && !is_false)
        return error_set(err, ERR_USAGE, "expected true or false, found '%.200s'", text);
    *out = is_true;
    return OK;
}

static enum status set_choice(const struct option *row, const char **out,
                              const char *text, struct error *err) {
    const size_t length = strlen(text);
    for (const char *word = row->words; word; word = strchr(word, '|')) {
        word += *word == '|';
        const size_t word_length = strcspn(word, "|");
        if (word_length == length && memcmp(word, text, length) == 0) {
            *out = text;
            return OK;
        }
    }
    return error_set(err, ERR_USAGE, "expected %s, found '%.200s'", row->words, text);
}

enum status options_value_add(struct option_list *list, const char *item,
                              struct error *err) {
    const char **items = realloc(list->items, (size_t)(list->count + 1) * sizeof *items);
    if (!items)
        return error_set(err, ERR_MEMORY, "out of memory");
    items[list->count++] = item;
    list->items = items;
    return OK;
}

enum status options_value_set(const struct option *row, void *values, const char *text,
                              struct error *err) {
    void *out = field(row, values);
    switch (row->kind) {
        case OPTION_INTEGER:
            return set_integer(row, out, text, err);
        case OPTION_NUMBER:
            return set_number(row, out, text, err);
        case OPTION_FLAG:
            return set_flag(out, text, err);
        case OPTION_CHOICE:
            return set_choice(row, out, text, err);
        case OPTION_LIST:
            return options_value_add(out, text, err);
        case OPTION_STRING:
            break;
    }
    *(const char **)out = text;
    return OK;
}

enum status options_value_set_words(const struct option *row, void *values, char *text,
                                    struct error *err) {
    for (text += strspn(text, " \t"); *text; text += strspn(text, " \t")) {
        const bool is_quoted = *text == '"';
        text += is_quoted;
        char *end = text + strcspn(text, is_quoted ? "\"" : " \t");
        if (is_quoted && !*end)
            return error_set(err, ERR_USAGE, "expected a closing \", found '%.200s'",
                             text);
        const bool is_last = !*end;
        *end = '\0';
        TRY(options_value_add(field(row, values), text, err));
        text = end + !is_last;
    }
    return OK;
}

void options_value_clear(const struct option *row, void *values) {
    void *out = field(row, values);
    switch (row->kind) {
        case OPTION_INTEGER:
            *(int64_t *)out = OPTION_UNSET_INTEGER;
            break;
        case OPTION_NUMBER:
            *(double *)out = NAN;
            break;
        case OPTION_FLAG:
            *(bool *)out = false;
            break;
        case OPTION_STRING:
        case OPTION_CHOICE:
            *(const char **)out = NULL;
            break;
        case OPTION_LIST:
            *(struct option_list *)out = (struct option_list){0};
            break;
    }
}

void options_value_restart_list(const struct option *row, void *values) {
    if (row->kind == OPTION_LIST)
        ((struct option_list *)field(row, values))->count = 0;
}

void options_value_release(const struct option *row, void *values) {
    if (row->kind != OPTION_LIST)
        return;
    struct option_list *list = field(row, values);
    free(list->items);
    *list = (struct option_list){0};
}

char *options_value_keep(struct options_state *state, const char *text) {
    char **strings =
        realloc(state->strings, (size_t)(state->num_strings + 1) * sizeof *strings);
    if (!strings)
        return NULL;
    state->strings = strings;
    char *copy = strdup(text);
    if (copy)
        strings[state->num_strings++] = copy;
    return copy;
}

/* -- value to JSON --------------------------------------------------------------------
 */

static json_t *list_json(const struct option_list *list) {
    json_t *array = json_array();
    for (int i = 0; i < list->count; i++)
        json_array_append_new(array, json_string(list->items[i]));
    return array;
}

json_t *options_value_json(const struct option *row, const void *values) {
    const void *in = (const char *)values + row->offset;
    const char *text;
    switch (row->kind) {
        case OPTION_INTEGER:
            return *(const int64_t *)in == OPTION_UNSET_INTEGER
                       ? json_null()
                       : json_integer(*(const int64_t *)in);
        case OPTION_NUMBER:
            return isnan(*(const double *)in) ? json_null()
                                              : json_real(*(const double *)in);
        case OPTION_FLAG:
            return json_boolean(*(const bool *)in);
        case OPTION_LIST:
            return list_json(in);
        case OPTION_STRING:
        case OPTION_CHOICE:
            break;
    }
    text = *(const char *const *)in;
    return text ? json_string(text) : json_null();
}

/* -- did you mean ---------------------------------------------------------------------
 */

static char folded(char c) {
    if (c == '_')
        return '-';
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

enum { MAX_NAME = 63 };

static int least_of(int a, int b) { return a < b ? a : b; }

/* Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`
 * (optimal string alignment). */
static int edit_distance(const char *a, int a_length, const char *b, int b_length) {
    int rows[3][MAX_NAME + 1]; /* distances of the prefixes i-2, i-1, i of `a` */
    int *two = rows[0], *one = rows[1], *row = rows[2];
    for (int j = 0; j <= b_length; j++)
        one[j] = j;
    for (int i = 1; i <= a_length; i++) {
        row[0] = i;
        for (int j = 1; j <= b_length; j++) {
            const char x = folded(a[i - 1]), y = folded(b[j - 1]);
            row[j] = least_of(least_of(one[j], row[j - 1]) + 1, one[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == folded(b[j - 2]) && y == folded(a[i - 2]))
                row[j] = least_of(row[j], two[j - 2] + 1);
        }
        int *const oldest = two;
        two = one;
        one = row;
        row = oldest;
    }
    return one[b_length];
}

/* Lower is closer; above 100 is too far to suggest. A typo in a third of the letters, or
 * the beginning of a longer name, is near. */
static int farness(const char *word, const char *name) {
    const int length = (int)strnlen(word, MAX_NAME + 1);
    const int name_length = (int)strnlen(name, MAX_NAME + 1);
    if (length > MAX_NAME || name_length > MAX_NAME || length < 2)
        return 1000;
    const int distance = edit_distance(word, length, name, name_length);
    if (distance <= 1 + length / 4)
        return distance;
    const bool is_beginning = length >= 3 && strncasecmp(word, name, (size_t)length) == 0;
    return is_beginning ? 50 + name_length / 2 : 1000;
}

const char *options_nearest(const char *word, const char *const *names, int count) {
    const char *best = NULL;
    int least = 101;
    for (int i = 0; i < count; i++) {
        const int far = farness(word, names[i]);
        if (far < least) {
            least = far;
            best = names[i];
        }
    }
    return best;
}

const char *options_value_nearest(const struct command *command, const char *name) {
    const char *best = NULL, *candidates[2];
    for (const struct option *row = command->options; row->name; row++) {
        candidates[0] = best ? best : row->name;
        candidates[1] = row->name;
        best = options_nearest(name, candidates, 2);
    }
    return best;
}
