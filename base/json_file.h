/* json_file - JSON documents on jansson, read strictly: duplicate keys, bad UTF-8,
 * trailing text and depth beyond 64 are errors that name path, line and column.
 *
 * A document with an integer beyond 64 bits (tokenizer_config.json of Hugging Face has
 * "model_max_length": 10^30) is read with all its integers as reals; json_file_integer
 * takes whole reals as well. */
#ifndef BASE_JSON_FILE_H
#define BASE_JSON_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* The caller owns *out (json_decref). `path` is only named in errors by json_file_parse.
 */
enum status json_file_read(json_t **out, const char *path, struct error *err) MUST_CHECK;
enum status json_file_parse(json_t **out, const char *path, const char *text,
                            size_t length, struct error *err) MUST_CHECK;
/* Written whole or not at all (base/file), indent 2, keys in insertion order, final
 * newline. Numbers that are NaN or infinite cannot occur: jansson refuses to hold them.
 */
enum status json_file_write(const json_t *value, const char *path,
                            struct error *err) MUST_CHECK;

/* Member `key` of `object` as a type, within [least, most]. Absent or null gives
 * `fallback`; any other type or a number out of range is ERR_INPUT "<path>: <key>:
 * expected ..., found ...". */
enum status json_file_integer(const json_t *object, const char *path, const char *key,
                              int64_t least, int64_t most, int64_t fallback, int64_t *out,
                              struct error *err) MUST_CHECK;
enum status json_file_number(const json_t *object, const char *path, const char *key,
                             double least, double most, double fallback, double *out,
                             struct error *err) MUST_CHECK;
/* true, false, 0 or 1. */
enum status json_file_boolean(const json_t *object, const char *path, const char *key,
                              bool fallback, bool *out, struct error *err) MUST_CHECK;
/* The string lives as long as `object`. */
enum status json_file_string(const json_t *object, const char *path, const char *key,
                             const char *fallback, const char **out,
                             struct error *err) MUST_CHECK;

#endif
