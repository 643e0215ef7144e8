/* added - tokens recognised in running text before it is split: <mask>, <|endoftext|> ...
 *
 * The rules, and the quirks, are those of Hugging Face tokenizers: leftmost, then
 * longest; a single_word token next to a word character is passed over; lstrip and rstrip
 * take the whitespace around a match into it. Tokens with normalized = false are searched
 * in the text as it is, the others in what lies between, after normalisation. */
#ifndef TOKENIZER_ADDED_H
#define TOKENIZER_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct added_token {
    char *content; /* NUL-terminated; owned by struct added once added */
    size_t length;
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
};

/* Tokens in the order of their bytes, what the search walks through. */
struct added_set {
    struct added_pattern *patterns; /* owned */
    size_t count;
    bool starts[256]; /* by first byte */
    int only_start;   /* the one first byte, -1 when there are several */
};

struct added {
    struct added_token *tokens; /* in the order they were added, owned */
    size_t count, capacity;
    struct added_set raw, normalized; /* of added_build */
};

/* Copies the token in. One with the same content replaces the earlier one's flags. */
enum status added_add(struct added *a, const struct added_token *token,
                      struct error *err) MUST_CHECK;
/* The token with this content, NULL when there is none; valid until the next added_add.
 */
const struct added_token *added_find(const struct added *a, const char *content,
                                     size_t length);
/* Makes both sets; after the last added_add. `normalize` (may be NULL) gives the form in
 * which the content of a normalized token is searched: a string for the caller to free.
 */
enum status added_build(struct added *a,
                        enum status (*normalize)(void *self, const char *text,
                                                 size_t length, char **out,
                                                 size_t *out_length, struct error *err),
                        void *self, struct error *err) MUST_CHECK;
void added_free(struct added *a);

/* A stretch of text: a token, or (token NULL) what lies between. */
struct added_piece {
    const struct added_token *token;
    size_t start, end;
};

struct added_scan {
    const struct added *added;
    const struct added_set *set;
    const unsigned char *text;
    size_t length;
    size_t searched, done;   /* the search goes on here; pieces were given up to here */
    struct added_piece held; /* the token after the text that was given last */
};

/* Start with {.added, .set, .text, .length}. False at the end. Pieces are never empty. */
bool added_next(struct added_scan *scan, struct added_piece *piece);

#endif
