/* corpus - text files of any number and size as one long row of token ids on disk.
 *
 * Lines are texts; a blank line (nothing but white space) ends a document, and so does
 * the end of a file. The row of ids: each line's tokens, then </s>; a blank line is one
 * more </s> (and one is put between two files where no blank line stands). A '\r' before
 * the '\n' is dropped; no other character ends a line.
 *
 * The ids lie in shards `<directory>/<name>-00000.tokens` ... beside `<name>.json`, which
 * records what they were made of: files (path, size, time of change), tokenizer, options.
 * They are reused when all of that is the same, else made anew with a notice that says
 * why. Memory stays flat, tokenisation uses all threads, and the shards' bytes do not
 * depend on their number. */
#ifndef PRETRAIN_CORPUS_H
#define PRETRAIN_CORPUS_H

#include <stdint.h>

#include "base/notice.h"
#include "base/progress.h"
#include "pretrain/shard.h"
#include "tokenizer/tokenizer.h"

#define CORPUS_SHARD_TOKENS ((uint64_t)1 << 28)

struct corpus_source {
    const char *name;      /* "train": names the files on disk */
    const char *directory; /* where the shards live; made when missing */
    const char *const *files;
    int num_files;
    enum invalid_utf8 invalid_utf8; /* as the tokenizer was set */
    uint64_t shard_tokens; /* a shard ends after so many; 0 = CORPUS_SHARD_TOKENS */
    int threads;
    enum progress_mode progress;
};

struct corpus {
    struct shard *shards; /* owned */
    int num_shards;
    uint64_t num_tokens, num_documents;
    int32_t vocab_size;
    int32_t bos, eos; /* the tokenizer's */
};

/* Reuses the shards or makes them, then opens them. A corpus without a token is
 * ERR_INPUT. */
enum status corpus_prepare(struct corpus *c, const struct corpus_source *source,
                           const struct tokenizer *tokenizer,
                           const struct notices *notices, struct error *err) MUST_CHECK;
/* Opens `num_shards` shards that exist. ERR_INPUT when one is of another tokenizer. */
enum status corpus_open(struct corpus *c, const char *directory, const char *name,
                        int num_shards, const struct tokenizer *tokenizer,
                        struct error *err) MUST_CHECK;
/* Ids first .. first + count - 1 of the whole row. */
enum status corpus_read(const struct corpus *c, uint64_t first, uint64_t count,
                        int32_t *out, struct error *err) MUST_CHECK;
/* Equal for equal contents. */
uint64_t corpus_checksum(const struct corpus *c);
void corpus_close(struct corpus *c);
/* "<directory>/<name>-00007.tokens". */
enum status corpus_shard_path(char path[PATH_BYTES], const char *directory,
                              const char *name, int shard, struct error *err) MUST_CHECK;

#endif
