/* tokenizer - byte-level BPE as RoBERTa and GPT-2 use it: what the rest of the program
 * sees.
 *
 * Exact against Hugging Face tokenizers. A tokenizer is read-only once loaded and may be
 * shared by threads; each thread brings its own cache. */
#ifndef TOKENIZER_TOKENIZER_H
#define TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/notice.h"
#include "tokenizer/ids.h"

struct tokenizer;
struct tokenizer_cache; /* pre-tokens already encoded, bounded; one a thread */

struct special_ids { /* -1 where the vocabulary has no such token */
    int32_t bos, pad, eos, unk, mask;
};

/* From a directory: vocab.json + merges.txt, else tokenizer.json; tokenizer_config.json
 * and special_tokens_map.json where present. A vocabulary with id gaps or missing bytes
 * loads with a notice and stays exact. */
enum status tokenizer_load(struct tokenizer **t, const char *directory,
                           const struct notices *notices, struct error *err) MUST_CHECK;
/* vocab.json, merges.txt, tokenizer.json, tokenizer_config.json, special_tokens_map.json.
 */
enum status tokenizer_save(const struct tokenizer *t, const char *directory,
                           struct error *err) MUST_CHECK;
void tokenizer_free(struct tokenizer *t);

int32_t tokenizer_size(const struct tokenizer *t); /* largest id + 1 */
struct special_ids tokenizer_specials(const struct tokenizer *t);
/* The token's string in the byte alphabet ("Ġthe"), NULL for an id that is no token. */
const char *tokenizer_token(const struct tokenizer *t, int32_t id);
/* Does a word begin here? (the token starts with Ġ or another mapped whitespace, or is
 * special) */
bool tokenizer_begins_word(const struct tokenizer *t, int32_t id);
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);
/* Equal for tokenizers that encode alike: over vocabulary, merges, added tokens and
 * flags. */
uint64_t tokenizer_fingerprint(const struct tokenizer *t);

struct tokenizer_cache *tokenizer_cache_new(
    const struct tokenizer *t); /* NULL: out of memory */
void tokenizer_cache_free(struct tokenizer_cache *cache);

/* What bytes that are no UTF-8 mean. */
enum invalid_utf8 { INVALID_UTF8_ERROR, INVALID_UTF8_REPLACE, INVALID_UTF8_BYTES };
void tokenizer_set_invalid_utf8(struct tokenizer *t, enum invalid_utf8 mode);

/* Ids of one text, no template; added tokens such as <mask> are recognised in it.
 * Appended to `out`. Text that is no UTF-8 is ERR_INPUT with its byte offset unless the
 * mode says otherwise. `cache` may be NULL. */
enum status tokenizer_encode(const struct tokenizer *t, struct tokenizer_cache *cache,
                             const char *text, size_t length, struct ids *out,
                             struct error *err) MUST_CHECK;
/* <s> A </s>, or <s> A </s></s> B </s> when b is not NULL, cut to max_length by the
 * longest-first rule (0 = no limit). Appended to `out`. */
enum status tokenizer_encode_pair(const struct tokenizer *t,
                                  struct tokenizer_cache *cache, const char *a,
                                  size_t a_length, const char *b, size_t b_length,
                                  size_t max_length, struct ids *out,
                                  struct error *err) MUST_CHECK;
/* Text of ids; broken UTF-8 becomes U+FFFD. Appended to `out`. */
enum status tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t count,
                             bool skip_special_tokens, struct buffer *out,
                             struct error *err) MUST_CHECK;

/* normglue tokenizer train|encode|decode|inspect */
int tokenizer_command(int argc, char **argv);

#endif
