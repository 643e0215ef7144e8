/* data - one of the two corpora of a pretraining, packed and ready to be masked. */
#ifndef PRETRAIN_DATA_H
#define PRETRAIN_DATA_H

#include "pretrain/masking.h"
#include "pretrain/packing.h"

struct data {
    struct corpus corpus;
    struct packing packing;
    struct masking masking;
};

/* Tokenises or reuses `source`, packs and says in a notice how many tokens came of it.
 * `data` must not move afterwards. */
enum status data_open(struct data *d, const struct corpus_source *source,
                      const struct tokenizer *tokenizer, enum packing_mode mode,
                      int64_t length, struct masking_rates rates,
                      const struct notices *notices, struct error *err) MUST_CHECK;
void data_close(struct data *d); /* also of a zeroed one */

#endif
