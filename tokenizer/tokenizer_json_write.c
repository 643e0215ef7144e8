/* tokenizer_json_write - tokenizer.json as tokenizers' save() writes it.
 *
 * Key order, spacing and escapes are serde's, so that reading a file and writing it gives
 * the same bytes (the tests do so with the files of the package). Fields whose absence
 * means the same in two spellings are remembered from reading (json_null_*). */
#include <string.h>

#include "tokenizer/encoding.h"
#include "tokenizer/json_print.h"
#include "tokenizer/tokenizer_json.h"

static void print_text(struct json_print *p, const char *key, const char *text) {
    json_print_string(p, key, text, strlen(text));
}

static const char *direction_name(enum direction direction) {
    return direction == DIRECTION_LEFT ? "Left" : "Right";
}

static void print_truncation(struct json_print *p, const struct truncation *t) {
    static const char *const names[] = {"LongestFirst", "OnlyFirst", "OnlySecond"};
    if (!t) {
        json_print_word(p, "truncation", "null");
        return;
    }
    json_print_open(p, "truncation", '{');
    print_text(p, "direction", direction_name(t->direction));
    json_print_integer(p, "max_length", (int64_t)t->max_length);
    print_text(p, "strategy", names[t->strategy]);
    json_print_integer(p, "stride", (int64_t)t->stride);
    json_print_close(p, '}');
}

static void print_padding(struct json_print *p, const struct padding *padding) {
    if (!padding) {
        json_print_word(p, "padding", "null");
        return;
    }
    json_print_open(p, "padding", '{');
    if (padding->length) {
        json_print_open(p, "strategy", '{');
        json_print_integer(p, "Fixed", (int64_t)padding->length);
        json_print_close(p, '}');
    } else {
        print_text(p, "strategy", "BatchLongest");
    }
    print_text(p, "direction", direction_name(padding->direction));
    if (padding->multiple_of)
        json_print_integer(p, "pad_to_multiple_of", (int64_t)padding->multiple_of);
    else
        json_print_word(p, "pad_to_multiple_of", "null");
    json_print_integer(p, "pad_id", padding->id);
    json_print_integer(p, "pad_type_id", padding->type_id);
    print_text(p, "pad_token", padding->token);
    json_print_close(p, '}');
}

static void print_added(struct json_print *p, const struct added_token *t) {
    json_print_open(p, NULL, '{');
    json_print_integer(p, "id", t->id);
    json_print_string(p, "content", t->content, t->length);
    json_print_bool(p, "single_word", t->single_word);
    json_print_bool(p, "lstrip", t->lstrip);
    json_print_bool(p, "rstrip", t->rstrip);
    json_print_bool(p, "normalized", t->normalized);
    json_print_bool(p, "special", t->special);
    json_print_close(p, '}');
}

/* In the order of their ids; few, so that looking for the next one each time will do. */
static void print_added_tokens(struct json_print *p, const struct added *added) {
    json_print_open(p, "added_tokens", '[');
    int32_t last = -1;
    for (size_t n = 0; n < added->count; n++) {
        const struct added_token *next = NULL;
        for (size_t i = 0; i < added->count; i++) {
            const struct added_token *t = &added->tokens[i];
            if (t->id > last && (!next || t->id < next->id))
                next = t;
        }
        if (!next)
            break;
        print_added(p, next);
        last = next->id;
    }
    json_print_close(p, ']');
}

static void print_normalizer(struct json_print *p, const struct normalizer *n) {
    if (!n->count) {
        json_print_word(p, "normalizer", "null");
        return;
    }
    json_print_open(p, "normalizer", '{');
    if (n->count > 1) {
        print_text(p, "type", "Sequence");
        json_print_open(p, "normalizers", '[');
    }
    for (int i = 0; i < n->count; i++) {
        if (n->count > 1)
            json_print_open(p, NULL, '{');
        print_text(p, "type", normalizer_name(n->steps[i]));
        if (n->count > 1)
            json_print_close(p, '}');
    }
    if (n->count > 1)
        json_print_close(p, ']');
    json_print_close(p, '}');
}

