/* normglue - one program; the first word says what it does. */
#include <stdio.h>
#include <string.h>

#include "base/subcommand.h"
#include "encoder/checkpoint.h"
#include "finetune/finetune.h"
#include "glue/glue.h"
#include "pretrain/pretrain.h"
#include "tokenizer/tokenizer.h"

/* finetune/ does not see glue/: it is handed the tasks. */
static int finetune(int argc, char **argv) {
    return finetune_command(argc, argv, glue_tasks);
}

static const struct subcommand rows[] = {
    {"tokenizer", tokenizer_command, "train, use and inspect a byte-level BPE tokenizer"},
    {"pretrain", pretrain_command, "masked-language-model pretraining"},
    {"finetune", finetune, "fine-tune a model on one task"},
    {"glue", glue_command, "fine-tune on all tasks and print the score table"},
    {"predict", predict_command, "label texts with a fine-tuned model"},
    {"fill-mask", fill_mask_command, "the likeliest tokens for <mask>"},
    {"checkpoint", checkpoint_command, "inspect, verify, export model directories"},
};

static const struct subcommands normglue = {
    .name = "normglue",
    .summary =
        "Trains byte-level BPE tokenizers, pretrains masked language models with any of\n"
        "the published LayerNorm arrangements, fine-tunes them on GLUE and prints the\n"
        "score table. 'normglue --version' prints the version.\n",
    .epilog =
        "Exit status: 0 done, 1 failed, 2 wrong usage, 3 bad input file, 4 input/output\n"
        "error, 5 out of memory, 6 loss not finite, 7 incompatible checkpoint,\n"
        "130 or 143 stopped by SIGINT or SIGTERM after saving.\n",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
};

static int print_version(void) {
    struct error err;
    printf("normglue 0.1.0\n");
    if (fflush(stdout) == 0)
        return OK;
    const enum status status = error_system(&err, "stdout", "cannot write");
    fprintf(stderr, "normglue: %s\n", err.text);
    return (int)status;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return print_version();
    return subcommand_run(&normglue, argc - 1, argv + 1);
}
