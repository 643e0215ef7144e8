/* subcommand - a command whose first word says what it does: one table gives the choice,
 * --help and "did you mean". */
#ifndef BASE_SUBCOMMAND_H
#define BASE_SUBCOMMAND_H

struct subcommand {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the first word after the name */
    const char *help;                  /* one line, no full stop */
};

struct subcommands {
    const char *name;    /* "normglue tokenizer" */
    const char *summary; /* whole lines, or NULL */
    const char *epilog;  /* whole lines after the list, or NULL */
    const struct subcommand *rows;
    int count;
};

/* Runs the row that argv[0] names and returns its exit code. --help, -h and help print
 * the table to stdout; no word or an unknown one is ERR_USAGE. */
int subcommand_run(const struct subcommands *all, int argc, char **argv);

#endif
