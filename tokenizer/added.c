/* added - tokens recognised in running text before it is split.
 *
 * A set is its patterns sorted by bytes. To find the longest one at a place of the text,
 * the range of patterns that agree so far is narrowed byte by byte with two binary
 * searches, as in a trie that was never built: a few comparisons for the handful of
 * tokens that a vocabulary has, and still O(length log count) for thousands. Most places
 * are passed over before that: memchr for the one first byte that all patterns share ('<'
 * for RoBERTa), or a table of first bytes.
 *
 *   text      a <mask>  b        <mask> has lstrip: it takes the space before it
 *   pieces    "a" | " <mask>" | "  b"
 *
 * A scan gives pieces in order and holds one token back while it gives the text before
 * it. */
#include "tokenizer/added.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/unicode.h"

struct added_pattern {
    char *text; /* owned */
    size_t length, token;
};

static enum status no_memory(struct error *err) {
    return error_set(err, ERR_MEMORY, "out of memory for the added tokens");
}

static char *copy(const char *text, size_t length) {
    char *out = malloc(length + 1);
    if (out) {
        memcpy(out, text, length);
        out[length] = 0;
    }
    return out;
}

static struct added_token *find(const struct added *a, const char *content,
                                size_t length) {
    for (size_t i = 0; i < a->count; i++)
        if (a->tokens[i].length == length &&
            !memcmp(a->tokens[i].content, content, length))
            return &a->tokens[i];
    return NULL;
}

const struct added_token *added_find(const struct added *a, const char *content,
                                     size_t length) {
    return find(a, content, length);
}

enum status added_add(struct added *a, const struct added_token *token,
                      struct error *err) {
    struct added_token *known = find(a, token->content, token->length);
    if (known) {
        char *content = known->content;
        *known = *token;
        known->content = content;
        return OK;
    }
    if (a->count == a->capacity) {
        size_t capacity = a->capacity ? 2 * a->capacity : 8;
        struct added_token *tokens = realloc(a->tokens, capacity * sizeof *tokens);
        if (!tokens)
            return no_memory(err);
        a->tokens = tokens;
        a->capacity = capacity;
    }
    struct added_token *new = &a->tokens[a->count];
    *new = *token;
    new->content = copy(token->content, token->length);
    if (!new->content)
        return no_memory(err);
    a->count++;
    return OK;
}

static void free_set(struct added_set *set) {
    for (size_t i = 0; i < set->count; i++)
        free(set->patterns[i].text);
    free(set->patterns);
    *set = (struct added_set){0};
}

void added_free(struct added *a) {
    for (size_t i = 0; i < a->count; i++)
        free(a->tokens[i].content);
    free(a->tokens);
    free_set(&a->raw);
    free_set(&a->normalized);
    *a = (struct added){0};
}

/* By bytes, a prefix before what it begins; the later of two equal ones first, as it is
 * the one that counts. */
static int by_text(const void *a, const void *b) {
    const struct added_pattern *x = a, *y = b;
    size_t shorter = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->text, y->text, shorter);
    if (order || x->length != y->length)
        return order ? order : x->length < y->length ? -1 : 1;
    return x->token > y->token ? -1 : 1;
}

/* Sorts the patterns and notes how they start. */
static void finish_set(struct added_set *set) {
    if (set->count)
        qsort(set->patterns, set->count, sizeof *set->patterns, by_text);
    int starts = 0;
    for (size_t i = 0; i < set->count; i++) {
        unsigned char first = (unsigned char)set->patterns[i].text[0];
        starts += !set->starts[first];
        set->starts[first] = true;
        set->only_start = first;
    }
    if (starts != 1)
        set->only_start = -1;
}

enum status added_build(struct added *a,
                        enum status (*normalize)(void *self, const char *text,
                                                 size_t length, char **out,
                                                 size_t *out_length, struct error *err),
                        void *self, struct error *err) {
    struct added_set *sets[] = {&a->raw, &a->normalized};
    for (int i = 0; i < 2; i++) {
        free_set(sets[i]);
        sets[i]->patterns = calloc(a->count + 1, sizeof *sets[i]->patterns);
        if (!sets[i]->patterns)
            return no_memory(err);
    }
    for (size_t i = 0; i < a->count; i++) {
        const struct added_token *t = &a->tokens[i];
        struct added_set *set = sets[t->normalized];
        struct added_pattern p = {.token = i, .length = t->length};
        if (t->normalized && normalize)
            TRY(normalize(self, t->content, t->length, &p.text, &p.length, err));
        else
            p.text = copy(t->content, t->length);
        if (!p.text)
            return no_memory(err);
        if (p.length)
            set->patterns[set->count++] = p;
        else
            free(p.text);
    }
    finish_set(&a->raw);
    finish_set(&a->normalized);
    return OK;
}

