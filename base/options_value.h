/* options_value - one row of an options table and its field: text in, text or JSON out.
 * Only base/options*.c use it. */
#ifndef BASE_OPTIONS_VALUE_H
#define BASE_OPTIONS_VALUE_H

#include "base/options.h"

struct options_state {
    bool *given;                 /* by row */
    struct option_list operands; /* the words that are no options */
    char **strings;              /* owned copies of texts from config files */
    int num_strings;
};

/* The row called `name` ('-' and '_' alike), or NULL. `length` bytes of it count. */
const struct option *options_value_find(const struct command *command, const char *name,
                                        size_t length);
/* The row's closest name to a wrong one, for "did you mean"; NULL when none is near. */
const char *options_value_nearest(const struct command *command, const char *name);

/* Sets the row's field from `text`, which must outlive it (a list adds it). The sentence
 * starts with what was expected; the caller puts the option's name in front. */
enum status options_value_set(const struct option *row, void *values, const char *text,
                              struct error *err) MUST_CHECK;
/* Every blank-separated word of `text` into the row's list; "..." keeps blanks in a word.
 * Cuts `text` apart in place. */
enum status options_value_set_words(const struct option *row, void *values, char *text,
                                    struct error *err) MUST_CHECK;
enum status options_value_add(struct option_list *list, const char *item,
                              struct error *err) MUST_CHECK;
/* Empties the row's list (other kinds: nothing): a later source replaces an earlier one.
 */
void options_value_restart_list(const struct option *row, void *values);
/* Frees what the row's field owns: the items of a list. */
void options_value_release(const struct option *row, void *values);
/* NULL, NaN, OPTION_UNSET_INTEGER, false, empty list. */
void options_value_clear(const struct option *row, void *values);
/* New reference, JSON null when unset. */
json_t *options_value_json(const struct option *row, const void *values);

/* "1 to 64", "at least 0", "at most 1", "" without bounds. */
const char *options_value_bounds(const struct option *row, char text[64]);
/* A copy of `text` that lives as long as the values. NULL when out of memory. */
char *options_value_keep(struct options_state *state, const char *text);

#endif
