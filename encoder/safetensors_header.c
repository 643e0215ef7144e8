/* safetensors_header - the JSON in front of the data, read strictly.
 *
 * The grammar is JSON, but only three shapes of value mean anything: an object of
 * tensors, a tensor {"dtype", "shape", "data_offsets"} with the keys in any order, and
 * the flat map of strings __metadata__. Anything else inside a tensor is skipped, as the
 * reference does.
 *
 * Known ways in which readers of this format broke, and what stands against each:
 *
 *   a product of dimensions that wraps, to 0 or a small number     checked product
 *   dimensions that go through floating point                      digits, 63 bits
 *   only the end of a tensor checked; end before begin             both, before use
 *   8 + length wrapping                                            length <= size - 8
 *   an unknown type whose size check is skipped                    an error
 *   a name twice, spelled with and without escapes                 compared unescaped
 *   a hundred thousand tiny entries, deep nesting                  nodes, depth bounded
 *
 * The caller's memory is bounded by the header's length plus one item for each tensor. */
#include "encoder/safetensors_header.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static const struct element_type element_types[] = {
    {"BOOL", 8},    {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6},
    {"U8", 8},      {"I8", 8},          {"F8_E5M2", 8},     {"F8_E4M3", 8},
    {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},        {"BF16", 16},       {"I32", 32},
    {"U32", 32},    {"F32", 32},        {"C64", 64},        {"F64", 64},
    {"I64", 64},    {"U64", 64},
};

const struct element_type *element_type_find(const char *name) {
    for (size_t i = 0; i < sizeof element_types / sizeof *element_types; i++)
        if (!strcmp(element_types[i].name, name))
            return &element_types[i];
    return NULL;
}

int safetensors_bits(const char *dtype) {
    const struct element_type *type = element_type_find(dtype);
    return type ? type->bits : 0;
}

/* Reads the text from left to right. Strings are unescaped into `names`, which is as long
 * as the text: a string without its quotes and escapes always fits. */
struct scanner {
    const char *path;
    struct header header;
    size_t at; /* byte of the text */
    char *names;
    size_t used, nodes;
    struct error *err;
};

static enum status unexpected(const struct scanner *s, const char *expected) {
    if (s->at >= s->header.length)
        return error_set(s->err, ERR_INPUT, "%s: header: expected %s, found its end",
                         s->path, expected);
    unsigned char byte = s->header.text[s->at];
    return error_set(s->err, ERR_INPUT,
                     byte > 32 && byte < 127
                         ? "%s: header byte %zu: expected %s, found %c"
                         : "%s: header byte %zu: expected %s, found "
                           "byte 0x%02x",
                     s->path, s->at, expected, byte);
}

static int peek(const struct scanner *s) {
    return s->at < s->header.length ? s->header.text[s->at] : -1;
}

static void skip_space(struct scanner *s) {
    while (peek(s) == ' ' || peek(s) == '\t' || peek(s) == '\n' || peek(s) == '\r')
        s->at++;
}

/* Takes `c` after white space, if it is next. */
static bool take(struct scanner *s, char c) {
    skip_space(s);
    if (peek(s) != c)
        return false;
    s->at++;
    return true;
}

static enum status need(struct scanner *s, char c) {
    const char expected[] = {'\'', c, '\'', 0};
    return take(s, c) ? OK : unexpected(s, expected);
}

static enum status count_node(struct scanner *s) {
    if (++s->nodes <= SAFETENSORS_MAX_NODES)
        return OK;
    return error_set(s->err, ERR_INPUT, "%s: header holds more than %d values", s->path,
                     SAFETENSORS_MAX_NODES);
}

static int hex_digit(int c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum status read_hex4(struct scanner *s, unsigned *out) {
    *out = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        int digit = hex_digit(peek(s));
        if (digit < 0)
            return unexpected(s, "a hexadecimal digit");
        *out = *out * 16 + (unsigned)digit;
    }
    return OK;
}

/* The rest of \uXXXX, with its second half where it is a surrogate. */
static enum status read_unicode(struct scanner *s) {
    unsigned code, low;
    TRY(read_hex4(s, &code));
    if (code >= 0xD800 && code < 0xDC00) {
        if (s->header.length - s->at < 6 || memcmp(s->header.text + s->at, "\\u", 2))
            return unexpected(s, "the second half of a surrogate pair");
        s->at += 2;
        TRY(read_hex4(s, &low));
        code = low >= 0xDC00 && low < 0xE000
                   ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                   : 0;
    }
    if (code == 0 || (code >= 0xD800 && code < 0xE000))
        return unexpected(s, "a character that is neither NUL nor half of a pair");
    s->used += (size_t)utf8proc_encode_char((utf8proc_int32_t)code,
                                            (utf8proc_uint8_t *)s->names + s->used);
    return OK;
}

static enum status read_escape(struct scanner *s) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = peek(s);
    const char *place = c > 0 ? strchr(from, c) : NULL;
    if (!place && c != 'u')
        return unexpected(s, "an escape of JSON");
    s->at++;
    if (c == 'u')
        return read_unicode(s);
    s->names[s->used++] = to[place - from];
    return OK;
}

