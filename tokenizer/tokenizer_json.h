/* tokenizer_json - tokenizer.json of Hugging Face tokenizers, for byte-level BPE.
 *
 * Read: BPE models with a ByteLevel pre-tokenizer; merges as pairs or as strings; added
 * tokens with all flags; NFC, NFD, NFKC, NFKD and Lowercase, alone or in a Sequence;
 * RobertaProcessing, ByteLevel, none, or a TemplateProcessing that says what
 * RobertaProcessing does. What would encode otherwise is refused by name. Truncation and
 * padding sections are the caller's choice here and are not taken over. */
#ifndef TOKENIZER_TOKENIZER_JSON_H
#define TOKENIZER_TOKENIZER_JSON_H

#include "tokenizer/parts.h"

/* Into an empty tokenizer, and readies it. */
enum status tokenizer_json_read(struct tokenizer *t, const char *path,
                                struct error *err) MUST_CHECK;
/* The same from memory; `path` is only named in errors. */
enum status tokenizer_json_parse(struct tokenizer *t, const char *path, const char *text,
                                 size_t length, struct error *err) MUST_CHECK;
/* What tokenizers' save() writes: pretty with an indent of 2, or compact. `truncation`
 * and `padding` (may be NULL) fill the sections of that name. No final newline. */
struct truncation;
struct padding;
enum status tokenizer_json_add(const struct tokenizer *t, bool pretty,
                               const struct truncation *truncation,
                               const struct padding *padding, struct buffer *out,
                               struct error *err) MUST_CHECK;

#endif
