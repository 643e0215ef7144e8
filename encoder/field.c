/* field - the rows of config.json: name, kind, bounds and place in struct config.
 *
 * Each row stands once and gives: the option or preset word that sets it, the key that is
 * read and written, the bounds, and the comparison by which model_type is chosen. Values
 * live in struct config at the row's offset; the kind says as what type. */
#include "encoder/field.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encoder/norm.h"

#define SIZE(name, least, most) \
    { #name, #name, FIELD_INTEGER, offsetof(struct config, name), least, most, "", false }
#define RATE(name) \
    { #name, #name, FIELD_NUMBER, offsetof(struct config, name), 0, 0.999999, "", false }
#define SWITCH(name, key, kind, least, most, words, help)           \
    {#name, key,  kind,  offsetof(struct config, arrangement.name), \
     least, most, words, true},

const struct field config_fields[] = {
    SIZE(vocab_size, 1, 1e6),         SIZE(hidden_size, 1, 65536),
    SIZE(num_hidden_layers, 1, 1000), SIZE(num_attention_heads, 1, 4096),
    SIZE(intermediate_size, 1, 1e6),  SIZE(max_position_embeddings, 2, 1e6),
    SIZE(type_vocab_size, 1, 1000),   SIZE(pad_token_id, 0, 1e6),
    SIZE(bos_token_id, 0, 1e6),       SIZE(eos_token_id, 0, 1e6),
    RATE(hidden_dropout_prob),        RATE(attention_probs_dropout_prob),
    RATE(classifier_dropout),         CONFIG_SWITCHES(SWITCH){0},
};

/* What a number may be called: functions of the depth L (their papers stand in the rows
 * of config_presets). */
static double alpha_auto(double layers) { return pow(2 * layers, 0.25); }
static double gain_deepnorm(double layers) { return pow(8 * layers, -0.25); }
static double gain_subln(double layers) { return sqrt(log(2 * layers)); }
static double gain_depth(double layers) { return 1 / sqrt(layers); }
static const struct {
    const char *word;
    double (*of)(double layers);
} depth_rules[] = {
    {"auto", alpha_auto},
    {"deepnorm", gain_deepnorm},
    {"subln", gain_subln},
    {"depth", gain_depth},
};

static void *place(const struct field *f, struct config *c) {
    return (char *)c + f->offset;
}
static const void *value(const struct field *f, const struct config *c) {
    return (const char *)c + f->offset;
}

static bool same_name(const char *a, const char *b) {
    for (; *a && *b; a++, b++)
        if (*a != *b && !(*a == '-' && *b == '_'))
            return false;
    return *a == *b;
}

const struct field *field_find(const char *name) {
    for (const struct field *f = config_fields; f->name; f++)
        if (same_name(name, f->name) || same_name(name, f->key))
            return f;
    return NULL;
}

/* Place of `text` in "a|b|c", or -1. */
static int word_index(const char *words, const char *text) {
    size_t length = strlen(text);
    int index = 0;
    for (const char *word = words;; word++, index++) {
        const char *end = strchrnul(word, '|');
        if (length && (size_t)(end - word) == length && !memcmp(word, text, length))
            return index;
        if (!*end)
            return -1;
        word = end;
    }
}

static const char *word_at(const char *words, int index) {
    for (; index > 0; index--)
        words = strchrnul(words, '|') + 1;
    return words;
}

/* `word` ends at a '|' or the end of the text. */
static void format_word(char text[FIELD_TEXT], const char *word) {
    snprintf(text, FIELD_TEXT, "\"%.*s\"", (int)strcspn(word, "|"), word);
}

static int word_count(const char *words) {
    int count = 1;
    for (; *words; words++)
        count += *words == '|';
    return count;
}

static enum status expected(const struct field *f, const char *text, struct error *err) {
    if (f->kind == FIELD_NUMBERS)
        return error_set(err, ERR_USAGE,
                         "%s: expected NAME=X,... of %s, each X in [%g, %g], found "
                         "\"%s\"",
                         f->name, f->words, f->least, f->most, text);
    if (f->kind == FIELD_WORD)
        return error_set(err, ERR_USAGE, "%s: expected %s, found \"%s\"", f->name,
                         f->words, text);
    return error_set(err, ERR_USAGE, "%s: expected %s in [%g, %g]%s%s, found \"%s\"",
                     f->name, f->kind == FIELD_NUMBER ? "a number" : "a whole number",
                     f->least, f->most,
                     *f->words && f->kind == FIELD_NUMBER ? " or " : "",
                     f->kind == FIELD_NUMBER ? f->words : "", text);
}

static enum status parse_norm(const struct field *f, struct config *c, const char *text,
                              struct error *err) {
    const struct norm_kind *kind = norm_find(text);
    if (kind) {
        *(const struct norm_kind **)place(f, c) = kind;
        return OK;
    }
    char known[256] = "";
    for (int i = 0; norm_kinds[i]; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? "|" : "",
                 norm_kinds[i]->name);
    }
    return error_set(err, ERR_USAGE, "%s: expected %s, found \"%s\"", f->name, known,
                     text);
}

/* A word is resolved at once to the number for this depth: a checkpoint says what was
 * used, not how it was called. */
static enum status parse_number(const struct field *f, struct config *c, const char *text,
                                struct error *err) {
    if (word_index(f->words, text) >= 0)
        for (size_t i = 0; i < sizeof depth_rules / sizeof *depth_rules; i++)
            if (!strcmp(depth_rules[i].word, text)) {
                *(double *)place(f, c) = depth_rules[i].of((double)c->num_hidden_layers);
                return OK;
            }
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !(number >= f->least && number <= f->most))
        return expected(f, text, err);
    *(double *)place(f, c) = number;
    return OK;
}

