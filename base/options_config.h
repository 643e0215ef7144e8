/* options_config - options from a file: `key = value` lines or a JSON object. */
#ifndef BASE_OPTIONS_CONFIG_H
#define BASE_OPTIONS_CONFIG_H

#include "base/options.h"

/* Sets the rows that the file names. Errors are ERR_INPUT with path and line (JSON: path
 * and key). */
enum status options_config_read(const struct command *command, void *values,
                                const char *path, struct error *err) MUST_CHECK;

#endif
