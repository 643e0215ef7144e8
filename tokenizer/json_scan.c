/* json_scan - a strict JSON reader that pulls values one by one.
 *
 * RFC 8259, read once from left to right without a tree: the caller asks for what it
 * expects next and gets it, or an error with the byte. Strings without escapes, nearly
 * all, are handed out where they lie. skip() finds the end of a value without looking at
 * it; sections that are small go to jansson afterwards (base/json_file), which checks
 * them. Its depth is counted, not recursed into, so that no nesting can exhaust the
 * stack. */
#include "tokenizer/json_scan.h"

#include <string.h>

#include "tokenizer/unicode.h"

void json_scan_close(struct json_scan *s) { buffer_free(&s->unescaped); }

enum status json_scan_expected(const struct json_scan *s, const char *what,
                               struct error *err) {
    if (s->at >= s->length)
        return error_set(err, ERR_INPUT, "%s: byte %zu: expected %s, found the end",
                         s->path, s->at, what);
    unsigned char c = (unsigned char)s->text[s->at];
    if (c > 0x20 && c < 0x7F)
        return error_set(err, ERR_INPUT, "%s: byte %zu: expected %s, found '%c'", s->path,
                         s->at, what, c);
    return error_set(err, ERR_INPUT, "%s: byte %zu: expected %s, found byte 0x%02X",
                     s->path, s->at, what, c);
}

char json_scan_peek(struct json_scan *s) {
    while (s->at < s->length) {
        char c = s->text[s->at];
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
            return c;
        s->at++;
    }
    return 0;
}

bool json_scan_take(struct json_scan *s, char c) {
    if (json_scan_peek(s) != c || s->at >= s->length)
        return false;
    s->at++;
    return true;
}

enum status json_scan_need(struct json_scan *s, char c, struct error *err) {
    char what[] = {'\'', c, '\'', 0};
    return json_scan_take(s, c) ? OK : json_scan_expected(s, what, err);
}

/* Four hex digits at text[at]; UNICODE_BAD when they are not there. */
static uint32_t hex4(const struct json_scan *s, size_t at) {
    uint32_t value = 0;
    for (size_t i = at; i < at + 4; i++) {
        char c = i < s->length ? s->text[i] : 0;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16)
            return UNICODE_BAD;
        value = value * 16 + digit;
    }
    return value;
}

/* The character of a \u escape whose digits start at `at`, with the low surrogate that
 * has to follow a high one. */
static enum status unicode_escape(struct json_scan *s, uint32_t *code,
                                  struct error *err) {
    uint32_t first = hex4(s, s->at);
    if (first == UNICODE_BAD)
        return json_scan_expected(s, "four hex digits", err);
    s->at += 4;
    *code = first;
    if (first < 0xD800 || first > 0xDFFF)
        return OK;
    bool pair = first < 0xDC00 && s->at + 6 <= s->length && s->text[s->at] == '\\' &&
                s->text[s->at + 1] == 'u';
    uint32_t second = pair ? hex4(s, s->at + 2) : UNICODE_BAD;
    if (second < 0xDC00 || second > 0xDFFF)
        return json_scan_expected(s, "the second half of a surrogate pair", err);
    s->at += 6;
    *code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    return OK;
}

/* Resolves the escape after a backslash and adds it to s->unescaped. */
static enum status escape(struct json_scan *s, struct error *err) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char c = s->at < s->length ? s->text[s->at] : 0;
    const char *name = c ? strchr(names, c) : NULL;
    if (name) {
        s->at++;
        return buffer_add(&s->unescaped, &values[name - names], 1, err);
    }
    if (c != 'u')
        return json_scan_expected(s, "an escape (\" \\ / b f n r t u)", err);
    s->at++;
    uint32_t code = 0;
    TRY(unicode_escape(s, &code, err));
    char utf8[4];
    return buffer_add(&s->unescaped, utf8, unicode_encode(code, utf8), err);
}