static enum status read_string(struct scanner *s, char **out) {
    TRY(count_node(s));
    TRY(need(s, '"'));
    *out = s->names + s->used;
    for (;;) {
        int c = peek(s);
        if (c < 0x20)
            return unexpected(s, "the rest of a string");
        s->at++;
        if (c == '"')
            break;
        if (c == '\\')
            TRY(read_escape(s));
        else
            s->names[s->used++] = (char)c;
    }
    s->names[s->used++] = 0;
    return OK;
}

/* A whole number without sign, point or exponent, at most 2^63 - 1. */
static enum status read_whole(struct scanner *s, int64_t *out) {
    TRY(count_node(s));
    skip_space(s);
    size_t start = s->at;
    *out = 0;
    for (int c; (c = peek(s)) >= '0' && c <= '9'; s->at++)
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, c - '0', out))
            return unexpected(s, "a number below 2^63");
    bool leading_zero = s->at - start > 1 && s->header.text[start] == '0';
    int next = peek(s);
    if (s->at == start || leading_zero || next == '.' || next == 'e' || next == 'E')
        return unexpected(s, "a whole number");
    return OK;
}

static enum status read_wholes(struct scanner *s, int64_t *out, int most, int *count) {
    *count = 0;
    TRY(need(s, '['));
    if (take(s, ']'))
        return OK;
    do {
        if (*count == most)
            return unexpected(s, most == 2 ? "no more than 2 data_offsets"
                                           : "no more than 8 dimensions");
        TRY(read_whole(s, &out[(*count)++]));
    } while (take(s, ','));
    return need(s, ']');
}

static enum status skip_value(struct scanner *s, int depth);

static enum status skip_members(struct scanner *s, char close, int depth) {
    char *key;
    s->at++;
    if (take(s, close))
        return OK;
    do {
        if (close == '}') {
            TRY(read_string(s, &key));
            TRY(need(s, ':'));
        }
        TRY(skip_value(s, depth + 1));
    } while (take(s, ','));
    return need(s, close);
}

/* [0-9.eE+-]* is enough for a value that nobody reads. */
static enum status skip_scalar(struct scanner *s) {
    static const char *const words[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++) {
        size_t length = strlen(words[i]);
        if (s->header.length - s->at >= length &&
            !memcmp(s->header.text + s->at, words[i], length)) {
            s->at += length;
            return OK;
        }
    }
    size_t start = s->at;
    while (peek(s) > 0 && strchr("0123456789.eE+-", peek(s)))
        s->at++;
    return s->at > start ? OK : unexpected(s, "a JSON value");
}

/* The value of a key that the format does not know, as the reference allows. */
static enum status skip_value(struct scanner *s, int depth) {
    char *text;
    if (depth > SAFETENSORS_MAX_DEPTH)
        return unexpected(s, "no more than 8 levels of nesting");
    skip_space(s);
    if (peek(s) == '"')
        return read_string(s, &text);
    TRY(count_node(s));
    if (peek(s) == '{')
        return skip_members(s, '}', depth);
    if (peek(s) == '[')
        return skip_members(s, ']', depth);
    return skip_scalar(s);
}

static enum status bad_tensor(const struct scanner *s, const struct safetensor *t,
                              const char *what) {
    return error_set(s->err, ERR_INPUT, "%s: tensor \"%.200s\": %s", s->path, t->name,
                     what);
}

static enum status read_type(struct scanner *s, struct safetensor *t) {
    char *name;
    TRY(read_string(s, &name));
    const struct element_type *type = element_type_find(name);
    if (!type)
        return error_set(s->err, ERR_INPUT,
                         "%s: tensor \"%.200s\": unknown dtype \"%.40s\"", s->path,
                         t->name, name);
    t->dtype = type->name;
    return OK;
}

/* Elements and bytes of the shape against the offsets, without wrapping anywhere. */
static enum status place_tensor(const struct scanner *s, struct safetensor *t,
                                const int64_t offsets[2]) {
    size_t bits = (size_t)safetensors_bits(t->dtype);
    t->count = 1;
    bool huge = false;
    for (int i = 0; i < t->rank; i++)
        huge |= __builtin_mul_overflow(t->count, (size_t)t->shape[i], &t->count);
    if (huge || __builtin_mul_overflow(bits, t->count, &bits))
        return bad_tensor(s, t, "its shape overflows");
    if (offsets[0] > offsets[1])
        return error_set(
            s->err, ERR_INPUT,
            "%s: tensor \"%.200s\": data_offsets begin at %lld and end at %lld", s->path,
            t->name, (long long)offsets[0], (long long)offsets[1]);
    if ((uint64_t)offsets[1] > s->header.data_size)
        return error_set(
            s->err, ERR_INPUT,
            "%s: the file has %zu bytes of data, but tensor \"%.200s\" ends at "
            "%lld",
            s->path, s->header.data_size, t->name, (long long)offsets[1]);
    t->bytes = (size_t)(offsets[1] - offsets[0]);
    if (bits % 8 || bits / 8 != t->bytes)
        return error_set(s->err, ERR_INPUT,
                         "%s: tensor \"%.200s\": its shape needs %zu bits, its "
                         "data_offsets hold %zu bytes",
                         s->path, t->name, bits, t->bytes);
    t->data = s->header.data + offsets[0];
    return OK;
}

