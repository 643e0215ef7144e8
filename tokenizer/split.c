/* split - the pre-tokenizer of GPT-2 and RoBERTa.
 *
 * The regular expression without a regular expression. Letters, numbers, whitespace and
 * "other" partition the code points, so a pre-token is one of four things, decided at its
 * first character or, after a space, its second:
 *
 *   contraction    an apostrophe that begins the pre-token, then s t m d re ve ll
 *   run            an optional 0x20, then all that follows of one class (not whitespace)
 *   whitespace     the whole run, less its last character if a word follows: \s+(?!\S)
 *   one blank      what the rule above left over
 *
 * Only 0x20 ever joins the word behind it: "\n\nx" is "\n" "\n" "x". "a's" is "a" "'s",
 * but "!'s" is "!'" "s", as the apostrophe there is inside a run. At the end of the text
 * a run of whitespace stays whole; and a text ends at every added token.
 *
 * This is the specification that split_spans.c has to match; it looks at each byte once
 * or twice and decodes every character. */
#include "tokenizer/split.h"

#include <stdbool.h>

#include "tokenizer/unicode.h"

/* Class of the character at text[at]; *next is where the following one starts. */
static inline enum unicode_class class_at(const unsigned char *text, size_t at,
                                          size_t length, size_t *next) {
    uint32_t code;
    size_t bytes = unicode_decode(text + at, length - at, &code);
    if (code == UNICODE_BAD) {
        *next = at + 1;
        return UNICODE_OTHER;
    }
    *next = at + bytes;
    return unicode_class(code);
}

/* Length of the contraction at text[at], which is an apostrophe; 0 when none. */
static size_t contraction(const unsigned char *text, size_t at, size_t length) {
    if (length - at < 2)
        return 0;
    unsigned char first = text[at + 1];
    if (first == 's' || first == 't' || first == 'm' || first == 'd')
        return 2;
    if (length - at < 3)
        return 0;
    unsigned char second = text[at + 2];
    bool two = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
               (first == 'l' && second == 'l');
    return two ? 3 : 0;
}

static size_t run_end(const unsigned char *text, size_t at, size_t length,
                      enum unicode_class class) {
    while (at < length) {
        size_t next;
        if (class_at(text, at, length, &next) != class)
            break;
        at = next;
    }
    return at;
}

/* A run of whitespace leaves its last character to what follows, unless it is the only
 * one or nothing follows. */
static size_t space_end(const unsigned char *text, size_t start, size_t length) {
    size_t at = start, last = start;
    while (at < length) {
        size_t next;
        if (class_at(text, at, length, &next) != UNICODE_SPACE)
            break;
        last = at;
        at = next;
    }
    return at < length && last > start ? last : at;
}

size_t split_next(const unsigned char *text, size_t start, size_t length) {
    if (text[start] == '\'') {
        size_t bytes = contraction(text, start, length);
        if (bytes)
            return start + bytes;
    }
    size_t next;
    enum unicode_class class = class_at(text, start, length, &next);
    if (text[start] == ' ' && next < length) {
        size_t after;
        enum unicode_class second = class_at(text, next, length, &after);
        if (second != UNICODE_SPACE)
            return run_end(text, after, length, second);
    }
    if (class == UNICODE_SPACE)
        return space_end(text, start, length);
    return run_end(text, next, length, class);
}