/* Integers and flags. */
static enum status parse_whole(const struct field *f, struct config *c, const char *text,
                               struct error *err) {
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (f->kind == FIELD_FLAG && (!strcmp(text, "true") || !strcmp(text, "false")))
        number = *text == 't', end = "";
    if (end == text || *end || errno || (double)number < f->least ||
        (double)number > f->most)
        return expected(f, text, err);
    if (f->kind == FIELD_FLAG)
        *(bool *)place(f, c) = number;
    else
        *(int64_t *)place(f, c) = number;
    return OK;
}

/* "name=number,..."; names may be left out: the first number is the first name's. */
static enum status parse_numbers(const struct field *f, struct config *c,
                                 const char *text, struct error *err) {
    char copy[FIELD_TEXT], *rest = copy;
    int index = 0;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *item; (item = strtok_r(rest, ",", &rest)); index++) {
        char *equals = strchr(item, '='), *end;
        const char *number = equals ? equals + 1 : item;
        if (equals) {
            *equals = 0;
            index = word_index(f->words, item);
        }
        const double found = strtod(number, &end);
        if (index < 0 || index >= word_count(f->words) || end == number || *end ||
            !(found >= f->least && found <= f->most))
            return expected(f, text, err);
        ((double *)place(f, c))[index] = found;
    }
    return OK;
}

enum status field_parse(const struct field *f, struct config *c, const char *text,
                        struct error *err) {
    if (f->kind == FIELD_NORM)
        return parse_norm(f, c, text, err);
    if (f->kind == FIELD_NUMBER)
        return parse_number(f, c, text, err);
    if (f->kind == FIELD_NUMBERS)
        return parse_numbers(f, c, text, err);
    if (f->kind != FIELD_WORD)
        return parse_whole(f, c, text, err);
    int index = word_index(f->words, text);
    if (index < 0)
        return expected(f, text, err);
    *(int *)place(f, c) = index;
    return OK;
}

/* The fewest digits that read back as the same double, with a point or exponent so that
 * readers take it for a real. */
static void format_number(char text[FIELD_TEXT], double number) {
    for (int digits = 1; digits <= DBL_DECIMAL_DIG; digits++) {
        snprintf(text, FIELD_TEXT, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    if (!strpbrk(text, ".e"))
        strcat(text, ".0");
}

/* {"name": number, ...} of those that are set. */
static void format_numbers(char text[FIELD_TEXT], const char *words,
                           const double *numbers) {
    const char *between = "{";
    text[0] = 0;
    for (int i = 0; i < word_count(words); i++) {
        const char *word = word_at(words, i);
        char number[FIELD_TEXT];
        const size_t used = strlen(text);
        if (isnan(numbers[i]))
            continue;
        format_number(number, numbers[i]);
        snprintf(text + used, FIELD_TEXT - used, "%s\"%.*s\": %s", between,
                 (int)strcspn(word, "|"), word, number);
        between = ", ";
    }
    strcat(text, *text ? "}" : "{}");
}

const char *field_format(const struct field *f, const struct config *c,
                         char text[FIELD_TEXT]) {
    const void *v = value(f, c);
    if (f->kind == FIELD_NORM)
        format_word(text, (*(const struct norm_kind *const *)v)->name);
    else if (f->kind == FIELD_INTEGER)
        snprintf(text, FIELD_TEXT, "%lld", (long long)*(const int64_t *)v);
    else if (f->kind == FIELD_FLAG)
        snprintf(text, FIELD_TEXT, "%d", *(const bool *)v);
    else if (f->kind == FIELD_WORD)
        format_word(text, word_at(f->words, *(const int *)v));
    else if (f->kind == FIELD_NUMBERS)
        format_numbers(text, f->words, v);
    else if (isnan(*(const double *)v))
        snprintf(text, FIELD_TEXT, "null");
    else
        format_number(text, *(const double *)v);
    return text;
}

bool field_equal(const struct field *f, const struct config *a, const struct config *b) {
    char text_a[FIELD_TEXT], text_b[FIELD_TEXT];
    return !strcmp(field_format(f, a, text_a), field_format(f, b, text_b));
}

/* NaN is classifier_dropout's "not set". */
enum status field_check(const struct field *f, const struct config *c,
                        struct error *err) {
    double number;
    if (f->kind == FIELD_INTEGER)
        number = (double)*(const int64_t *)value(f, c);
    else if (f->kind == FIELD_NUMBER)
        number = *(const double *)value(f, c);
    else
        return OK;
    char text[FIELD_TEXT];
    bool unset =
        isnan(number) && f->offset == offsetof(struct config, classifier_dropout);
    return unset || (number >= f->least && number <= f->most)
               ? OK
               : expected(f, field_format(f, c, text), err);
}
