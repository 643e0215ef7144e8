/* pieces - a text cut into added tokens and what lies between, in two rounds: tokens that
 * are searched in the text as it is, then, after normalisation, the others. */
#ifndef TOKENIZER_PIECES_H
#define TOKENIZER_PIECES_H

#include "tokenizer/added.h"
#include "tokenizer/normalizer.h"

struct piece {
    const struct added_token *token; /* NULL: text between added tokens */
    const unsigned char *text;       /* as normalised, never empty */
    size_t length;
    size_t start; /* where the piece, or what `origins` counts from, is in the source */
    const struct origin *origins; /* of each byte of text; NULL: text is the source's */
};

/* The source's bytes that the piece's bytes [start, end) stand for; start < end. */
struct origin piece_origin(const struct piece *p, size_t start, size_t end);

/* What receives the pieces in order. */
struct piece_sink {
    enum status (*take)(void *self, const struct piece *piece, struct error *err);
    void *self;
};

/* Hands all pieces of a text to the sink; what they point to is valid during the call of
 * `take` only. Ends with the sink's first error. */
enum status pieces_cut(const struct added *added, const struct normalizer *normalizer,
                       const unsigned char *text, size_t length, struct piece_sink sink,
                       struct error *err) MUST_CHECK;

#endif
