/* config_files - tokenizer_config.json, special_tokens_map.json, added_tokens.json:
 * what transformers keeps beside vocabulary and merges. */
#ifndef TOKENIZER_CONFIG_FILES_H
#define TOKENIZER_CONFIG_FILES_H

#include "tokenizer/parts.h"

enum { CONFIG_FILES = 3 };
/* Their names, in the order in which they are read. */
const char *config_files_name(int i);

/* Takes over add_prefix_space, the added tokens with their flags and which tokens are
 * bos, eos, pad ...; files that are not there say nothing. */
enum status config_files_read(struct tokenizer *t, const char *directory,
                              struct error *err) MUST_CHECK;
/* Writes tokenizer_config.json and special_tokens_map.json. */
enum status config_files_write(const struct tokenizer *t, const char *directory,
                               struct error *err) MUST_CHECK;

#endif
