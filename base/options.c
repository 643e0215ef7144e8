/* options - the command line over one table of rows.
 *
 * The order of options_parse is that of precedence: defaults of all rows, config files
 * wherever they stand among the words, then the words from left to right, then the check
 * that required rows were given.
 *
 * Options are matched exactly, as prefixes would change their meaning when a row is
 * added. What a word means never depends on the words behind it, but for lists, which end
 * at the next option or at "--". Texts stay where they are (argv, the table, a copy of
 * the config file), so that values are pointers and nothing but lists is freed.
 *
 * options_run() is the whole life of a command: parse, help or work, finish. Only here
 * and in notices is anything printed for an error, once. */
#include "base/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options_config.h"
#include "base/options_value.h"

/* One walk over the words of a command line. */
struct words {
    const struct command *command;
    void *values;
    struct options_state *state;
    char **argv;
    int argc, at;    /* `at`: the word to look at next */
    bool *is_listed; /* by row: a list that already got words in this walk */
};

static struct options_state *state_of(const void *values) {
    return *(struct options_state *const *)values;
}

static int num_rows(const struct command *command) {
    int count = 0;
    while (command->options[count].name)
        count++;
    return count;
}

/* -- defaults -------------------------------------------------------------------------
 */

static enum status set_default(const struct option *row, void *values,
                               struct error *err) {
    options_value_clear(row, values);
    if (!row->initial)
        return OK;
    if (row->kind != OPTION_LIST)
        return options_value_set(row, values, row->initial, err);
    char *words = options_value_keep(state_of(values), row->initial);
    if (!words)
        return error_set(err, ERR_MEMORY, "out of memory");
    return options_value_set_words(row, values, words, err);
}

enum status options_defaults(const struct command *command, void *values,
                             struct error *err) {
    struct options_state *state = calloc(1, sizeof *state);
    bool *given = calloc((size_t)num_rows(command) + 1, sizeof *given);
    *(struct options_state **)values = state;
    if (!state || !given) {
        free(state);
        free(given);
        *(struct options_state **)values = NULL;
        return error_set(err, ERR_MEMORY, "out of memory");
    }
    state->given = given;
    for (const struct option *row = command->options; row->name; row++)
        options_value_clear(row, values);
    for (const struct option *row = command->options; row->name; row++)
        if (set_default(row, values, err) != OK) {
            options_free(command, values);
            return error_context(err, "default of --%s", row->name);
        }
    return OK;
}

void options_free(const struct command *command, void *values) {
    struct options_state *state = state_of(values);
    if (!state)
        return;
    for (const struct option *row = command->options; row->name; row++)
        options_value_release(row, values);
    for (int i = 0; i < state->num_strings; i++)
        free(state->strings[i]);
    free(state->strings);
    free(state->operands.items);
    free(state->given);
    free(state);
    *(struct options_state **)values = NULL;
}

/* -- the command line -----------------------------------------------------------------
 */

/* "-" is stdin and "-1" a number: neither is an option. */
static bool is_option(const char *word) {
    const bool is_number = word[0] == '-' && strchr(".0123456789", word[1]) && word[1];
    return word[0] == '-' && word[1] && !is_number;
}

static enum status unknown(const struct words *w, const char *word, struct error *err) {
    char name[64];
    const char *start = word + strspn(word, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(start, "="), start);
    const char *own[] = {"help", "config"};
    const char *near = options_value_nearest(w->command, name);
    if (!near)
        near = options_nearest(name, own, 2);
    if (near)
        return error_set(err, ERR_USAGE, "unknown option '%.200s'; did you mean '--%s'?",
                         word, near);
    return error_set(err, ERR_USAGE, "unknown option '%.200s'", word);
}

/* Takes the value of the option at hand: behind '=', or the next word. */
static enum status take_value(struct words *w, const char *name, const char *equals,
                              const char **value, struct error *err) {
    if (equals) {
        *value = equals + 1;
        return OK;
    }
    if (w->at == w->argc)
        return error_set(err, ERR_USAGE, "--%s: expected a value, found nothing", name);
    if (is_option(w->argv[w->at]))
        return error_set(err, ERR_USAGE,
                         "--%s: expected a value, found '%.200s' (a value that starts "
                         "with - is written --%s=VALUE)",
                         name, w->argv[w->at], name);
    *value = w->argv[w->at++];
    return OK;
}

static enum status set_row(struct words *w, const struct option *row, const char *text,
                           struct error *err) {
    w->state->given[row - w->command->options] = true;
    if (options_value_set(row, w->values, text, err) != OK)
        return error_context(err, "--%s", row->name);
    return OK;
}

static enum status take_list(struct words *w, const struct option *row,
                             const char *equals, struct error *err) {
    bool *is_listed = &w->is_listed[row - w->command->options];
    if (!*is_listed) /* the command line replaces default and config file */
        options_value_restart_list(row, w->values);
    *is_listed = true;
    const char *value;
    TRY(take_value(w, row->name, equals, &value, err));
    TRY(set_row(w, row, value, err));
    while (!equals && w->at < w->argc && !is_option(w->argv[w->at]))
        TRY(set_row(w, row, w->argv[w->at++], err));
    return OK;
}

static enum status take_row(struct words *w, const struct option *row, const char *equals,
                            struct error *err) {
    const char *value = "true";
    if (row->kind == OPTION_LIST)
        return take_list(w, row, equals, err);
    if (row->kind != OPTION_FLAG || equals)
        TRY(take_value(w, row->name, equals, &value, err));
    return set_row(w, row, value, err);
}

