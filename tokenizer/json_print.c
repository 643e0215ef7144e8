/* json_print - JSON as serde writes it: compact, or pretty with an indent of 2. */
#include "tokenizer/json_print.h"

#include <assert.h>
#include <string.h>

static void add(struct json_print *p, const char *text, size_t length) {
    if (p->status == OK)
        p->status = buffer_add(p->out, text, length, p->err);
}

static void quote(struct json_print *p, const char *text, size_t length) {
    if (p->status == OK)
        p->status = buffer_add_json_string(p->out, text, length, p->err);
}

/* Ends a line, after a comma if there is one to come. */
static void new_line(struct json_print *p, bool comma) {
    static const char line[] = ",\n                ";
    enum { DEEPEST = (sizeof line - 3) / 2 };
    assert(p->depth <= DEEPEST);
    size_t length = p->pretty ? 1 + 2 * (size_t)p->depth : 0;
    add(p, comma ? line : line + 1, length + comma);
}

/* What stands before a value: comma, line, key. */
static void lead(struct json_print *p, const char *key, size_t key_length) {
    if (p->depth)
        new_line(p, p->filled);
    p->filled = true;
    if (!key)
        return;
    quote(p, key, key_length);
    add(p, ": ", p->pretty ? 2 : 1);
}

static void lead_key(struct json_print *p, const char *key) {
    lead(p, key, key ? strlen(key) : 0);
}

void json_print_open(struct json_print *p, const char *key, char bracket) {
    lead_key(p, key);
    add(p, &bracket, 1);
    p->depth++;
    p->filled = false;
}

void json_print_close(struct json_print *p, char bracket) {
    p->depth--;
    if (p->filled)
        new_line(p, false);
    add(p, &bracket, 1);
    p->filled = true;
}

void json_print_string(struct json_print *p, const char *key, const char *text,
                       size_t length) {
    lead_key(p, key);
    quote(p, text, length);
}

void json_print_member(struct json_print *p, const char *key, size_t key_length,
                       int64_t value) {
    lead(p, key, key_length);
    if (p->status == OK)
        p->status = buffer_add_integer(p->out, value, p->err);
}

void json_print_integer(struct json_print *p, const char *key, int64_t value) {
    json_print_member(p, key, key ? strlen(key) : 0, value);
}

void json_print_word(struct json_print *p, const char *key, const char *word) {
    lead_key(p, key);
    add(p, word, strlen(word));
}

void json_print_bool(struct json_print *p, const char *key, bool value) {
    json_print_word(p, key, value ? "true" : "false");
}
