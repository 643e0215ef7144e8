/* vocab - token strings and their ids.
 *
 * A token is a string, usually in the byte alphabet (bytes.h). Ids may have gaps. Every
 * token also has its bytes: those its characters stand for, or its own UTF-8 when a
 * character is not in the alphabet, which is what decoding writes. */
#ifndef TOKENIZER_VOCAB_H
#define TOKENIZER_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

#define VOCAB_MAX_ID ((1 << 24) - 1) /* above every known vocabulary */

struct vocab_entry {
    uint32_t text, text_length; /* in vocab.text, followed by a NUL */
    bool present;
    bool mapped;    /* all of its characters are in the byte alphabet, at least one */
    bool reachable; /* its bytes encode to itself; of reach_mark */
    bool extra;     /* an added token that is not in the model's vocabulary */
    bool added;     /* recognised in text before it is split */
};
_Static_assert(offsetof(struct vocab_entry, added) -
                       offsetof(struct vocab_entry, present) ==
                   4,
               "image_check looks at five flags in a row");

/* What loops over ids need of a token, in 8 bytes. */
struct vocab_piece {
    uint32_t bytes; /* in vocab.bytes, which goes on for VOCAB_SLACK bytes more */
    uint32_t length : 24, flags : 8; /* flags 0: no token */
};
enum {
    VOCAB_PRESENT = 1,
    VOCAB_SPECIAL = 2, /* dropped by skip_special_tokens */
    VOCAB_TEXT = 4,    /* its bytes are UTF-8 by themselves */
    VOCAB_SPACED = 8   /* its bytes begin or end with a space */
};
enum { VOCAB_SLACK = 16, VOCAB_LONGEST = (1 << 24) - 1 /* bytes of a token */ };

/* The same for decoding, with the text of short tokens. All zero: no token. */
struct vocab_short {
    unsigned char bytes[14]; /* the first of a longer token */
    unsigned char broken;    /* not UTF-8 by itself */
    unsigned char length;    /* VOCAB_RARE: longer or special, its piece says the rest */
};
enum { VOCAB_RARE = 255 };

struct vocab_slot {
    int32_t id;   /* -1: empty */
    uint32_t tag; /* more of the hash, so that few other texts are looked at */
};

struct vocab {
    struct vocab_entry *entries; /* by id, owned */
    struct vocab_piece *pieces;  /* by id, owned */
    struct vocab_short *shorts;  /* by id, owned */
    int32_t size, capacity;      /* largest id + 1 */
    int32_t count;               /* entries present */
    size_t longest;              /* bytes of the longest token */
    struct buffer text, bytes;
    struct vocab_slot *slots; /* by hash of the text, owned */
    size_t slot_count;
    bool is_mapped; /* the arrays belong to a tokenizer's image (image.h) */
};

/* Memory for `entries` more tokens at once; optional. ERR_INPUT above VOCAB_MAX_ID,
 * ERR_MEMORY. */
enum status vocab_reserve(struct vocab *v, size_t entries, struct error *err) MUST_CHECK;
/* Copies the token in; `text` needs no NUL. ERR_INPUT when the string or the id is there
 * already, the id is out of range or the string longer than VOCAB_LONGEST. Pointers that
 * vocab_text and vocab_bytes gave before are no longer valid. */
enum status vocab_add(struct vocab *v, const char *text, size_t length, int64_t id,
                      struct error *err) MUST_CHECK;
void vocab_free(struct vocab *v);

int32_t vocab_find(const struct vocab *v, const char *text, size_t length); /* -1: none */
static inline bool vocab_has(const struct vocab *v, int32_t id) {
    return (uint32_t)id < (uint32_t)v->size && v->pieces[id].flags;
}
/* Is it left out where special tokens are skipped? The second sets it, of a present id.
 */
bool vocab_is_special(const struct vocab *v, int32_t id);
void vocab_set_special(struct vocab *v, int32_t id, bool special);
/* The string of a present id, NUL-terminated. */
const char *vocab_text(const struct vocab *v, int32_t id, size_t *length);
/* Its bytes, as decoding writes them. */
const unsigned char *vocab_bytes(const struct vocab *v, int32_t id, size_t *length);

#endif
