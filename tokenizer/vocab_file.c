/* vocab_file - vocab.json, merges.txt and fairseq's dict.txt.
 *
 *   vocab.json   {"<s>":0, ... ,"Ġthe":5}               strings in the byte alphabet
 *   merges.txt   #version: 0.2                          line = rank, but for this one
 *                Ġ t                                    left, one space, right
 *   dict.txt     13 1234567                             GPT-2's id, an unused count
 *
 * Read with the strict scanner: a general JSON library makes 50,000 objects of it and
 * takes 40 ms, which is three times what loading all of the tokenizer takes here. No line
 * of merges can be ambiguous, as no character of the alphabet is a space. */
#include "tokenizer/vocab_file.h"

#include <string.h>

#include "base/file.h"
#include "tokenizer/unicode.h"

enum {
    JSON_BYTES_A_TOKEN = 14, /* at least, in public vocabularies */
    RESERVE_MAX = 1 << 20    /* tokens to make room for before any was seen */
};

enum status vocab_file_scan(struct json_scan *s, struct vocab *v, struct error *err) {
    TRY(json_scan_need(s, '{', err));
    bool first = true, more;
    for (;;) {
        TRY(json_scan_next(s, '}', &first, &more, err));
        if (!more)
            return OK;
        struct json_text token;
        int64_t id;
        TRY(json_scan_string(s, &token, err));
        TRY(json_scan_need(s, ':', err));
        TRY(json_scan_integer(s, &id, err));
        if (vocab_add(v, token.data, token.length, id, err) != OK)
            return error_context(err, "%s: byte %zu", s->path, s->at);
    }
}

enum status vocab_file_read(struct vocab *v, const char *path, struct error *err) {
    struct buffer text = {0};
    struct json_scan s = {.path = path};
    enum status status = file_read(&text, path, VOCAB_FILE_LIMIT, err);
    s.text = text.data;
    s.length = text.length;
    size_t expected = text.length / JSON_BYTES_A_TOKEN;
    if (status == OK)
        status = vocab_reserve(v, expected < RESERVE_MAX ? expected : RESERVE_MAX, err);
    if (status == OK)
        status = vocab_file_scan(&s, v, err);
    if (status == OK)
        status = json_scan_end(&s, err);
    json_scan_close(&s);
    buffer_free(&text);
    return status;
}

/* A text's lines; '\n' ends one, a '\r' before it belongs to the end. */
struct lines {
    const char *text;
    size_t length, at, number;
    const char *line;
    size_t line_length;
};

/* Only 0x0A ends a line: U+2028 and the like may stand inside a token. */
static bool next_line(struct lines *l) {
    if (l->at >= l->length)
        return false;
    const char *start = l->text + l->at, *end = memchr(start, '\n', l->length - l->at);
    l->line = start;
    l->line_length = end ? (size_t)(end - start) : l->length - l->at;
    l->at += l->line_length + 1;
    l->number++;
    if (end && l->line_length && l->line[l->line_length - 1] == '\r')
        l->line_length--;
    return true;
}

/* Hugging Face passes over every line that starts with #version, GPT-2 over the first
 * line whatever it says. No real file tells the two apart. */
static enum status merge_line(struct bpe *b, const struct vocab *v, const struct lines *l,
                              struct error *err) {
    static const char version[] = "#version";
    size_t prefix = sizeof version - 1;
    if (l->line_length >= prefix && !memcmp(l->line, version, prefix))
        return OK;
    const char *space = memchr(l->line, ' ', l->line_length);
    size_t left = space ? (size_t)(space - l->line) : 0;
    size_t right = space ? l->line_length - left - 1 : 0;
    if (!left || !right || memchr(space + 1, ' ', right))
        return error_set(err, ERR_INPUT,
                         "expected two tokens and one space between them, found '%.*s'",
                         (int)(l->line_length < 200 ? l->line_length : 200), l->line);
    return bpe_add_merge(b, v, l->line, left, space + 1, right, err);
}

