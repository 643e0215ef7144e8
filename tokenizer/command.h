/* command - the subcommands of normglue tokenizer and what they share. */
#ifndef TOKENIZER_COMMAND_H
#define TOKENIZER_COMMAND_H

#include "tokenizer/tokenizer.h"

/* argv[0] is the first word after the subcommand; the exit code. */
int command_train(int argc, char **argv);
int command_encode(int argc, char **argv);
int command_decode(int argc, char **argv);
int command_inspect(int argc, char **argv);

#define COMMAND_INVALID_UTF8 "error|replace|bytes"
/* The mode of one of these words. */
enum invalid_utf8 command_invalid_utf8(const char *word);
/* A --threads value, 0 = as many as the process may use. */
int command_threads(long long threads);

/* Bytes of an id in format u16 or u32, 0 for the formats that are text. */
size_t command_id_width(const char *format);
/* To stdout; a failure is ERR_IO. */
enum status command_write(const void *bytes, size_t length, struct error *err) MUST_CHECK;
enum status command_flush(struct error *err) MUST_CHECK;

#endif
