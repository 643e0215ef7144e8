/* command - normglue tokenizer: chooses the subcommand. */
#include "tokenizer/command.h"

#include <stdio.h>
#include <string.h>

#include "base/cpus.h"
#include "base/subcommand.h"

static const struct subcommand rows[] = {
    {"train", command_train, "learn a byte-level BPE vocabulary from text files"},
    {"encode", command_encode, "text to token ids"},
    {"decode", command_decode, "token ids to text"},
    {"inspect", command_inspect, "size, special tokens and compression of a tokenizer"},
};

static const struct subcommands all = {
    .name = "normglue tokenizer",
    .summary = "Byte-level BPE as GPT-2 and RoBERTa use it, with Hugging Face's files.\n",
    .epilog =
        "NORMGLUE_CACHE names the folder where copies of large tokenizers lie that load "
        "at\n"
        "once (empty: none; unset: ~/.cache/normglue). It can be deleted at any time.\n",
    .rows = rows,
    .count = sizeof rows / sizeof rows[0],
};

int tokenizer_command(int argc, char **argv) { return subcommand_run(&all, argc, argv); }

enum invalid_utf8 command_invalid_utf8(const char *word) {
    if (strcmp(word, "replace") == 0)
        return INVALID_UTF8_REPLACE;
    return strcmp(word, "bytes") == 0 ? INVALID_UTF8_BYTES : INVALID_UTF8_ERROR;
}

int command_threads(long long threads) {
    return threads > 0 ? (int)threads : cpus_usable();
}

size_t command_id_width(const char *format) {
    if (strcmp(format, "u16") == 0)
        return 2;
    return strcmp(format, "u32") == 0 ? 4 : 0;
}

enum status command_write(const void *bytes, size_t length, struct error *err) {
    if (length && fwrite(bytes, 1, length, stdout) != length)
        return error_system(err, "stdout", "cannot write");
    return OK;
}

enum status command_flush(struct error *err) {
    return fflush(stdout) ? error_system(err, "stdout", "cannot write") : OK;
}
