/* data - one of the two corpora of a pretraining, packed and ready to be masked.
 *
 * A packing points into its corpus, so both live in one struct that stays where it is. */
#include "pretrain/data.h"

#include <inttypes.h>
#include <string.h>

/* Each part needs the one before; what was opened is closed by data_close(). */
static enum status open_parts(struct data *d, const struct corpus_source *source,
                              const struct tokenizer *tokenizer, enum packing_mode mode,
                              int64_t length, struct masking_rates rates,
                              const struct notices *notices, struct error *err) {
    TRY(corpus_prepare(&d->corpus, source, tokenizer, notices, err));
    TRY(packing_open(&d->packing, &d->corpus, source->name, mode, length, err));
    return masking_open(&d->masking, tokenizer, rates, err);
}

enum status data_open(struct data *d, const struct corpus_source *source,
                      const struct tokenizer *tokenizer, enum packing_mode mode,
                      int64_t length, struct masking_rates rates,
                      const struct notices *notices, struct error *err) {
    *d = (struct data){0};
    if (open_parts(d, source, tokenizer, mode, length, rates, notices, err) != OK) {
        data_close(d);
        return err->status;
    }
    const struct packing *p = &d->packing;
    notice(notices,
           "%s: %" PRIu64 " tokens in %" PRIu64 " documents: %" PRIu64 " used in %" PRIu64
           " sequences of at most %" PRId64 ", %" PRIu64 " dropped",
           source->name, d->corpus.num_tokens, d->corpus.num_documents, p->tokens_used,
           p->num_sequences, p->length, p->tokens_dropped);
    return OK;
}

void data_close(struct data *d) {
    masking_close(&d->masking);
    packing_close(&d->packing);
    corpus_close(&d->corpus);
}
