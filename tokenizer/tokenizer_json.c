/* tokenizer_json - tokenizer.json of Hugging Face tokenizers, for byte-level BPE.
 *
 * The file is 1 to 10 MB of which vocabulary and merges are all but a few kB. So it is
 * mapped first: where each section begins and ends. Then the model is scanned in place,
 * and the small sections go to jansson one by one.
 *
 * Every key that changes what is encoded is looked at: it is taken over, or has the one
 * value that byte-level BPE works with, or is refused with its name. A tokenizer that
 * would give other ids than Hugging Face's is worse than none.
 *
 * ignore_merges (a word in the vocabulary is that token, merges or not) is accepted where
 * it makes no difference: where merges reach every token. */
#include "tokenizer/tokenizer_json.h"

#include <string.h>

#include "base/file.h"
#include "base/json_file.h"
#include "tokenizer/json_scan.h"
#include "tokenizer/vocab_file.h"

/* A section of the file: where its text is; length 0 when it is not there. */
struct section {
    const char *key;
    size_t start, length;
};

static struct section *find_section(struct section *sections, size_t count,
                                    struct json_text key) {
    for (size_t i = 0; i < count; i++)
        if (strlen(sections[i].key) == key.length &&
            !memcmp(sections[i].key, key.data, key.length))
            return &sections[i];
    return NULL;
}

/* Notes where the members of an object are. Members that are not listed are passed over;
 * one that is there twice is an error. */
static enum status map_object(struct json_scan *s, struct section *sections, size_t count,
                              struct error *err) {
    TRY(json_scan_need(s, '{', err));
    bool first = true, more;
    for (;;) {
        struct json_text key;
        size_t start;
        TRY(json_scan_next(s, '}', &first, &more, err));
        if (!more)
            return OK;
        TRY(json_scan_string(s, &key, err));
        struct section *section = find_section(sections, count, key);
        TRY(json_scan_need(s, ':', err));
        TRY(json_scan_skip(s, &start, err));
        if (!section)
            continue;
        if (section->length)
            return error_set(err, ERR_INPUT, "%s: byte %zu: '%s' is there twice", s->path,
                             start, section->key);
        section->start = start;
        section->length = s->at - start;
    }
}

/* A section as a document of its own; NULL when it is not there or null. */
static enum status section_value(const struct json_scan *s, const struct section *section,
                                 json_t **out, struct error *err) {
    *out = NULL;
    const char *text = s->text + section->start;
    if (!section->length || (section->length == 4 && !memcmp(text, "null", 4)))
        return OK;
    if (json_file_parse(out, s->path, text, section->length, err) != OK)
        return error_context(err, "section '%s'", section->key);
    return OK;
}

/* One merge: ["a", "b"], or "a b". */
static enum status scan_merge(struct json_scan *s, struct tokenizer *t,
                              struct buffer *left, struct error *err) {
    struct json_text text;
    if (!json_scan_take(s, '[')) {
        TRY(json_scan_string(s, &text, err));
        const char *space = memchr(text.data, ' ', text.length);
        size_t length = space ? (size_t)(space - text.data) : 0;
        size_t rest = space ? text.length - length - 1 : 0;
        if (!length || !rest || memchr(space + 1, ' ', rest))
            return error_set(
                err, ERR_INPUT,
                "expected two tokens and one space between them, found '%.*s'",
                (int)(text.length < 200 ? text.length : 200), text.data);
        return bpe_add_merge(&t->bpe, &t->vocab, text.data, length, space + 1, rest, err);
    }
    TRY(json_scan_string(s, &text, err));
    buffer_clear(left);
    TRY(buffer_add(left, text.data, text.length, err));
    TRY(json_scan_need(s, ',', err));
    TRY(json_scan_string(s, &text, err));
    TRY(json_scan_need(s, ']', err));
    return bpe_add_merge(&t->bpe, &t->vocab, left->data, left->length, text.data,
                         text.length, err);
}

