/* config_files - tokenizer_config.json, special_tokens_map.json, added_tokens.json.
 *
 * One row a special token says its key and where its id is kept; reading and writing go
 * over the rows. special_tokens_map.json is read before tokenizer_config.json, whose word
 * so is the last; added_tokens.json only adds what neither has. */
#include "tokenizer/config_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_file.h"

/* The names under which special tokens go, and where their ids are kept. */
static const struct {
    const char *key;
    size_t id; /* in struct tokenizer */
    bool of_template;
} specials[] = {
    {"bos_token", offsetof(struct tokenizer, specials.bos), false},
    {"eos_token", offsetof(struct tokenizer, specials.eos), false},
    {"cls_token", offsetof(struct tokenizer, template.cls), true},
    {"sep_token", offsetof(struct tokenizer, template.sep), true},
    {"pad_token", offsetof(struct tokenizer, specials.pad), false},
    {"unk_token", offsetof(struct tokenizer, specials.unk), false},
    {"mask_token", offsetof(struct tokenizer, specials.mask), false},
};
enum { SPECIALS = sizeof specials / sizeof *specials };

static int32_t *special_id(struct tokenizer *t, int i) {
    return (int32_t *)((char *)t + specials[i].id);
}

/* A token written as {"content": ..., flags}. */
static enum status read_flags(const json_t *row, const char *path,
                              struct added_token *token, struct error *err) {
    const char *content;
    TRY(json_file_string(row, path, "content", "", &content, err));
    token->content = (char *)(uintptr_t)content;
    token->length = json_string_length(json_object_get(row, "content"));
    TRY(json_file_boolean(row, path, "lstrip", false, &token->lstrip, err));
    TRY(json_file_boolean(row, path, "rstrip", false, &token->rstrip, err));
    TRY(json_file_boolean(row, path, "single_word", false, &token->single_word, err));
    TRY(json_file_boolean(row, path, "special", token->special, &token->special, err));
    return json_file_boolean(row, path, "normalized", !token->special, &token->normalized,
                             err);
}

/* Not yet searched for: tokenizer_add_tokens() sees to that once, after the last. */
static enum status add(struct tokenizer *t, const char *path,
                       const struct added_token *token, int32_t id, struct error *err) {
    if (tokenizer_add_token_with_id(t, token, id, err) != OK)
        return error_context(err, "%s", path);
    return OK;
}

/* {"50264": {"content": "<mask>", ...}, ...} */
static enum status read_decoder(struct tokenizer *t, const char *path,
                                const json_t *config, struct error *err) {
    const char *key;
    json_t *row;
    json_object_foreach(json_object_get(config, "added_tokens_decoder"), key, row) {
        char *end;
        long id = strtol(key, &end, 10);
        struct added_token token = {0};
        TRY(read_flags(row, path, &token, err));
        if (*end || end == key || id < 0 || id > VOCAB_MAX_ID || !token.length)
            return error_set(err, ERR_INPUT,
                             "%s: added_tokens_decoder: expected ids with tokens, found "
                             "'%s'",
                             path, key);
        TRY(add(t, path, &token, (int32_t)id, err));
    }
    return tokenizer_add_tokens(t, NULL, 0, err);
}

/* {"<mask>": 50264, ...}, the form before tokenizer_config.json had flags. */
static enum status read_added_json(struct tokenizer *t, const char *path, json_t *rows,
                                   struct error *err) {
    const char *content;
    json_t *number;
    json_object_foreach(rows, content, number) {
        json_int_t id = json_is_integer(number) ? json_integer_value(number) : -1;
        struct added_token token = {.content = (char *)(uintptr_t)content,
                                    .length = strlen(content),
                                    .normalized = true};
        if (id < 0 || id > VOCAB_MAX_ID || !token.length)
            return error_set(err, ERR_INPUT, "%s: expected an id for '%s'", path,
                             content);
        if (!added_find(&t->added, content, token.length))
            TRY(add(t, path, &token, (int32_t)id, err));
    }
    return tokenizer_add_tokens(t, NULL, 0, err);
}

/* A special token by its name: a string, or an object with flags. One that is not yet
 * recognised in text is from now on. */
static enum status read_special(struct tokenizer *t, const char *path,
                                const json_t *value, int i, struct error *err) {
    struct added_token token = {.special = true};
    if (json_is_object(value)) {
        TRY(read_flags(value, path, &token, err));
    } else if (json_is_string(value)) {
        token.content = (char *)(uintptr_t)json_string_value(value);
        token.length = json_string_length(value);
    }
    if (!token.length || (specials[i].of_template && !t->template.present))
        return OK;
    if (!added_find(&t->added, token.content, token.length))
        TRY(tokenizer_add_tokens(t, &token, 1, err));
    *special_id(t, i) = vocab_find(&t->vocab, token.content, token.length);
    return OK;
}

