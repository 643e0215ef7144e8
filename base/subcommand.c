/* subcommand - a command whose first word says what it does.
 *
 * Words are matched whole: no unique prefix stands for a name, as it would not be unique
 * after the next subcommand. */
#include "base/subcommand.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/options.h"

static int print_help(const struct subcommands *all) {
    printf("Usage: %s SUBCOMMAND [OPTION]...\n\n", all->name);
    if (all->summary)
        printf("%s\n", all->summary);
    printf("Subcommands:\n");
    for (int i = 0; i < all->count; i++)
        printf("  %-12s %s\n", all->rows[i].name, all->rows[i].help);
    printf("\n'%s SUBCOMMAND --help' lists the options of one.\n", all->name);
    if (all->epilog)
        printf("\n%s", all->epilog);
    if (fflush(stdout) == 0)
        return OK;
    struct error err;
    const enum status status = error_system(&err, "stdout", "cannot write");
    fprintf(stderr, "%s: %s\n", all->name, err.text);
    return (int)status;
}

static int refuse(const struct subcommands *all, const char *word) {
    const char **names = calloc((size_t)all->count, sizeof *names);
    const char *near = NULL;
    for (int i = 0; names && i < all->count; i++)
        names[i] = all->rows[i].name;
    if (word && names)
        near = options_nearest(word, names, all->count);
    if (word)
        fprintf(stderr, "%s: unknown subcommand '%s'", all->name, word);
    else
        fprintf(stderr, "%s: expected a subcommand, found nothing", all->name);
    if (near)
        fprintf(stderr, "; did you mean '%s'?", near);
    fprintf(stderr, "\nTry '%s --help'.\n", all->name);
    free(names);
    return ERR_USAGE;
}

static bool is_one_of(const char *word, const char *const *words, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

int subcommand_run(const struct subcommands *all, int argc, char **argv) {
    static const char *const help[] = {"--help", "-h", "help"};
    if (argc < 1)
        return refuse(all, NULL);
    if (is_one_of(argv[0], help, 3))
        return print_help(all);
    for (int i = 0; i < all->count; i++)
        if (strcmp(argv[0], all->rows[i].name) == 0)
            return all->rows[i].run(argc - 1, argv + 1);
    return refuse(all, argv[0]);
}