/* Merges in their order: the place in the list is the rank. */
static enum status scan_merges(struct json_scan *s, struct tokenizer *t,
                               struct buffer *left, struct error *err) {
    bool first = true, more;
    TRY(json_scan_need(s, '[', err));
    for (;;) {
        TRY(json_scan_next(s, ']', &first, &more, err));
        if (!more)
            return OK;
        if (scan_merge(s, t, left, err) != OK)
            return error_context(err, "%s: byte %zu", s->path, s->at);
    }
}

/* The section is absent, or its text is one of those accepted, as it stands in the file.
 */
static enum status expect_text(const struct json_scan *s, const struct section *section,
                               const char *const *accepted, const char *expected,
                               struct error *err) {
    if (!section->length)
        return OK;
    for (; *accepted; accepted++)
        if (strlen(*accepted) == section->length &&
            !memcmp(*accepted, s->text + section->start, section->length))
            return OK;
    return error_set(err, ERR_INPUT, "%s: model: %s: expected %s, found %.*s", s->path,
                     section->key, expected,
                     (int)(section->length < 80 ? section->length : 80),
                     s->text + section->start);
}

enum {
    TYPE,
    DROPOUT,
    UNK,
    PREFIX,
    SUFFIX,
    FUSE,
    FALLBACK,
    IGNORE,
    VOCAB,
    MERGES,
    MODEL_KEYS
};

static bool is_true(const struct json_scan *s, const struct section *section) {
    return section->length == 4 && !memcmp(s->text + section->start, "true", 4);
}

/* Refuses what would encode otherwise than byte-level BPE does here. */
static enum status check_model(const struct json_scan *s, const struct section *m,
                               struct error *err) {
    static const char *const bpe[] = {"\"BPE\"", NULL};
    static const char *const none[] = {"null", "\"\"", "0", "0.0", "false", NULL};
    static const char *const flag[] = {"true", "false", NULL};
    TRY(expect_text(s, &m[TYPE], bpe, "\"BPE\"", err));
    static const int absent[] = {DROPOUT, PREFIX, SUFFIX, FALLBACK};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        TRY(expect_text(s, &m[absent[i]], none, "none (byte-level BPE has none)", err));
    TRY(expect_text(s, &m[FUSE], flag, "true or false", err));
    TRY(expect_text(s, &m[IGNORE], flag, "true or false", err));
    if (m[VOCAB].length && m[MERGES].length)
        return OK;
    return error_set(err, ERR_INPUT, "%s: model: expected vocab and merges, found no %s",
                     s->path, m[VOCAB].length ? "merges" : "vocab");
}

/* What a byte that is no token becomes. null: it vanishes, as Hugging Face has it. */
static enum status read_unk(struct json_scan *s, struct tokenizer *t,
                            const struct section *section, struct error *err) {
    if (!section->length || s->text[section->start] == 'n')
        return OK;
    struct json_text text;
    s->at = section->start;
    TRY(json_scan_string(s, &text, err));
    t->bpe.unk = vocab_find(&t->vocab, text.data, text.length);
    if (t->bpe.unk < 0)
        return error_set(
            err, ERR_INPUT,
            "%s: model: unk_token: expected a token of the vocabulary, found "
            "'%.*s'",
            s->path, (int)(text.length < 80 ? text.length : 80), text.data);
    return OK;
}

