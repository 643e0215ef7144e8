/* shard - one file of token ids: written once, then mapped.
 *
 * Layout, little-endian (64-byte header, then two sections):
 *
 *   0  magic "NGTOKENS"        8  u32 version          12  u32 bytes a token (2 or 4)
 *   16 u64 tokenizer_fingerprint                       24  u64 tokens
 *   32 u64 documents           40 u32 vocabulary size  44  u32 CRC32C of the sections
 *   48 16 zero bytes
 *   64 tokens, zero bytes up to a multiple of 8, then one u64 a document: its first token
 *
 * A document index beyond the shard's tokens or not ascending, a size that is not the
 * header's, another version, byte order or tokenizer are errors. The CRC names the
 * content: a run that resumes finds out whether its data is still the same. */
#ifndef PRETRAIN_SHARD_H
#define PRETRAIN_SHARD_H

#include <stdint.h>

#include "base/error.h"
#include "base/file.h"

struct shard {
    struct mapping mapping;
    const void *tokens; /* u16 or u32, by width */
    const uint64_t *documents;
    uint32_t width, vocab_size, crc;
    uint64_t fingerprint, num_tokens, num_documents;
    char path[PATH_BYTES];
};

/* Maps and checks all but the tokens' values. Whether it is of the right tokenizer is the
 * caller's to ask (fingerprint, vocab_size). */
enum status shard_open(struct shard *s, const char *path, struct error *err) MUST_CHECK;
/* Tokens first .. first + count - 1 as ids. An id that is not in the vocabulary is
 * ERR_INPUT. */
enum status shard_read(const struct shard *s, uint64_t first, uint64_t count,
                       int32_t *out, struct error *err) MUST_CHECK;
void shard_close(struct shard *s);

/* A shard being written: it appears under its name complete or not at all. */
struct shard_writer {
    struct writer *file;
    uint64_t *documents; /* owned */
    uint64_t fingerprint, num_tokens, num_documents, capacity;
    uint32_t width, vocab_size, crc;
};

enum status shard_writer_open(struct shard_writer *w, const char *path,
                              uint64_t fingerprint, int32_t vocab_size,
                              struct error *err) MUST_CHECK;
/* The next token begins a document. */
enum status shard_writer_document(struct shard_writer *w, struct error *err) MUST_CHECK;
/* Appends ids, each below vocab_size. */
enum status shard_writer_add(struct shard_writer *w, const int32_t *ids, uint64_t count,
                             struct error *err) MUST_CHECK;
/* Index, counts and checksum; then the file has its name. shard_writer_close() alone
 * leaves nothing. */
enum status shard_writer_commit(struct shard_writer *w, struct error *err) MUST_CHECK;
void shard_writer_close(struct shard_writer *w);

#endif