/* Moves past characters that stand for themselves. */
static enum status plain(struct json_scan *s, struct error *err) {
    while (s->at < s->length) {
        unsigned char c = (unsigned char)s->text[s->at];
        if (c == '"' || c == '\\')
            return OK;
        if (c < 0x20)
            break;
        if (c < 0x80) {
            s->at++;
            continue;
        }
        uint32_t code;
        size_t bytes = unicode_decode((const unsigned char *)s->text + s->at,
                                      s->length - s->at, &code);
        if (code == UNICODE_BAD)
            return json_scan_expected(s, "UTF-8", err);
        s->at += bytes;
    }
    return json_scan_expected(s, "the string to go on or end", err);
}

enum status json_scan_string(struct json_scan *s, struct json_text *out,
                             struct error *err) {
    if (!json_scan_take(s, '"'))
        return json_scan_expected(s, "a string", err);
    size_t start = s->at;
    TRY(plain(s, err));
    if (s->text[s->at] == '"') {
        *out = (struct json_text){s->text + start, s->at++ - start};
        return OK;
    }
    buffer_clear(&s->unescaped);
    while (s->text[s->at] == '\\') {
        TRY(buffer_add(&s->unescaped, s->text + start, s->at - start, err));
        s->at++;
        TRY(escape(s, err));
        start = s->at;
        TRY(plain(s, err));
    }
    TRY(buffer_add(&s->unescaped, s->text + start, s->at - start, err));
    s->at++;
    *out = (struct json_text){s->unescaped.data, s->unescaped.length};
    return OK;
}

enum status json_scan_integer(struct json_scan *s, int64_t *out, struct error *err) {
    char first = json_scan_peek(s);
    size_t start = s->at + (first == '-');
    size_t at = start;
    int64_t value = 0;
    while (at < s->length && at - start < 18 && s->text[at] >= '0' && s->text[at] <= '9')
        value = value * 10 + (s->text[at++] - '0');
    bool leading_zero = at - start > 1 && s->text[start] == '0';
    bool goes_on = at < s->length && s->text[at] && strchr(".eE0123456789", s->text[at]);
    if (at == start || leading_zero || goes_on)
        return json_scan_expected(s, "a whole number", err);
    s->at = at;
    *out = first == '-' ? -value : value;
    return OK;
}

/* From the opening quote past the closing one; a backslash hides one byte, which is
 * enough to find the end. */
static enum status skip_string(struct json_scan *s, struct error *err) {
    for (s->at++; s->at < s->length; s->at++) {
        if (s->text[s->at] == '"')
            return s->at++, OK;
        if (s->text[s->at] == '\\')
            s->at++;
    }
    return json_scan_expected(s, "the end of a string", err);
}

enum status json_scan_skip(struct json_scan *s, size_t *start, struct error *err) {
    enum { DEEPEST = 64 };
    json_scan_peek(s);
    *start = s->at;
    int depth = 0;
    for (;;) {
        char c = json_scan_peek(s);
        if (!c || (!depth && strchr(",:]}", c)))
            return json_scan_expected(s, "a value", err);
        if (c == '"')
            TRY(skip_string(s, err));
        else
            s->at++;
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        if (depth < 0 || depth > DEEPEST)
            return json_scan_expected(s, "a value nested at most 64 deep", err);
        bool atom_goes_on = c != '"' && c != '}' && c != ']' && s->at < s->length &&
                            !strchr(",]} \n\r\t", s->text[s->at]);
        if (!depth && !atom_goes_on)
            return OK;
    }
}

enum status json_scan_next(struct json_scan *s, char close, bool *first, bool *more,
                           struct error *err) {
    bool start = *first;
    *first = false;
    *more = false;
    if (json_scan_take(s, close))
        return OK;
    *more = true;
    if (start)
        return OK;
    if (!json_scan_take(s, ','))
        return json_scan_expected(s, close == '}' ? "',' or '}'" : "',' or ']'", err);
    char next = json_scan_peek(s);
    return next == close ? json_scan_expected(s, "another entry after ','", err) : OK;
}

enum status json_scan_end(struct json_scan *s, struct error *err) {
    json_scan_peek(s);
    return s->at == s->length ? OK : json_scan_expected(s, "the end of the file", err);
}
