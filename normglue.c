/* normglue - one program; the first word says what it does. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "encoder/checkpoint.h"
#include "finetune/finetune.h"
#include "glue/glue.h"
#include "pretrain/pretrain.h"
#include "tokenizer/tokenizer.h"

/* Until all parts are there: a command that is not linked is NULL. */
#pragma weak tokenizer_command
#pragma weak pretrain_command
#pragma weak fill_mask_command
#pragma weak finetune_command
#pragma weak predict_command
#pragma weak glue_command
#pragma weak glue_tasks
#pragma weak checkpoint_command

#define VERSION "0.1.0"

struct subcommand {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the first word after the name */
    const char *help;
};

/* finetune/ does not see glue/: it is handed the tasks. */
static int finetune(int argc, char **argv) {
    return finetune_command(argc, argv, glue_tasks);
}

static const struct subcommand subcommands[] = {
    {"tokenizer", tokenizer_command, "train, use and inspect a tokenizer"},
    {"pretrain", pretrain_command, "masked-language-model pretraining"},
    {"finetune", finetune, "fine-tune a model on one task"},
    {"glue", glue_command, "fine-tune on all tasks and print the score table"},
    {"predict", predict_command, "label texts with a fine-tuned model"},
    {"fill-mask", fill_mask_command, "the likeliest tokens for <mask>"},
    {"checkpoint", checkpoint_command, "inspect, verify, export model directories"},
};
enum { NUM_SUBCOMMANDS = sizeof subcommands / sizeof *subcommands };

static void print_help(void) {
    printf(
        "Usage: normglue SUBCOMMAND [OPTION]...\n\n"
        "Trains byte-level BPE tokenizers, pretrains masked language models with any of\n"
        "the published LayerNorm arrangements, fine-tunes them on GLUE and prints the\n"
        "score table.\n\nSubcommands:\n");
    for (int i = 0; i < NUM_SUBCOMMANDS; i++)
        printf("  %-12s %s\n", subcommands[i].name, subcommands[i].help);
    printf(
        "\n'normglue SUBCOMMAND --help' lists the options of one; --version prints the "
        "version.\n\n"
        "Exit status: 0 done, 1 failed, 2 wrong usage, 3 bad input file, 4 input/output\n"
        "error, 5 out of memory, 6 loss not finite, 7 incompatible checkpoint,\n"
        "130 or 143 stopped by SIGINT or SIGTERM after saving.\n");
}

static int print_and_check(void (*print)(void)) {
    print();
    if (fflush(stdout) == 0)
        return OK;
    perror("normglue: stdout: cannot write");
    return ERR_IO;
}

static void print_version(void) { printf("normglue " VERSION "\n"); }

static int unknown(const char *word) {
    const char *names[NUM_SUBCOMMANDS];
    for (int i = 0; i < NUM_SUBCOMMANDS; i++)
        names[i] = subcommands[i].name;
    const char *near = options_nearest(word, names, NUM_SUBCOMMANDS);
    fprintf(stderr, "normglue: unknown subcommand '%s'", word);
    if (near)
        fprintf(stderr, "; did you mean '%s'?", near);
    fprintf(stderr, "\nTry 'normglue --help'.\n");
    return ERR_USAGE;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr,
                "normglue: expected a subcommand, found nothing\n"
                "Try 'normglue --help'.\n");
        return ERR_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
        strcmp(word, "help") == 0)
        return print_and_check(print_help);
    if (strcmp(word, "--version") == 0)
        return print_and_check(print_version);
    for (int i = 0; i < NUM_SUBCOMMANDS; i++)
        if (strcmp(word, subcommands[i].name) == 0 && subcommands[i].run)
            return subcommands[i].run(argc - 2, argv + 2);
    return unknown(word);
}
