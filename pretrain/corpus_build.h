/* corpus_build - text files to token shards: the work behind corpus_prepare.
 *
 * Reading, encoding on all threads and writing overlap. */
#ifndef PRETRAIN_CORPUS_BUILD_H
#define PRETRAIN_CORPUS_BUILD_H

#include "pretrain/corpus.h"

struct corpus_built {
    int num_shards;
    uint64_t num_tokens, num_documents, num_lines;
};

/* Writes the shards. Text that is no UTF-8 is ERR_INPUT with file, line and byte. */
enum status corpus_build(const struct corpus_source *source,
                         const struct tokenizer *tokenizer, struct corpus_built *built,
                         struct error *err) MUST_CHECK;

#endif
