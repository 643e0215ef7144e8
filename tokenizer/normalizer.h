/* normalizer - optional Unicode normalisation before tokenisation: NFC, NFD, NFKC, NFKD
 * and lower-casing, by utf8proc, in any sequence.
 *
 * The result remembers which bytes of the source each of its bytes comes from, to the
 * granularity of what is composed together. RoBERTa and GPT-2 normalise nothing. The
 * tables are those of utf8proc's Unicode version; Hugging Face tokenizers' are older, so
 * characters newer than Unicode 12 may differ. */
#ifndef TOKENIZER_NORMALIZER_H
#define TOKENIZER_NORMALIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

enum normalizer_form {
    NORMALIZER_NFC,
    NORMALIZER_NFD,
    NORMALIZER_NFKC,
    NORMALIZER_NFKD,
    NORMALIZER_LOWERCASE
};

struct normalizer {
    enum normalizer_form steps[8];
    int count; /* 0: the text stays as it is */
};

/* The source's bytes [start, end) that one byte of the result stands for. */
struct origin {
    uint32_t start, end;
};

struct normalized {
    struct buffer text;
    struct origin *origins; /* one a byte of text, owned */
    size_t capacity;
};

/* Adds a step by its name in tokenizer.json ("NFC", "Lowercase" ...), in any case.
 * ERR_INPUT when the name is unknown or the list is full. */
enum status normalizer_add(struct normalizer *n, const char *name,
                           struct error *err) MUST_CHECK;
/* As tokenizer.json spells it. */
const char *normalizer_name(enum normalizer_form form);
/* Replaces what `out` holds. Bytes that are no UTF-8 stay. Text below 4 GiB. */
enum status normalizer_apply(const struct normalizer *n, const unsigned char *text,
                             size_t length, struct normalized *out,
                             struct error *err) MUST_CHECK;
void normalized_free(struct normalized *n);

#endif