/* The first of patterns[low..high) whose byte at `depth` is at least `byte`. */
static size_t lower_bound(const struct added_set *set, size_t low, size_t high,
                          size_t depth, int byte) {
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((unsigned char)set->patterns[middle].text[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest pattern that the text at `at` begins with, NULL when none. */
static const struct added_pattern *longest_at(const struct added_set *set,
                                              const unsigned char *text, size_t length,
                                              size_t at) {
    const struct added_pattern *best = NULL;
    size_t low = 0, high = set->count;
    for (size_t depth = 0; low < high; depth++) {
        if (set->patterns[low].length == depth)
            best = &set->patterns[low];
        while (low < high && set->patterns[low].length == depth)
            low++;
        if (at + depth == length)
            break;
        low = lower_bound(set, low, high, depth, text[at + depth]);
        high = lower_bound(set, low, high, depth, text[at + depth] + 1);
    }
    return best;
}

/* The next match at or after `at`, which is moved to where it starts. */
static const struct added_pattern *search(const struct added_set *set,
                                          const unsigned char *text, size_t length,
                                          size_t *at) {
    if (!set->count)
        return NULL;
    for (; *at < length; ++*at) {
        if (set->only_start >= 0) {
            const unsigned char *start =
                memchr(text + *at, set->only_start, length - *at);
            if (!start)
                return NULL;
            *at = (size_t)(start - text);
        } else if (!set->starts[text[*at]]) {
            continue;
        }
        const struct added_pattern *p = longest_at(set, text, length, *at);
        if (p)
            return p;
    }
    return NULL;
}

/* Where the character that ends at `at` starts. */
static size_t character_before(const unsigned char *text, size_t at) {
    size_t start = at - 1;
    while (start > 0 && at - start < 4 && (text[start] & 0xC0) == 0x80)
        start--;
    uint32_t code;
    return unicode_decode(text + start, at - start, &code) == at - start ? start : at - 1;
}

static uint32_t code_at(const unsigned char *text, size_t at, size_t end, size_t *bytes) {
    uint32_t code;
    *bytes = unicode_decode(text + at, end - at, &code);
    return code;
}

static bool stands_alone(const struct added_scan *s, size_t start, size_t end) {
    size_t bytes;
    if (start > 0) {
        size_t before = character_before(s->text, start);
        uint32_t code = code_at(s->text, before, start, &bytes);
        if (code != UNICODE_BAD && unicode_is_word(code))
            return false;
    }
    if (end == s->length)
        return true;
    uint32_t code = code_at(s->text, end, s->length, &bytes);
    return code == UNICODE_BAD || !unicode_is_word(code);
}

static size_t strip_left(const unsigned char *text, size_t start) {
    while (start > 0) {
        size_t bytes, before = character_before(text, start);
        uint32_t code = code_at(text, before, start, &bytes);
        if (code == UNICODE_BAD || unicode_class(code) != UNICODE_SPACE)
            break;
        start = before;
    }
    return start;
}

static size_t strip_right(const unsigned char *text, size_t end, size_t length) {
    while (end < length) {
        size_t bytes;
        uint32_t code = code_at(text, end, length, &bytes);
        if (code == UNICODE_BAD || unicode_class(code) != UNICODE_SPACE)
            break;
        end += bytes;
    }
    return end;
}

/* The next match that counts, with the whitespace it takes. The search goes on after the
 * bare match, so a token may start inside whitespace already taken: then pieces overlap,
 * as they do in Hugging Face tokenizers. */
static bool next_match(struct added_scan *s, struct added_piece *match) {
    const struct added_pattern *p;
    while ((p = search(s->set, s->text, s->length, &s->searched)) != NULL) {
        size_t start = s->searched, end = start + p->length;
        const struct added_token *token = &s->added->tokens[p->token];
        s->searched = end;
        if (token->single_word && !stands_alone(s, start, end))
            continue;
        if (token->lstrip) {
            size_t left = strip_left(s->text, start);
            start = left > s->done ? left : s->done;
        }
        if (token->rstrip)
            end = strip_right(s->text, end, s->length);
        *match = (struct added_piece){token, start, end};
        return true;
    }
    return false;
}

bool added_next(struct added_scan *s, struct added_piece *piece) {
    struct added_piece match = s->held;
    s->held.token = NULL;
    if (!match.token && !next_match(s, &match)) {
        *piece = (struct added_piece){NULL, s->done, s->length};
        s->done = s->length;
        return piece->start < piece->end;
    }
    if (s->done < match.start) {
        *piece = (struct added_piece){NULL, s->done, match.start};
        s->done = match.start;
        s->held = match;
        return true;
    }
    s->done = match.end;
    *piece = match;
    return true;
}
