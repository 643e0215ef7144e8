/* normalizer - optional Unicode normalisation before tokenisation.
 *
 * utf8proc maps a whole string and tells nothing of where a character came from. So the
 * text is cut into clusters that cannot influence each other under composition, each is
 * mapped on its own, and all bytes of the result get the cluster's place in the source as
 * their origin. A cluster of one ASCII byte, nearly all, is copied. Where the cut is
 * finer than the mapping (jamo), rules here join what utf8proc's grapheme clusters part.
 *
 * Steps run one after the other, each from the last one's text and origins: the origins
 * stay places in the source, whatever was done before. */
#include "tokenizer/normalizer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>

#include "tokenizer/unicode.h"

/* Row i describes form i. */
static const struct {
    const char *name;
    utf8proc_option_t options;
} forms[] = {
    {"NFC", UTF8PROC_STABLE | UTF8PROC_COMPOSE},
    {"NFD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
    {"NFKC", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
    {"NFKD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT},
    {"Lowercase", 0},
};
enum { FORM_COUNT = sizeof forms / sizeof *forms };

const char *normalizer_name(enum normalizer_form form) { return forms[form].name; }

enum status normalizer_add(struct normalizer *n, const char *name, struct error *err) {
    int form = 0;
    while (form < FORM_COUNT && strcasecmp(name, forms[form].name))
        form++;
    if (form == FORM_COUNT)
        return error_set(err, ERR_INPUT,
                         "expected a normalizer NFC, NFD, NFKC, NFKD or Lowercase, found "
                         "'%s'",
                         name);
    if (n->count == (int)(sizeof n->steps / sizeof *n->steps))
        return error_set(err, ERR_INPUT, "more than %d normalizers", n->count);
    n->steps[n->count++] = (enum normalizer_form)form;
    return OK;
}

void normalized_free(struct normalized *n) {
    buffer_free(&n->text);
    free(n->origins);
    *n = (struct normalized){0};
}

/* Adds bytes that all stand for the same part of the source. */
static enum status add(struct normalized *out, const void *bytes, size_t length,
                       struct origin origin, struct error *err) {
    size_t start = out->text.length;
    TRY(buffer_add(&out->text, bytes, length, err));
    if (out->text.length > out->capacity) {
        size_t capacity = 2 * out->text.length + 64;
        struct origin *origins = realloc(out->origins, capacity * sizeof *origins);
        if (!origins)
            return error_set(err, ERR_MEMORY, "out of memory for a normalised text");
        out->origins = origins;
        out->capacity = capacity;
    }
    for (size_t i = start; i < out->text.length; i++)
        out->origins[i] = origin;
    return OK;
}

/* Compatibility jamo are letters of their own, but become jamo that compose. */
static bool is_compatibility_jamo(uint32_t code) {
    return (code >= 0x3131 && code <= 0x318E) || (code >= 0xFFA0 && code <= 0xFFDC);
}

static bool is_jamo(uint32_t code) {
    return (code >= 0x1100 && code <= 0x11FF) || is_compatibility_jamo(code);
}

/* Do they, with a jamo or, as a final consonant, with a syllable before? */
static bool jamo_may_compose(uint32_t code, uint32_t next) {
    bool is_syllable = code >= 0xAC00 && code <= 0xD7A3;
    return is_compatibility_jamo(next) ? is_jamo(code) || is_syllable
                                       : is_compatibility_jamo(code) && is_jamo(next);
}

/* The end of the characters from `at` on that normalisation may combine: a grapheme
 * cluster, or a row of jamo. A byte that is no UTF-8 stands alone. */
static size_t cluster_end(const unsigned char *text, size_t at, size_t length,
                          bool *valid) {
    uint32_t code, next;
    size_t end = at + unicode_decode(text + at, length - at, &code);
    utf8proc_int32_t state = 0;
    *valid = code != UNICODE_BAD;
    while (*valid && end < length) {
        size_t bytes = unicode_decode(text + end, length - end, &next);
        if (next == UNICODE_BAD)
            break;
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)code,
                                             (utf8proc_int32_t)next, &state) &&
            !jamo_may_compose(code, next))
            break;
        end += bytes;
        code = next;
    }
    return end;
}

/* Lower case of one character, by the full mapping: U+0130 is the one that gets longer.
 */
static enum status lower(const unsigned char *text, size_t bytes, struct origin origin,
                         struct normalized *out, struct error *err) {
    uint32_t code;
    unicode_decode(text, bytes, &code);
    if (code == 0x130)
        return add(out, "i\xCC\x87", 3, origin, err);
    char utf8[4];
    uint32_t small = (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
    return add(out, utf8, unicode_encode(small, utf8), origin, err);
}

static enum status map_cluster(enum normalizer_form form, const unsigned char *text,
                               size_t length, struct origin origin,
                               struct normalized *out, struct error *err) {
    utf8proc_uint8_t *mapped = NULL;
    utf8proc_ssize_t bytes =
        utf8proc_map(text, (utf8proc_ssize_t)length, &mapped, forms[form].options);
    if (bytes < 0)
        return error_set(err, ERR_MEMORY, "normalisation failed: %s",
                         utf8proc_errmsg(bytes));
    enum status status = add(out, mapped, (size_t)bytes, origin, err);
    free(mapped);
    return status;
}

static enum status apply_step(enum normalizer_form form, const struct normalized *in,
                              struct normalized *out, struct error *err) {
    const unsigned char *text = (const unsigned char *)in->text.data;
    size_t length = in->text.length;
    for (size_t at = 0, end; at < length; at = end) {
        bool valid;
        uint32_t code;
        if (form == NORMALIZER_LOWERCASE) {
            end = at + unicode_decode(text + at, length - at, &code);
            valid = code != UNICODE_BAD;
        } else {
            end = cluster_end(text, at, length, &valid);
        }
        struct origin origin = {in->origins[at].start, in->origins[end - 1].end};
        if (!valid || (end == at + 1 && form != NORMALIZER_LOWERCASE))
            TRY(add(out, text + at, end - at, origin, err));
        else if (form == NORMALIZER_LOWERCASE)
            TRY(lower(text + at, end - at, origin, out, err));
        else
            TRY(map_cluster(form, text + at, end - at, origin, out, err));
    }
    return OK;
}

/* The source as it is: each byte comes from the character it belongs to. */
static enum status copy_source(const unsigned char *text, size_t length,
                               struct normalized *out, struct error *err) {
    for (size_t at = 0, end; at < length; at = end) {
        uint32_t code;
        end = at + unicode_decode(text + at, length - at, &code);
        struct origin origin = {(uint32_t)at, (uint32_t)end};
        TRY(add(out, text + at, end - at, origin, err));
    }
    return OK;
}

enum status normalizer_apply(const struct normalizer *n, const unsigned char *text,
                             size_t length, struct normalized *out, struct error *err) {
    if (length > UINT32_MAX)
        return error_set(err, ERR_INPUT, "a text of more than 4 GiB");
    buffer_clear(&out->text);
    TRY(copy_source(text, length, out, err));
    for (int i = 0; i < n->count; i++) {
        struct normalized next = {0};
        enum status status = apply_step(n->steps[i], out, &next, err);
        normalized_free(status == OK ? out : &next);
        if (status != OK)
            return status;
        *out = next;
    }
    return OK;
}