/* Vocabulary before merges, whatever their order in the file: merges name its tokens. */
static enum status read_model(struct json_scan *s, const struct section *model,
                              struct tokenizer *t, bool *ignore_merges,
                              struct error *err) {
    struct section m[MODEL_KEYS] = {[TYPE] = {.key = "type"},
                                    [DROPOUT] = {.key = "dropout"},
                                    [UNK] = {.key = "unk_token"},
                                    [PREFIX] = {.key = "continuing_subword_prefix"},
                                    [SUFFIX] = {.key = "end_of_word_suffix"},
                                    [FUSE] = {.key = "fuse_unk"},
                                    [FALLBACK] = {.key = "byte_fallback"},
                                    [IGNORE] = {.key = "ignore_merges"},
                                    [VOCAB] = {.key = "vocab"},
                                    [MERGES] = {.key = "merges"}};
    s->at = model->start;
    TRY(map_object(s, m, MODEL_KEYS, err));
    TRY(check_model(s, m, err));
    s->at = m[VOCAB].start;
    TRY(vocab_file_scan(s, &t->vocab, err));
    bpe_init(&t->bpe, &t->vocab);
    TRY(read_unk(s, t, &m[UNK], err));
    t->bpe.fuse_unk = is_true(s, &m[FUSE]);
    t->json_null_affixes =
        m[PREFIX].length == 4 && !memcmp(s->text + m[PREFIX].start, "null", 4);
    s->at = m[MERGES].start;
    struct buffer left = {0};
    enum status status = scan_merges(s, t, &left, err);
    buffer_free(&left);
    TRY(status);
    TRY(tokenizer_ready(t, err));
    *ignore_merges = is_true(s, &m[IGNORE]);
    return OK;
}

static enum status read_added(struct tokenizer *t, const char *path, const json_t *row,
                              struct error *err) {
    struct added_token token = {0};
    const char *content;
    int64_t id;
    TRY(json_file_string(row, path, "content", "", &content, err));
    TRY(json_file_integer(row, path, "id", 0, VOCAB_MAX_ID, -1, &id, err));
    TRY(json_file_boolean(row, path, "single_word", false, &token.single_word, err));
    TRY(json_file_boolean(row, path, "lstrip", false, &token.lstrip, err));
    TRY(json_file_boolean(row, path, "rstrip", false, &token.rstrip, err));
    TRY(json_file_boolean(row, path, "special", false, &token.special, err));
    TRY(json_file_boolean(row, path, "normalized", !token.special, &token.normalized,
                          err));
    token.content = (char *)(uintptr_t)content;
    token.length = json_string_length(json_object_get(row, "content"));
    if (!token.length || id < 0)
        return error_set(err, ERR_INPUT,
                         "%s: added_tokens: expected entries with content and id", path);
    if (tokenizer_add_token_with_id(t, &token, (int32_t)id, err) != OK)
        return error_context(err, "%s: added_tokens", path);
    return OK;
}

static enum status read_added_tokens(struct tokenizer *t, const char *path,
                                     const json_t *list, struct error *err) {
    if (!list)
        return OK;
    if (!json_is_array(list))
        return error_set(err, ERR_INPUT, "%s: added_tokens: expected an array", path);
    size_t index;
    json_t *row;
    json_array_foreach(list, index, row) TRY(read_added(t, path, row, err));
    return tokenizer_add_tokens(t, NULL, 0, err);
}

/* Sequences may stand in sequences; their steps are one list. The reader has bounded how
 * deep they nest. */
static enum status read_normalizer(struct tokenizer *t, const char *path,
                                   const json_t *value, struct error *err) {
    const char *type;
    if (!value)
        return OK;
    TRY(json_file_string(value, path, "type", "", &type, err));
    if (strcmp(type, "Sequence")) {
        if (tokenizer_add_normalizer(t, type, err) != OK)
            return error_context(err, "%s: normalizer", path);
        return OK;
    }
    size_t index;
    json_t *step;
    json_array_foreach(json_object_get(value, "normalizers"), index, step)
        TRY(read_normalizer(t, path, step, err));
    return OK;
}

/* ByteLevel itself, or a Sequence of it alone. With use_regex false words would be cut
 * otherwise, or not at all. */
