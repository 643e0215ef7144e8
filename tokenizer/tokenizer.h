/* tokenizer - byte-level BPE as RoBERTa and GPT-2 use it: what the rest of the program
 * sees.
 *
 * Exact against Hugging Face tokenizers. A tokenizer is read-only once loaded and may be
 * shared by threads; each thread brings its own cache. Full encodings with offsets,
 * masks and overflow are in encoding.h. */
#ifndef TOKENIZER_TOKENIZER_H
#define TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/notice.h"
#include "tokenizer/added.h"
#include "tokenizer/bpe_train.h"
#include "tokenizer/ids.h"

struct tokenizer;
struct tokenizer_cache; /* pre-tokens already encoded, bounded; one a thread */

struct special_ids { /* -1 where the vocabulary has no such token */
    int32_t bos, pad, eos, unk, mask;
};

/* From a directory, as transformers does: tokenizer.json, else vocab.json + merges.txt
 * (GPT-2's names encoder.json + vocab.bpe too), reordered by a fairseq dict.txt if there
 * is one; with tokenizer_config.json, special_tokens_map.json and added_tokens.json where
 * present. A vocabulary with id gaps or missing bytes loads with a notice and stays
 * exact. */
enum status tokenizer_load(struct tokenizer **t, const char *directory,
                           const struct notices *notices, struct error *err) MUST_CHECK;
/* From one vocab.json and one merges.txt, wherever they are. */
enum status tokenizer_load_files(struct tokenizer **t, const char *vocab,
                                 const char *merges, struct error *err) MUST_CHECK;
/* The same reordered by a fairseq dictionary; `vocab` is then GPT-2's. */
enum status tokenizer_load_fairseq(struct tokenizer **t, const char *dict,
                                   const char *vocab, const char *merges,
                                   struct error *err) MUST_CHECK;
/* From a training. Its special tokens become added tokens, RoBERTa's five as RoBERTa has
 * them. */
enum status tokenizer_from_trained(struct tokenizer **t,
                                   const struct bpe_trained *trained,
                                   struct error *err) MUST_CHECK;
/* vocab.json, merges.txt, tokenizer.json, tokenizer_config.json, special_tokens_map.json,
 * so that transformers opens the directory as a RobertaTokenizerFast. */
enum status tokenizer_save(const struct tokenizer *t, const char *directory,
                           struct error *err) MUST_CHECK;
void tokenizer_free(struct tokenizer *t);

/* Settings, before the tokenizer is shared. A space is put before every text that has
 * none; default false. */
void tokenizer_set_add_prefix_space(struct tokenizer *t, bool add_prefix_space);
/* What bytes that are no UTF-8 mean: an error (default), U+FFFD, or themselves. */
enum invalid_utf8 { INVALID_UTF8_ERROR, INVALID_UTF8_REPLACE, INVALID_UTF8_BYTES };
void tokenizer_set_invalid_utf8(struct tokenizer *t, enum invalid_utf8 mode);
/* A further normalisation step: "NFC", "NFD", "NFKC", "NFKD" or "Lowercase". */
enum status tokenizer_add_normalizer(struct tokenizer *t, const char *name,
                                     struct error *err) MUST_CHECK;
/* Adds tokens recognised in text. Their ids are ignored: a content that the vocabulary
 * has keeps its id, else it gets the next one. */
enum status tokenizer_add_tokens(struct tokenizer *t, const struct added_token *tokens,
                                 size_t count, struct error *err) MUST_CHECK;
/* All strings are plain text from now on. */
void tokenizer_forget_added_tokens(struct tokenizer *t);

int32_t tokenizer_size(const struct tokenizer *t); /* largest id + 1 */
struct special_ids tokenizer_specials(const struct tokenizer *t);
/* The token's string in the byte alphabet ("Ġthe"), NULL for an id that is no token. */
const char *tokenizer_token(const struct tokenizer *t, int32_t id);
int32_t tokenizer_find(const struct tokenizer *t, const char *token); /* -1: none */
/* Does a word begin here? (the token starts with Ġ or another mapped whitespace, or is
 * special) */
bool tokenizer_begins_word(const struct tokenizer *t, int32_t id);
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);
/* Equal for tokenizers that encode alike: over vocabulary, merges, added tokens and
 * flags. */
uint64_t tokenizer_fingerprint(const struct tokenizer *t);

struct tokenizer_facts {
    int32_t tokens, merges, added;
    int32_t gaps;          /* ids below the largest that are no token */
    int32_t missing_bytes; /* bytes that are no token; they vanish or become unk */
    int32_t unreachable;   /* tokens of text that their own text does not encode to */
    const char *unicode;   /* version of the classes */
};
struct tokenizer_facts tokenizer_facts(const struct tokenizer *t);

/* NULL: out of memory. */
struct tokenizer_cache *tokenizer_cache_new(const struct tokenizer *t);
void tokenizer_cache_free(struct tokenizer_cache *cache);

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
/* Text of ids; broken UTF-8 becomes U+FFFD, ids that are no token vanish. Appended to
 * `out`. */
enum status tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t count,
                             bool skip_special_tokens, struct buffer *out,
                             struct error *err) MUST_CHECK;
/* The bytes of one token as decoding writes them, before anything is replaced; NULL for
 * an id that is no token. */
const unsigned char *tokenizer_bytes(const struct tokenizer *t, int32_t id,
                                     size_t *length);
/* Removes the spaces that clean_up_tokenization_spaces of transformers removes: before
 * . ? ! , n't 'm 's 've 're and around a lone apostrophe. */
void tokenizer_clean_up(struct buffer *text);

/* normglue tokenizer train|encode|decode|inspect */
int tokenizer_command(int argc, char **argv);

#endif
