/* command - normglue glue run and glue table.
 *
 * The table goes to stdout, all else to stderr. `run` prints the table of what there is
 * also after a failure or a signal; its exit code is then that of the first failure.
 *
 * A folder of scores is all that the two share: `table` shows what any number of `run`s
 * have left, on this machine or another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/subcommand.h"
#include "glue/glue.h"
#include "glue/run.h"
#include "glue/table.h"

static enum status collect_all(const char *const *folders, int count,
                               struct scores *models, struct error *err) {
    for (int i = 0; i < count; i++)
        TRY(scores_collect(&models[i], folders[i], err));
    return OK;
}

/* Made in memory and written at once: an unreadable score file leaves no half table. */
static enum status print_table(const char *const *folders, int count, const char *format,
                               struct error *err) {
    struct buffer out = {0};
    struct scores *models = calloc((size_t)count, sizeof *models);
    if (!models)
        return error_set(err, ERR_MEMORY, "out of memory: %d score folders", count);
    enum status status = collect_all(folders, count, models, err);
    if (status == OK)
        status = table_write(models, count, format, &out, err);
    if (status == OK)
        fwrite(out.data, 1, out.length, stdout);
    for (int i = 0; i < count; i++)
        scores_free(&models[i]);
    free(models);
    buffer_free(&out);
    return status;
}

/* The table comes also after a failure, of what there is. */
static enum status run_and_print(const struct call *call, struct error *err) {
    const struct run_options *options = call->values;
    bool has_begun;
    const enum status status =
        run_plan(options, call->command, &notices_stderr, &has_begun, err);
    if (!has_begun)
        return status;
    const struct error failure = *err;
    const char *const folders[] = {options->finetune.output};
    const enum status printed = print_table(folders, 1, options->format, err);
    if (status != OK)
        *err = failure;
    return status != OK ? status : printed;
}

static int run_main(int argc, char **argv) {
    struct option rows[RUN_MAX_OPTIONS];
    struct run_options options;
    run_option_rows(rows);
    const struct command command = {
        .name = "normglue glue run",
        .usage = "--model DIR --data DIR --output DIR [--tasks NAME,...] [--seeds N]",
        .summary =
            "Fine-tunes a model on GLUE tasks with several seeds and prints the "
            "score table. Run again, it goes on where it was stopped.",
        .epilog =
            "Runs that fail are reported and the others go on. Example:\n\n"
            "  normglue glue run --model run/ --data GLUE/ --tasks cola,rte "
            "--seeds 5 --output scores/",
        .options = rows,
    };
    return options_run(&command, &options, argc, argv, run_and_print);
}

struct table_options {
    struct options_state *state;
    const char *format;
};

static const struct option table_rows[] = {
    {"format", OPTION_CHOICE, offsetof(struct table_options, format), "plain", 0, 0,
     TABLE_FORMATS, "Output", "plain text, a Markdown table, or values for programs",
     false},
    {NULL, OPTION_FLAG, 0, NULL, 0, 0, NULL, NULL, NULL, false},
};

static const struct command table_command = {
    .name = "normglue glue table",
    .usage = "DIR... [--format plain|markdown|tsv|json]",
    .summary =
        "Prints the scores that normglue glue run left in one or more folders, a "
        "model a folder, side by side.",
    .options = table_rows,
    .operands = "DIR...",
};

static enum status table(const struct call *call, struct error *err) {
    const struct table_options *options = call->values;
    const struct option_list *folders = &call->operands;
    if (folders->count == 0)
        return error_set(err, ERR_USAGE, "expected a folder of scores, found none");
    return print_table(folders->items, folders->count, options->format, err);
}

static int table_main(int argc, char **argv) {
    struct table_options options;
    return options_run(&table_command, &options, argc, argv, table);
}

static const struct subcommand rows[] = {
    {"run", run_main, "fine-tune on tasks and seeds, then print the score table"},
    {"table", table_main, "print the scores of one or more models"},
};

int glue_command(int argc, char **argv) {
    static const struct subcommands all = {
        .name = "normglue glue",
        .summary = "The nine GLUE tasks from the official folder, and the score table.\n",
        .rows = rows,
        .count = sizeof rows / sizeof *rows,
    };
    return subcommand_run(&all, argc, argv);
}
