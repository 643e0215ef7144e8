/* json_print - JSON as serde writes it: compact, or pretty with an indent of 2.
 *
 * A printer knows three things: how deep it is, whether the container it is in has a
 * value already (then a comma comes first), and whether lines are broken. So calls read
 * like the document, and what they cannot express (a value without a key in an object) is
 * the caller's mistake, not a state. */
#ifndef TOKENIZER_JSON_PRINT_H
#define TOKENIZER_JSON_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

/* The first error stays in `status`; all calls after it do nothing. */
struct json_print {
    struct buffer *out;
    bool pretty;
    int depth;
    bool filled; /* the innermost container has a value already */
    enum status status;
    struct error *err;
};

/* A container; `key` is NULL inside an array and at the top. */
void json_print_open(struct json_print *p, const char *key, char bracket);
void json_print_close(struct json_print *p, char bracket);
void json_print_string(struct json_print *p, const char *key, const char *text,
                       size_t length);
void json_print_integer(struct json_print *p, const char *key, int64_t value);
/* Like json_print_integer with a key of any bytes. */
void json_print_member(struct json_print *p, const char *key, size_t key_length,
                       int64_t value);
/* true, false, null or any other text as it is. */
void json_print_word(struct json_print *p, const char *key, const char *word);
void json_print_bool(struct json_print *p, const char *key, bool value);

#endif
