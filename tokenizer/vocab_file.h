/* vocab_file - vocab.json, merges.txt and fairseq's dict.txt.
 *
 * vocab.json is one object of token strings to ids, in any layout: Hugging Face's
 * compact one, GPT-2's with \u escapes, an indented and sorted one. merges.txt holds two
 * tokens and one space a line, by rank; lines that start with "#version" do not count.
 * dict.txt holds "<GPT-2 id> <count>" lines in the order of RoBERTa's ids. */
#ifndef TOKENIZER_VOCAB_FILE_H
#define TOKENIZER_VOCAB_FILE_H

#include "base/buffer.h"
#include "base/error.h"
#include "tokenizer/bpe.h"
#include "tokenizer/json_scan.h"
#include "tokenizer/vocab.h"

#define VOCAB_FILE_LIMIT ((size_t)1 << 30) /* bytes of any of these files */

/* The object at the scan's place, up to and with its '}'. */
enum status vocab_file_scan(struct json_scan *s, struct vocab *v,
                            struct error *err) MUST_CHECK;
/* A whole vocab.json into an empty vocabulary; then a merges.txt, all of whose tokens it
 * must hold. ERR_INPUT names path and byte or line. */
enum status vocab_file_read(struct vocab *v, const char *path,
                            struct error *err) MUST_CHECK;
enum status vocab_file_read_merges(struct bpe *b, const struct vocab *v, const char *path,
                                   struct error *err) MUST_CHECK;
/* Makes RoBERTa's vocabulary: <s> <pad> </s> <unk>, the tokens of the dictionary's lines,
 * <mask>. */
enum status vocab_file_read_dict(struct vocab *out, const struct vocab *gpt2,
                                 const char *path, struct error *err) MUST_CHECK;

/* As Hugging Face tokenizers writes them: one line in id order; a version line, then the
 * merges. Added tokens that are not of the model are left out. */
enum status vocab_file_add_json(struct buffer *out, const struct vocab *v,
                                struct error *err) MUST_CHECK;
enum status vocab_file_add_merges(struct buffer *out, const struct vocab *v,
                                  const struct bpe *b, struct error *err) MUST_CHECK;

#endif