enum { SEEN_DTYPE = 1, SEEN_SHAPE = 2, SEEN_OFFSETS = 4, SEEN_ALL = 7 };

static enum status read_member(struct scanner *s, struct safetensor *t,
                               int64_t offsets[2], int *seen) {
    char *key;
    int count = 2;
    TRY(read_string(s, &key));
    TRY(need(s, ':'));
    int member = !strcmp(key, "dtype")          ? SEEN_DTYPE
                 : !strcmp(key, "shape")        ? SEEN_SHAPE
                 : !strcmp(key, "data_offsets") ? SEEN_OFFSETS
                                                : 0;
    if (*seen & member)
        return bad_tensor(s, t, "a key stands twice");
    *seen |= member;
    if (member == SEEN_DTYPE)
        return read_type(s, t);
    if (member == SEEN_SHAPE)
        return read_wholes(s, t->shape, SAFETENSORS_MAX_RANK, &t->rank);
    if (!member)
        return skip_value(s, 1);
    TRY(read_wholes(s, offsets, 2, &count));
    return count == 2 ? OK : bad_tensor(s, t, "expected two data_offsets");
}

static enum status read_tensor(struct scanner *s, struct safetensor *t) {
    int64_t offsets[2];
    int seen = 0;
    TRY(need(s, '{'));
    if (!take(s, '}')) {
        do
            TRY(read_member(s, t, offsets, &seen));
        while (take(s, ','));
        TRY(need(s, '}'));
    }
    if (seen != SEEN_ALL)
        return bad_tensor(s, t, "expected dtype, shape and data_offsets");
    return place_tensor(s, t, offsets);
}

/* A flat map of strings, or null. */
static enum status read_metadata(struct scanner *s) {
    char *text;
    skip_space(s);
    if (peek(s) == 'n')
        return skip_value(s, 1);
    TRY(need(s, '{'));
    if (take(s, '}'))
        return OK;
    do {
        TRY(read_string(s, &text));
        TRY(need(s, ':'));
        skip_space(s);
        TRY(read_string(s, &text));
    } while (take(s, ','));
    return need(s, '}');
}

/* NULL when out of memory. */
static struct safetensor *add_item(struct safetensors *out, const char *name,
                                   struct error *err) {
    if ((out->count & (out->count - 1)) == 0) { /* full at each power of two */
        size_t capacity = out->count ? 2 * (size_t)out->count : 1;
        void *grown = realloc(out->items, capacity * sizeof *out->items);
        if (!grown) {
            error_set(err, ERR_MEMORY, "%s: out of memory for %zu tensors", out->path,
                      capacity);
            return NULL;
        }
        out->items = grown;
    }
    struct safetensor *item = &out->items[out->count++];
    *item = (struct safetensor){.name = name};
    return item;
}

static enum status read_entry(struct scanner *s, struct safetensors *out,
                              bool *has_metadata) {
    char *name;
    TRY(read_string(s, &name));
    TRY(need(s, ':'));
    if (strcmp(name, "__metadata__")) {
        struct safetensor *item = add_item(out, name, s->err);
        return item ? read_tensor(s, item) : s->err->status;
    }
    if (*has_metadata)
        return error_set(s->err, ERR_INPUT, "%s: header: __metadata__ stands twice",
                         s->path);
    *has_metadata = true;
    return read_metadata(s);
}

static enum status check_utf8(const struct scanner *s) {
    utf8proc_int32_t code;
    for (size_t i = 0; i < s->header.length;) {
        utf8proc_ssize_t n = utf8proc_iterate(
            s->header.text + i, (utf8proc_ssize_t)(s->header.length - i), &code);
        if (n <= 0)
            return error_set(s->err, ERR_INPUT, "%s: header byte %zu is not UTF-8",
                             s->path, i);
        i += (size_t)n;
    }
    return OK;
}

enum status safetensors_header_read(struct safetensors *out, struct header header,
                                    struct error *err) {
    bool has_metadata = false;
    out->names = malloc(header.length + 1);
    if (!out->names)
        return error_set(err, ERR_MEMORY, "%s: out of memory for a header of %zu bytes",
                         out->path, header.length);
    struct scanner s = {
        .path = out->path, .header = header, .names = out->names, .err = err};
    TRY(check_utf8(&s));
    TRY(need(&s, '{'));
    if (!take(&s, '}')) {
        do
            TRY(read_entry(&s, out, &has_metadata));
        while (take(&s, ','));
        TRY(need(&s, '}'));
    }
    skip_space(&s);
    return s.at == header.length ? OK : unexpected(&s, "only spaces after the header");
}
