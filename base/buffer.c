/* buffer - a growing string of bytes, always followed by a NUL that is not counted. */
#include "base/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status buffer_reserve(struct buffer *b, size_t more, struct error *err) {
    size_t need;
    if (__builtin_add_overflow(b->length, more, &need) || need > SIZE_MAX / 2)
        return error_set(err, ERR_MEMORY, "out of memory: a text of %zu + %zu bytes",
                         b->length, more);
    if (need < b->capacity)
        return OK;
    size_t capacity = b->capacity + b->capacity / 2;
    if (capacity < need + 1)
        capacity = need + 1 < 64 ? 64 : need + 1;
    char *data = realloc(b->data, capacity);
    if (!data)
        return error_set(err, ERR_MEMORY, "out of memory: a text of %zu bytes", need);
    b->data = data;
    b->capacity = capacity;
    b->data[b->length] = '\0';
    return OK;
}

enum status buffer_add(struct buffer *b, const void *bytes, size_t length,
                       struct error *err) {
    TRY(buffer_reserve(b, length, err));
    if (length)
        memcpy(b->data + b->length, bytes, length);
    b->length += length;
    b->data[b->length] = '\0';
    return OK;
}

/* Formats twice: to learn the length, and into the room that was made for it. */
enum status buffer_print(struct buffer *b, struct error *err, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    enum status status = length < 0 ? error_set(err, ERR_FAILED, "a text of over 2 GiB")
                                    : buffer_reserve(b, (size_t)length, err);
    if (status == OK) {
        vsnprintf(b->data + b->length, (size_t)length + 1, format, again);
        b->length += (size_t)length;
    }
    va_end(again);
    return status;
}

enum status buffer_add_integer(struct buffer *b, long long value, struct error *err) {
    char digits[24], *at = digits + sizeof digits;
    unsigned long long rest = (unsigned long long)value;
    if (value < 0)
        rest = 0 - rest;
    do
        *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0)
        *--at = '-';
    return buffer_add(b, at, (size_t)(digits + sizeof digits - at), err);
}

/* What stands for `byte` inside a JSON string, or NULL when it stands for itself. */
static const char *json_escape(unsigned char byte, char escape[8]) {
    static const char codes[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    if (byte >= 0x20 && byte != '"' && byte != '\\')
        return NULL;
    for (const char *code = codes; *code; code += 2)
        if (byte == (unsigned char)code[0]) {
            snprintf(escape, 8, "\\%c", code[1]);
            return escape;
        }
    snprintf(escape, 8, "\\u%04x", byte);
    return escape;
}

enum status buffer_add_json_string(struct buffer *b, const char *text, size_t length,
                                   struct error *err) {
    char escape[8];
    size_t plain = 0; /* start of the run that needs no escape */
    TRY(buffer_reserve(b, length + 2 > length ? length + 2 : length, err));
    TRY(buffer_add(b, "\"", 1, err));
    for (size_t i = 0; i < length; i++) {
        const char *code = json_escape((unsigned char)text[i], escape);
        if (!code)
            continue;
        TRY(buffer_add(b, text + plain, i - plain, err));
        TRY(buffer_add(b, code, strlen(code), err));
        plain = i + 1;
    }
    TRY(buffer_add(b, text + plain, length - plain, err));
    return buffer_add(b, "\"", 1, err);
}

void buffer_clear(struct buffer *b) {
    b->length = 0;
    if (b->data)
        b->data[0] = '\0';
}

void buffer_free(struct buffer *b) {
    free(b->data);
    *b = (struct buffer){0};
}
