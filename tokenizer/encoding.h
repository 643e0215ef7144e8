/* encoding - a text or a pair with all that Hugging Face tokenizers knows of it: ids,
 * offsets, masks, word ids, sequence ids, overflow; truncation and padding.
 *
 * For ids alone tokenizer_encode is several times faster. */
#ifndef TOKENIZER_ENCODING_H
#define TOKENIZER_ENCODING_H

#include "tokenizer/tokenizer.h"
#include "tokenizer/truncation.h"

struct encoded_token {
    int32_t id;
    int32_t type_id;
    int32_t word_id;     /* pre-token or added token in its text; -1: template, padding */
    int32_t sequence_id; /* 0 first text, 1 second; -1: template, padding */
    uint32_t start, end; /* code points of the text, without trimmed spaces */
    uint32_t first, last; /* its bytes in the text, last exclusive, untrimmed */
    bool special;         /* of the template or padding; specials in the text are not */
    bool attention;       /* false: padding */
    uint8_t spaces;       /* where to look for spaces to trim; of encoding.c alone */
};

struct encoding {
    struct encoded_token *tokens; /* owned */
    size_t count, capacity;
    struct encoding *overflow; /* what truncation cut off, piece by piece; owned */
    size_t overflow_count;
};

struct encoding_options {
    bool no_special_tokens;
    const struct truncation *truncation; /* NULL: none */
};

/* Replaces what `out` holds; zero it at first. `b` NULL: a single text. Texts below 4
 * GiB. With INVALID_UTF8_REPLACE offsets count in the replaced text. ERR_USAGE when the
 * truncation is impossible: stride not below the length that is kept, a side too short.
 */
enum status encoding_encode(const struct tokenizer *t, struct tokenizer_cache *cache,
                            const char *a, size_t a_length, const char *b,
                            size_t b_length, const struct encoding_options *options,
                            struct encoding *out, struct error *err) MUST_CHECK;
/* Frees tokens and overflow; zeroed encodings too. */
void encoding_free(struct encoding *e);

struct padding {
    enum direction direction;
    size_t length;      /* 0: the longest of the batch */
    size_t multiple_of; /* 0 and 1: any length */
    int32_t id, type_id;
    const char *token; /* as tokenizer.json names it */
};
/* Pads all of the batch and their overflow to one length; longer ones stay. */
enum status encoding_pad(struct encoding *batch, size_t count,
                         const struct padding *padding, struct error *err) MUST_CHECK;

#endif