/* "--no-shuffle" names the flag "shuffle". */
static const struct option *negated_flag(const struct words *w, const char *name,
                                         size_t length) {
    if (length < 4 || (strncmp(name, "no-", 3) != 0 && strncmp(name, "no_", 3) != 0))
        return NULL;
    const struct option *row = options_value_find(w->command, name + 3, length - 3);
    return row && row->kind == OPTION_FLAG ? row : NULL;
}

static bool is_config(const char *name, size_t length) {
    return length == 6 && memcmp(name, "config", 6) == 0;
}

static enum status take_option(struct words *w, const char *word, struct error *err) {
    const char *name = word + 2, *equals = strchr(word, '='), *ignored;
    const size_t length = strcspn(name, "=");
    if (word[1] != '-')
        return unknown(w, word, err);
    if (is_config(name, length)) /* read before this walk */
        return take_value(w, "config", equals, &ignored, err);
    const struct option *row = options_value_find(w->command, name, length);
    if (row)
        return take_row(w, row, equals, err);
    row = negated_flag(w, name, length);
    if (row && !equals)
        return set_row(w, row, "false", err);
    return unknown(w, word, err);
}

static enum status take_operand(struct words *w, const char *word, struct error *err) {
    if (!w->command->operands)
        return error_set(err, ERR_USAGE, "unexpected word '%.200s'", word);
    return options_value_add(&w->state->operands, word, err);
}

static enum status take_words(struct words *w, struct error *err) {
    bool is_ended = false;
    while (w->at < w->argc) {
        const char *word = w->argv[w->at++];
        if (!is_ended && strcmp(word, "--") == 0)
            is_ended = true;
        else if (!is_ended && is_option(word))
            TRY(take_option(w, word, err));
        else
            TRY(take_operand(w, word, err));
    }
    return OK;
}

/* -- around it ------------------------------------------------------------------------
 */

static bool asks_help(int argc, char **argv) {
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

/* Config files come before the command line, wherever they stand on it. */
static enum status read_configs(const struct command *command, void *values, int argc,
                                char **argv, struct error *err) {
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *path = NULL;
        if (strncmp(argv[i], "--config=", 9) == 0)
            path = argv[i] + 9;
        else if (strcmp(argv[i], "--config") == 0 && i + 1 < argc)
            path = argv[i + 1];
        if (path)
            TRY(options_config_read(command, values, path, err));
    }
    return OK;
}

static enum status check_required(const struct command *command, const void *values,
                                  struct error *err) {
    for (const struct option *row = command->options; row->name; row++)
        if (row->required && !state_of(values)->given[row - command->options])
            return error_set(err, ERR_USAGE, "missing option --%s%s%s", row->name,
                             row->words ? " " : "", row->words ? row->words : "");
    return OK;
}

static enum status fill(const struct command *command, void *values, int argc,
                        char **argv, struct error *err) {
    TRY(read_configs(command, values, argc, argv, err));
    bool *is_listed = calloc((size_t)num_rows(command) + 1, sizeof *is_listed);
    if (!is_listed)
        return error_set(err, ERR_MEMORY, "out of memory");
    struct words w = {command, values, state_of(values), argv, argc, 0, is_listed};
    const enum status status = take_words(&w, err);
    free(is_listed);
    if (status != OK)
        return status;
    return check_required(command, values, err);
}

enum status options_parse(const struct command *command, void *values, int argc,
                          char **argv, struct option_list *operands, bool *help,
                          struct error *err) {
    *help = asks_help(argc, argv);
    if (operands)
        *operands = (struct option_list){0};
    TRY(options_defaults(command, values, err));
    if (*help)
        return OK;
    const enum status status = fill(command, values, argc, argv, err);
    if (status != OK)
        options_free(command, values);
    else if (operands)
        *operands = state_of(values)->operands;
    return status;
}

bool options_given(const struct command *command, const void *values, const char *name) {
    const struct option *row = options_value_find(command, name, strlen(name));
    const struct options_state *state = state_of(values);
    return row && state && state->given[row - command->options];
}

json_t *options_to_json(const struct command *command, const void *values) {
    json_t *object = json_object();
    for (const struct option *row = command->options; object && row->name; row++) {
        char key[64];
        snprintf(key, sizeof key, "%s", row->name);
        for (char *c = key; *c; c++)
            *c = *c == '-' ? '_' : *c;
        if (json_object_set_new(object, key, options_value_json(row, values)) != 0) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}

int options_finish(const struct command *command, void *values, enum status status,
                   struct error *err) {
    options_free(command, values);
    const bool is_written = fflush(stdout) == 0 && !ferror(stdout);
    if (status == OK && !is_written)
        status = error_system(err, "stdout", "cannot write");
    if (status != OK && status != STOPPED_SIGINT && status != STOPPED_SIGTERM)
        fprintf(stderr, "%s: %s\n", command->name, err->text);
    if (status == ERR_USAGE)
        fprintf(stderr, "Try '%s --help'.\n", command->name);
    return (int)status;
}

int options_run(const struct command *command, void *values, int argc, char **argv,
                enum status (*work)(const struct call *call, struct error *err)) {
    struct call call = {.command = command, .values = values};
    struct error err;
    bool help = false;
    enum status status =
        options_parse(command, values, argc, argv, &call.operands, &help, &err);
    if (status == OK && help)
        options_print_help(command);
    else if (status == OK)
        status = work(&call, &err);
    return options_finish(command, values, status, &err);
}