static enum status read_pre_tokenizer(struct tokenizer *t, const char *path,
                                      const json_t *value, struct error *err) {
    const json_t *steps = json_object_get(value, "pretokenizers");
    const json_t *level = json_array_size(steps) == 1 ? json_array_get(steps, 0) : value;
    const char *type = "none";
    bool use_regex = true, add_prefix_space = true;
    if (level) {
        TRY(json_file_string(level, path, "type", "", &type, err));
        TRY(json_file_boolean(level, path, "use_regex", true, &use_regex, err));
        TRY(json_file_boolean(level, path, "add_prefix_space", true, &add_prefix_space,
                              err));
    }
    if (strcmp(type, "ByteLevel") || !use_regex)
        return error_set(err, ERR_INPUT,
                         "%s: pre_tokenizer: expected ByteLevel with its own splitting, "
                         "found %s%s",
                         path, type, use_regex ? "" : " without");
    t->add_prefix_space = add_prefix_space;
    return OK;
}

/* The [content, id] pair under `key` of RobertaProcessing. */
static enum status read_frame_token(const struct tokenizer *t, const char *path,
                                    const json_t *value, const char *key, int32_t *id,
                                    struct error *err) {
    const json_t *pair = json_object_get(value, key);
    const json_t *number = json_array_get(pair, 1);
    json_int_t found = json_is_integer(number) ? json_integer_value(number) : -1;
    if (found < 0 || found >= t->vocab.size || !vocab_has(&t->vocab, (int32_t)found))
        return error_set(err, ERR_INPUT,
                         "%s: post_processor: %s: expected [token, id] of the vocabulary",
                         path, key);
    *id = (int32_t)found;
    return OK;
}

/* Defaults where a key is absent are those of the package, not of RoBERTa's files. */
static enum status read_roberta(struct tokenizer *t, const char *path,
                                const json_t *value, struct error *err) {
    struct template *frame = &t->template;
    frame->present = true;
    TRY(read_frame_token(t, path, value, "sep", &frame->sep, err));
    TRY(read_frame_token(t, path, value, "cls", &frame->cls, err));
    TRY(json_file_boolean(value, path, "trim_offsets", true, &frame->trim_offsets, err));
    return json_file_boolean(value, path, "add_prefix_space", true,
                             &frame->add_prefix_space, err);
}

/* Spells a TemplateProcessing list out: "S" for a special token, "A" and "B"; the ids of
 * the first and the last special token. */
static void spell_template(const struct tokenizer *t, const json_t *list, char out[8],
                           int32_t *cls, int32_t *sep) {
    size_t index, used = 0;
    json_t *piece;
    *cls = *sep = -1;
    json_array_foreach(list, index, piece) {
        const json_t *special = json_object_get(piece, "SpecialToken");
        const json_t *any = special ? special : json_object_get(piece, "Sequence");
        const char *id = json_string_value(json_object_get(any, "id"));
        bool typed = json_integer_value(json_object_get(any, "type_id")) != 0;
        if (used == 7)
            break;
        out[used++] = typed || !id ? '?' : special ? 'S' : id[0];
        if (!special || !id)
            continue;
        *sep = vocab_find(&t->vocab, id, strlen(id));
        *cls = *cls < 0 ? *sep : *cls;
    }
    out[used] = 0;
}

/* TemplateProcessing can say anything; what RobertaProcessing says is all that a
 * tokenizer here can do. */
static enum status read_template(struct tokenizer *t, const char *path,
                                 const json_t *value, struct error *err) {
    char single[8], pair[8];
    int32_t pair_cls, pair_sep;
    struct template *frame = &t->template;
    spell_template(t, json_object_get(value, "pair"), pair, &pair_cls, &pair_sep);
    spell_template(t, json_object_get(value, "single"), single, &frame->cls, &frame->sep);
    frame->present = true;
    if (strcmp(single, "SAS") || strcmp(pair, "SASSBS") || frame->cls < 0 ||
        frame->sep < 0 || pair_cls != frame->cls || pair_sep != frame->sep)
        return error_set(err, ERR_INPUT,
                         "%s: post_processor: expected a template <s> A </s> and <s> A "
                         "</s></s> B </s> with all type ids 0, found %s and %s",
                         path, single, pair);
    return OK;
}

