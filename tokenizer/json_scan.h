/* json_scan - a strict JSON reader that pulls values one by one, for the large parts of
 * tokenizer files.
 *
 * A tokenizer.json holds 150,000 strings of which a general reader makes as many objects;
 * this one hands each string over where it lies. Duplicate keys are the caller's to see.
 */
#ifndef TOKENIZER_JSON_SCAN_H
#define TOKENIZER_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

struct json_scan {
    const char *path; /* for errors */
    const char *text;
    size_t length, at;
    struct buffer unescaped; /* the last string, when it held escapes; owned */
};

struct json_text {
    const char *data; /* valid until the next string is read; no NUL at its end */
    size_t length;
};

void json_scan_close(struct json_scan *s);
/* "<path>: byte N: expected <what>, found ...", ERR_INPUT. */
enum status json_scan_expected(const struct json_scan *s, const char *what,
                               struct error *err);
/* The next byte that is no whitespace, not consumed; 0 at the end of the text. */
char json_scan_peek(struct json_scan *s);
/* Consumes `c` if it is next. */
bool json_scan_take(struct json_scan *s, char c);
enum status json_scan_need(struct json_scan *s, char c, struct error *err) MUST_CHECK;
/* Escapes resolved; must be UTF-8, a lone surrogate or a raw control is an error. */
enum status json_scan_string(struct json_scan *s, struct json_text *out,
                             struct error *err) MUST_CHECK;
/* A whole number of at most 18 digits. */
enum status json_scan_integer(struct json_scan *s, int64_t *out,
                              struct error *err) MUST_CHECK;
/* Passes over any value, nested at most 64 deep; its text is text[*start .. at). What is
 * inside strings and numbers is not checked. */
enum status json_scan_skip(struct json_scan *s, size_t *start,
                           struct error *err) MUST_CHECK;
/* Goes to the next member of an object or element of an array: *more is false once
 * `close` was consumed. `first` is true at the first call. */
enum status json_scan_next(struct json_scan *s, char close, bool *first, bool *more,
                           struct error *err) MUST_CHECK;
/* ERR_INPUT unless only whitespace is left. */
enum status json_scan_end(struct json_scan *s, struct error *err) MUST_CHECK;

#endif