static enum status read_config(struct tokenizer *t, const char *path, json_t *config,
                               struct error *err) {
    bool prefix;
    TRY(json_file_boolean(config, path, "add_prefix_space", t->add_prefix_space, &prefix,
                          err));
    if (prefix != t->add_prefix_space)
        tokenizer_set_add_prefix_space(t, prefix);
    TRY(read_decoder(t, path, config, err));
    for (int i = 0; i < SPECIALS; i++)
        TRY(read_special(t, path, json_object_get(config, specials[i].key), i, err));
    return OK;
}

static const struct {
    const char *name;
    enum status (*read)(struct tokenizer *, const char *, json_t *, struct error *);
} files[CONFIG_FILES] = {{"special_tokens_map.json", read_config},
                         {"tokenizer_config.json", read_config},
                         {"added_tokens.json", read_added_json}};

const char *config_files_name(int i) { return files[i].name; }

static enum status read_one(struct tokenizer *t, const char *directory, int i,
                            struct error *err) {
    char path[PATH_BYTES];
    json_t *value;
    TRY(file_join(path, directory, files[i].name, err));
    if (!file_exists(path))
        return OK;
    TRY(json_file_read(&value, path, err));
    enum status status = json_is_object(value)
                             ? files[i].read(t, path, value, err)
                             : error_set(err, ERR_INPUT, "%s: expected an object", path);
    json_decref(value);
    return status;
}

enum status config_files_read(struct tokenizer *t, const char *directory,
                              struct error *err) {
    for (int i = 0; i < CONFIG_FILES; i++)
        TRY(read_one(t, directory, i, err));
    return OK;
}

/* The flags of an added token; with `special` as tokenizer_config.json has them. */
static json_t *flags_of(const struct added_token *token, bool with_special) {
    json_t *row =
        json_pack("{s:s%, s:b, s:b, s:b, s:b}", "content", token->content, token->length,
                  "lstrip", token->lstrip, "normalized", token->normalized, "rstrip",
                  token->rstrip, "single_word", token->single_word);
    if (row && with_special)
        json_object_set_new(row, "special", json_boolean(token->special));
    return row;
}

/* Puts the names of the special tokens into `out`: strings, or (`rich`) an object where a
 * token has flags of its own. */
static int add_specials(json_t *out, const struct tokenizer *t, bool rich) {
    int failed = 0;
    for (int i = 0; i < SPECIALS; i++) {
        int32_t id = *special_id((struct tokenizer *)(uintptr_t)t, i);
        const char *text = tokenizer_token(t, id);
        if (!text || (specials[i].of_template && !t->template.present))
            continue;
        const struct added_token *token = added_find(&t->added, text, strlen(text));
        bool flagged = rich && token && (token->lstrip || token->rstrip);
        failed |= json_object_set_new(
            out, specials[i].key, flagged ? flags_of(token, false) : json_string(text));
    }
    return failed;
}

/* In the order of ids, as transformers writes them. */
static int add_decoder(json_t *config, const struct tokenizer *t) {
    json_t *decoder = json_object();
    int failed = json_object_set_new(config, "added_tokens_decoder", decoder);
    for (int32_t id = 0; id < t->vocab.size && !failed; id++) {
        if (!vocab_has(&t->vocab, id) || !t->vocab.entries[id].added)
            continue;
        size_t length;
        const char *text = vocab_text(&t->vocab, id, &length);
        char key[16];
        snprintf(key, sizeof key, "%d", id);
        const struct added_token *token = added_find(&t->added, text, length);
        if (token)
            failed |= json_object_set_new(decoder, key, flags_of(token, true));
    }
    return failed;
}

static int fill_config(json_t *config, const struct tokenizer *t) {
    bool roberta = t->template.present;
    int failed = json_object_set_new(config, "add_prefix_space",
                                     json_boolean(t->add_prefix_space));
    failed |= add_decoder(config, t);
    failed |= json_object_set_new(config, "clean_up_tokenization_spaces", json_false());
    failed |= json_object_set_new(config, "errors", json_string("replace"));
    failed |= add_specials(config, t, false);
    failed |= json_object_set_new(
        config, "tokenizer_class",
        json_string(roberta ? "RobertaTokenizer" : "PreTrainedTokenizerFast"));
    if (roberta)
        failed |= json_object_set_new(config, "trim_offsets",
                                      json_boolean(t->template.trim_offsets));
    return failed;
}

static enum status write_one(json_t *value, int failed, const char *directory,
                             const char *name, struct error *err) {
    char path[PATH_BYTES];
    enum status status = file_join(path, directory, name, err);
    if (status == OK && (failed || !value))
        status = error_set(err, ERR_MEMORY, "%s: out of memory", path);
    if (status == OK)
        status = json_file_write(value, path, err);
    json_decref(value);
    return status;
}

enum status config_files_write(const struct tokenizer *t, const char *directory,
                               struct error *err) {
    json_t *config = json_object(), *map = json_object();
    int failed = fill_config(config, t) | add_specials(map, t, true);
    enum status status =
        write_one(config, failed, directory, "tokenizer_config.json", err);
    if (status != OK) {
        json_decref(map);
        return status;
    }
    return write_one(map, failed, directory, "special_tokens_map.json", err);
}
