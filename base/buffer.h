/* buffer - a growing string of bytes, always followed by a NUL that is not counted.
 *
 * A zeroed struct is an empty buffer. Growth is by half, so adding n bytes one at a time
 * costs O(n). A call that fails (ERR_MEMORY) leaves the buffer valid. */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include <stddef.h>

#include "base/error.h"

struct buffer {
    char *data; /* owned; NULL when nothing was ever added */
    size_t length, capacity;
};

/* Room for `more` bytes and the NUL behind what is there; then data + length may be
 * written and length raised. */
enum status buffer_reserve(struct buffer *b, size_t more, struct error *err) MUST_CHECK;
/* Append bytes, which may be NULL if there are none, or formatted text. `bytes` must not
 * lie in the buffer. */
enum status buffer_add(struct buffer *b, const void *bytes, size_t length,
                       struct error *err) MUST_CHECK;
enum status buffer_print(struct buffer *b, struct error *err, const char *format, ...)
    PRINTF_LIKE(3, 4) MUST_CHECK;
/* The number in decimal; many times as quick as buffer_print. */
enum status buffer_add_integer(struct buffer *b, long long value,
                               struct error *err) MUST_CHECK;
/* Adds `text` as a JSON string with its quotes: raw UTF-8, escapes only for ", \ and
 * controls (\b \f \n \r \t, others \u00xx), as Hugging Face's tokenizers writes it. */
enum status buffer_add_json_string(struct buffer *b, const char *text, size_t length,
                                   struct error *err) MUST_CHECK;
void buffer_clear(struct buffer *b); /* empties, keeps the memory */
void buffer_free(struct buffer *b);

#endif