static void print_byte_level(struct json_print *p, const char *key, bool prefix,
                             bool trim) {
    json_print_open(p, key, '{');
    print_text(p, "type", "ByteLevel");
    json_print_bool(p, "add_prefix_space", prefix);
    json_print_bool(p, "trim_offsets", trim);
    json_print_bool(p, "use_regex", true);
    json_print_close(p, '}');
}

static void print_frame_token(struct json_print *p, const char *key,
                              const struct vocab *v, int32_t id) {
    size_t length;
    const char *text = vocab_text(v, id, &length);
    json_print_open(p, key, '[');
    json_print_string(p, NULL, text, length);
    json_print_integer(p, NULL, id);
    json_print_close(p, ']');
}

static void print_post_processor(struct json_print *p, const struct tokenizer *t) {
    const struct template *frame = &t->template;
    if (!frame->present && !frame->trim_offsets) {
        json_print_word(p, "post_processor", "null");
        return;
    }
    if (!frame->present) {
        print_byte_level(p, "post_processor", frame->add_prefix_space, true);
        return;
    }
    json_print_open(p, "post_processor", '{');
    print_text(p, "type", "RobertaProcessing");
    print_frame_token(p, "sep", &t->vocab, frame->sep);
    print_frame_token(p, "cls", &t->vocab, frame->cls);
    json_print_bool(p, "trim_offsets", frame->trim_offsets);
    json_print_bool(p, "add_prefix_space", frame->add_prefix_space);
    json_print_close(p, '}');
}

static void print_merges(struct json_print *p, const struct tokenizer *t) {
    json_print_open(p, "merges", '[');
    for (uint32_t rank = 0; rank < t->bpe.merge_count; rank++) {
        const struct bpe_merge *m = &t->bpe.merges[rank];
        if (m->left < 0)
            continue;
        size_t length;
        const char *text = vocab_text(&t->vocab, m->left, &length);
        json_print_open(p, NULL, '[');
        json_print_string(p, NULL, text, length);
        text = vocab_text(&t->vocab, m->right, &length);
        json_print_string(p, NULL, text, length);
        json_print_close(p, ']');
    }
    json_print_close(p, ']');
}

static void print_model(struct json_print *p, const struct tokenizer *t) {
    const char *affix = t->json_null_affixes ? "null" : "\"\"";
    json_print_open(p, "model", '{');
    print_text(p, "type", "BPE");
    json_print_word(p, "dropout", "null");
    if (t->bpe.unk >= 0)
        print_text(p, "unk_token", tokenizer_token(t, t->bpe.unk));
    else
        json_print_word(p, "unk_token", "null");
    json_print_word(p, "continuing_subword_prefix", affix);
    json_print_word(p, "end_of_word_suffix", affix);
    json_print_bool(p, "fuse_unk", t->bpe.fuse_unk);
    json_print_bool(p, "byte_fallback", false);
    json_print_bool(p, "ignore_merges", false);
    json_print_open(p, "vocab", '{');
    for (int32_t id = 0; id < t->vocab.size; id++) {
        if (!vocab_has(&t->vocab, id) || t->vocab.entries[id].extra)
            continue;
        size_t length;
        const char *text = vocab_text(&t->vocab, id, &length);
        json_print_member(p, text, length, id);
    }
    json_print_close(p, '}');
    print_merges(p, t);
    json_print_close(p, '}');
}

enum status tokenizer_json_add(const struct tokenizer *t, bool pretty,
                               const struct truncation *truncation,
                               const struct padding *padding, struct buffer *out,
                               struct error *err) {
    struct json_print p = {.out = out, .pretty = pretty, .err = err};
    json_print_open(&p, NULL, '{');
    print_text(&p, "version", "1.0");
    print_truncation(&p, truncation);
    print_padding(&p, padding);
    print_added_tokens(&p, &t->added);
    print_normalizer(&p, &t->normalizer);
    print_byte_level(&p, "pre_tokenizer", t->add_prefix_space, true);
    print_post_processor(&p, t);
    if (t->json_null_decoder)
        json_print_word(&p, "decoder", "null");
    else
        print_byte_level(&p, "decoder", true, true);
    print_model(&p, t);
    json_print_close(&p, '}');
    return p.status;
}