enum status vocab_file_read_merges(struct bpe *b, const struct vocab *v, const char *path,
                                   struct error *err) {
    struct buffer text = {0};
    enum status status = file_read(&text, path, VOCAB_FILE_LIMIT, err);
    struct lines l = {.text = text.data, .length = text.length};
    if (status == OK) {
        size_t valid = unicode_valid_prefix((unsigned char *)text.data, text.length);
        if (valid < text.length)
            status =
                error_set(err, ERR_INPUT, "%s: byte %zu: expected UTF-8, found 0x%02X",
                          path, valid, (unsigned char)text.data[valid]);
    }
    while (status == OK && next_line(&l)) {
        status = merge_line(b, v, &l, err);
        if (status != OK)
            error_context(err, "%s: line %zu", path, l.number);
    }
    buffer_free(&text);
    return status;
}

/* A decimal number of at most 9 digits that is the whole text; -1 when it is not. */
static int32_t number_of(const char *text, size_t length) {
    int32_t value = length && length <= 9 ? 0 : -1;
    for (size_t i = 0; i < length && value >= 0; i++)
        value = text[i] >= '0' && text[i] <= '9' ? value * 10 + (text[i] - '0') : -1;
    return value;
}

static enum status dict_line(struct vocab *out, const struct vocab *gpt2,
                             const struct lines *l, struct error *err) {
    const char *space = memrchr(l->line, ' ', l->line_length);
    size_t length = space ? (size_t)(space - l->line) : 0;
    size_t digits = space ? l->line_length - length - 1 : 0;
    if (!length || !digits || strspn(space + 1, "0123456789") < digits)
        return error_set(err, ERR_INPUT, "expected '<token> <count>', found '%.*s'",
                         (int)(l->line_length < 200 ? l->line_length : 200), l->line);
    const char *token = l->line;
    int32_t id = number_of(token, length);
    if (id >= 0 && !vocab_has(gpt2, id))
        return error_set(err, ERR_INPUT,
                         "expected an id of the GPT-2 vocabulary, found %d", id);
    if (id >= 0)
        token = vocab_text(gpt2, id, &length);
    return vocab_add(out, token, length, out->size, err);
}

enum status vocab_file_read_dict(struct vocab *out, const struct vocab *gpt2,
                                 const char *path, struct error *err) {
    static const char *const first[] = {"<s>", "<pad>", "</s>", "<unk>"};
    struct buffer text = {0};
    enum status status = file_read(&text, path, VOCAB_FILE_LIMIT, err);
    for (int i = 0; i < 4 && status == OK; i++)
        status = vocab_add(out, first[i], strlen(first[i]), i, err);
    struct lines l = {.text = text.data, .length = text.length};
    while (status == OK && next_line(&l)) {
        status = dict_line(out, gpt2, &l, err);
        if (status != OK)
            error_context(err, "%s: line %zu", path, l.number);
    }
    if (status == OK)
        status = vocab_add(out, "<mask>", strlen("<mask>"), out->size, err);
    buffer_free(&text);
    return status;
}

enum status vocab_file_add_json(struct buffer *out, const struct vocab *v,
                                struct error *err) {
    const char *before = "{";
    for (int32_t id = 0; id < v->size; id++) {
        if (!vocab_has(v, id) || v->entries[id].extra)
            continue;
        size_t length;
        const char *text = vocab_text(v, id, &length);
        TRY(buffer_add(out, before, 1, err));
        TRY(buffer_add_json_string(out, text, length, err));
        TRY(buffer_add(out, ":", 1, err));
        TRY(buffer_add_integer(out, id, err));
        before = ",";
    }
    return buffer_add(out, *before == '{' ? "{}" : "}", *before == '{' ? 2 : 1, err);
}

enum status vocab_file_add_merges(struct buffer *out, const struct vocab *v,
                                  const struct bpe *b, struct error *err) {
    TRY(buffer_print(out, err, "#version: 0.2\n"));
    for (uint32_t rank = 0; rank < b->merge_count; rank++) {
        const struct bpe_merge *m = &b->merges[rank];
        if (m->left < 0)
            continue;
        size_t left_length, right_length;
        const char *left = vocab_text(v, m->left, &left_length);
        const char *right = vocab_text(v, m->right, &right_length);
        TRY(buffer_add(out, left, left_length, err));
        TRY(buffer_add(out, " ", 1, err));
        TRY(buffer_add(out, right, right_length, err));
        TRY(buffer_add(out, "\n", 1, err));
    }
    return OK;
}
