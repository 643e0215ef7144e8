/* tokenizer_decode - text of ids.
 *
 * The bytes of all tokens end to end; then what is no UTF-8 becomes U+FFFD. A token may
 * be a part of a character, so only the whole can be checked; but if each token is UTF-8
 * by itself, as nearly all are, the whole is, and no check is needed.
 *
 * One 16-byte entry a token (vocab.h) has the text of a short one and its length: a load,
 * a store of 16 bytes whatever the length, and an addition. Nothing in that has to be
 * foreseen by the processor but that a token is neither long nor left out. */
#include <string.h>

#include "tokenizer/parts.h"
#include "tokenizer/unicode.h"

/* What of ids has been written. */
struct decoding {
    const struct vocab *vocab;
    unsigned dropped; /* flags of the pieces that are left out */
    unsigned broken;  /* is a token that was written no UTF-8 by itself? */
};

/* A token that may be long, or left out; where the next one is written. */
static char *put_rare(struct decoding *d, int32_t id, char *next) {
    struct vocab_piece p = d->vocab->pieces[id];
    if (p.flags & d->dropped)
        return next;
    memcpy(next, d->vocab->bytes.data + p.bytes, p.length);
    return next + p.length;
}

/* Writes up to DECODE_BATCH ids. A token is copied with what follows it, which is quicker
 * than its length exactly: nothing then has to be foreseen, and the one load that has the
 * text has the length as well. */
enum { DECODE_BATCH = 256, LONG_TOKEN = 4096 };
static enum status put_batch(struct decoding *d, const int32_t *ids, size_t count,
                             struct buffer *out, struct error *err) {
    TRY(buffer_reserve(out, count * d->vocab->longest + sizeof(struct vocab_short), err));
    const struct vocab_short *shorts = d->vocab->shorts;
    const uint32_t size = (uint32_t)d->vocab->size;
    char *next = out->data + out->length;
    unsigned char broken = 0;
#pragma GCC unroll 4
    for (size_t i = 0; i < count; i++) {
        uint32_t id = (uint32_t)ids[i];
        if (id >= size)
            continue;
        const size_t length = shorts[id].length;
        broken |= shorts[id].broken;
        memcpy(next, &shorts[id], sizeof *shorts);
        next = length == VOCAB_RARE ? put_rare(d, ids[i], next) : next + length;
    }
    d->broken |= broken;
    out->length = (size_t)(next - out->data);
    out->data[out->length] = 0;
    return OK;
}

/* Replaces what is no UTF-8 from byte `start` on. */
static enum status repair(struct buffer *out, size_t start, struct error *err) {
    struct buffer repaired = {0};
    const unsigned char *bytes = (const unsigned char *)out->data + start;
    size_t length = out->length - start;
    if (unicode_valid_prefix(bytes, length) == length)
        return OK;
    enum status status = unicode_add_lossy(&repaired, bytes, length, err);
    out->length = start;
    if (status == OK)
        status = buffer_add(out, repaired.data, repaired.length, err);
    buffer_free(&repaired);
    return status;
}

enum status tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t count,
                             bool skip_special_tokens, struct buffer *out,
                             struct error *err) {
    size_t start = out->length;
    struct decoding d = {.vocab = &t->vocab,
                         .dropped = skip_special_tokens ? VOCAB_SPECIAL : 0};
    /* Room for many tokens of megabytes would never be used. */
    const size_t batch = t->vocab.longest < LONG_TOKEN ? DECODE_BATCH : 1;
    for (size_t at = 0; at < count; at += batch)
        TRY(put_batch(&d, ids + at, count - at < batch ? count - at : batch, out, err));
    return d.broken ? repair(out, start, err) : OK;
}

/* Each row is a pass of its own, in transformers' order, as a replacement may make room
 * for the next; results are never longer, so it is done in place. */
void tokenizer_clean_up(struct buffer *text) {
    static const struct {
        const char *from, *to;
    } rows[] = {{" .", "."},     {" ?", "?"},     {" !", "!"},   {" ,", ","},
                {" ' ", "'"},    {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"},
                {" 've", "'ve"}, {" 're", "'re"}};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        size_t from = strlen(rows[row].from), to = strlen(rows[row].to), written = 0;
        for (size_t at = 0; at < text->length;) {
            bool here = text->length - at >= from &&
                        !memcmp(text->data + at, rows[row].from, from);
            if (here)
                memcpy(text->data + written, rows[row].to, to);
            else
                text->data[written] = text->data[at];
            written += here ? to : 1;
            at += here ? from : 1;
        }
        text->length = written;
    }
    if (text->data)
        text->data[text->length] = 0;
}
