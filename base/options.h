/* options - one table of rows that gives parsing, defaults, --help, config files and the
 * manual.
 *
 * A subcommand declares a struct of values and a table of rows that point into it. Names
 * are matched exactly, '-' and '_' are the same; an unknown name gets "did you mean".
 * Values come from the row's default, then --config FILE (`key = value` lines with #
 * comments, or a JSON object), then the command line; the last one wins. `--opt value`,
 * `--opt=value`; a flag also takes =true or =false, and --no-opt.
 * `--` ends the options. --help (-h) and --config belong to every table and have no rows.
 *
 *     struct greet_options {
 *         struct options_state *state;
 *         int64_t times;
 *         const char *name;
 *     };
 *     static const struct option rows[] = {
 *         {"times", OPTION_INTEGER, offsetof(struct greet_options, times), "1", 1, 100,
 *          NULL, "Output", "how often to greet", false},
 *         {"name", OPTION_STRING, offsetof(struct greet_options, name), NULL, 0, 0,
 *          "NAME", "Output", "whom to greet", true},
 *         {0}};
 *     static const struct command command = {"normglue greet", "--name NAME", "Greets.",
 *                                            NULL, rows, NULL};
 *
 *     static enum status greet(const struct call *call, struct error *err) {
 *         const struct greet_options *options = call->values;
 *         ...
 *     }
 *
 *     int greet_command(int argc, char **argv) {
 *         struct greet_options options;
 *         return options_run(&command, &options, argc, argv, greet);
 *     } */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum option_kind {
    OPTION_INTEGER, /* int64_t; 1e6 and 10_000 are accepted when whole */
    OPTION_NUMBER,  /* double */
    OPTION_FLAG,    /* bool */
    OPTION_STRING,  /* const char *, NULL when unset */
    OPTION_CHOICE,  /* const char *, one of the row's words "a|b|c" */
    OPTION_LIST,    /* struct option_list: every following word up to the next option;
                       repeats add */
};

/* What options keep about a values struct, whose FIRST member must be
 * `struct options_state *state`: which rows were given, and memory of strings and lists.
 * options_parse and options_defaults make it, options_free frees it. */
struct options_state;

struct option_list {
    const char **items;
    int count;
};

/* An integer row whose default is NULL holds this; a number row NaN. */
#define OPTION_UNSET_INTEGER INT64_MIN

struct option {
    const char *name; /* "learning-rate"; NULL ends the table */
    enum option_kind kind;
    size_t offset;       /* of the field in the values struct */
    const char *initial; /* default as the user would type it; NULL = unset */
    double least, most;  /* bounds of integers and numbers, inclusive;
                            both 0 = none */
    const char *words;   /* OPTION_CHOICE: "auto|f32|bf16"; else the value's name in help
                            ("DIR") or NULL */
    const char *group;   /* heading in --help; rows of one group stand together */
    const char *help; /* one line, no full stop; the default is added by --help itself */
    bool required;
};

struct command {
    const char *name; /* "normglue pretrain" */
    const char *
        usage; /* what follows the name: "--tokenizer DIR --train FILE... --output DIR" */
    const char *summary; /* one or two sentences */
    const char *epilog;  /* examples and notes after the options, or NULL */
    const struct option *options;
    const char *operands; /* name of the words that are not options ("DIR"), NULL = none
                             allowed */
};

/* Fills `values` (defaults, config file, command line). argv[0] is the first word after
 * the subcommand. Operands go to `operands` (NULL when the command has none). *help is
 * true when --help was asked: then nothing else is checked. On an error nothing is kept.
 * Errors are ERR_USAGE (ERR_INPUT inside a config file) and name the option, what was
 * expected and what was found. Strings point into argv or into memory kept until
 * options_free(values). */
enum status options_parse(const struct command *command, void *values, int argc,
                          char **argv, struct option_list *operands, bool *help,
                          struct error *err) MUST_CHECK;
/* Only the defaults: for code that runs a job without a command line. */
enum status options_defaults(const struct command *command, void *values,
                             struct error *err) MUST_CHECK;
/* Was this option given (config file or command line) rather than left at its default? */
bool options_given(const struct command *command, const void *values, const char *name);
/* The resolved values as a JSON object, for run_config.json. NULL when out of memory. */
json_t *options_to_json(const struct command *command, const void *values);
/* --help: usage, summary, groups with names, values, help, defaults and bounds; at most
 * 90 columns, to stdout. With NORMGLUE_HELP=markdown in the environment the same table as
 * Markdown, for the manual (make docs). */
void options_print_help(const struct command *command);
/* The closest of `names` (count) to `word`, or NULL when none is near: for "did you
 * mean". */
const char *options_nearest(const char *word, const char *const *names, int count);
/* Frees what options_parse or options_defaults made; a second call does nothing. */
void options_free(const struct command *command, void *values);
/* The last line of every command: frees `values`, makes sure that stdout could be
 * written, prints "<command>: <sentence>" to stderr if `status` is an error (and where to
 * find help if it is ERR_USAGE), and returns the exit code. */
int options_finish(const struct command *command, void *values, enum status status,
                   struct error *err);

/* A command line that was understood. */
struct call {
    const struct command *command;
    const void *values;          /* the command's struct, filled */
    struct option_list operands; /* the words that are no options */
};
/* A whole command: parses into `values`, prints the help when that is asked, or else does
 * the `work`, and finishes; returns the exit code. */
int options_run(const struct command *command, void *values, int argc, char **argv,
                enum status (*work)(const struct call *call, struct error *err));

#endif