static enum status read_post_processor(struct tokenizer *t, const char *path,
                                       const json_t *value, struct error *err) {
    const char *type;
    if (!value)
        return OK;
    TRY(json_file_string(value, path, "type", "", &type, err));
    if (!strcmp(type, "RobertaProcessing"))
        return read_roberta(t, path, value, err);
    if (!strcmp(type, "TemplateProcessing"))
        return read_template(t, path, value, err);
    if (!strcmp(type, "ByteLevel")) {
        TRY(json_file_boolean(value, path, "add_prefix_space", true,
                              &t->template.add_prefix_space, err));
        return json_file_boolean(value, path, "trim_offsets", true,
                                 &t->template.trim_offsets, err);
    }
    if (strcmp(type, "Sequence"))
        return error_set(err, ERR_INPUT,
                         "%s: post_processor: expected RobertaProcessing, ByteLevel or "
                         "TemplateProcessing, found %s",
                         path, type);
    size_t index;
    json_t *step;
    json_array_foreach(json_object_get(value, "processors"), index, step)
        TRY(read_post_processor(t, path, step, err));
    return OK;
}

/* What reads a section, as a row of the table in read_sections(). */
typedef enum status section_reader(struct tokenizer *t, const char *path,
                                   const json_t *value, struct error *err);

enum { MODEL, ADDED, NORMALIZER, PRE, POST, DECODER, TOP_KEYS };

static enum status read_sections(struct json_scan *s, const struct section *top,
                                 struct tokenizer *t, struct error *err) {
    /* The normalizer decides in which form added tokens are searched, so it is first. */
    static const struct {
        int key;
        section_reader *read;
    } rows[] = {{NORMALIZER, read_normalizer},
                {ADDED, read_added_tokens},
                {PRE, read_pre_tokenizer},
                {POST, read_post_processor}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *value;
        TRY(section_value(s, &top[rows[i].key], &value, err));
        enum status status = rows[i].read(t, s->path, value, err);
        json_decref(value);
        TRY(status);
    }
    t->json_null_decoder = top[DECODER].length == 4;
    return OK;
}

static enum status read_document(struct json_scan *s, struct tokenizer *t,
                                 struct error *err) {
    struct section top[TOP_KEYS] = {
        [MODEL] = {.key = "model"},           [ADDED] = {.key = "added_tokens"},
        [NORMALIZER] = {.key = "normalizer"}, [PRE] = {.key = "pre_tokenizer"},
        [POST] = {.key = "post_processor"},   [DECODER] = {.key = "decoder"}};
    TRY(map_object(s, top, TOP_KEYS, err));
    TRY(json_scan_end(s, err));
    if (!top[MODEL].length)
        return error_set(err, ERR_INPUT, "%s: expected a 'model', found none", s->path);
    bool ignore_merges;
    TRY(read_model(s, &top[MODEL], t, &ignore_merges, err));
    TRY(read_sections(s, top, t, err));
    /* A word that is a token is that token: always so where merges reach all tokens. */
    int32_t unreachable = tokenizer_facts(t).unreachable;
    if (ignore_merges && unreachable)
        return error_set(
            err, ERR_INPUT,
            "%s: model: ignore_merges: expected false, as merges do not reach "
            "%d tokens, found true",
            s->path, unreachable);
    tokenizer_name_specials(t);
    return OK;
}

enum status tokenizer_json_parse(struct tokenizer *t, const char *path, const char *text,
                                 size_t length, struct error *err) {
    struct json_scan s = {.path = path, .text = text, .length = length};
    enum status status = read_document(&s, t, err);
    json_scan_close(&s);
    return status;
}

enum status tokenizer_json_read(struct tokenizer *t, const char *path,
                                struct error *err) {
    struct buffer text = {0};
    enum status status = file_read(&text, path, VOCAB_FILE_LIMIT, err);
    if (status == OK)
        status = tokenizer_json_parse(t, path, text.data, text.length, err);
    buffer_free(&text);
    return status;
}
