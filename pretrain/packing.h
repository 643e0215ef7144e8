/* packing - cuts a corpus into sequences of at most `length` tokens.
 *
 *   full-sentences  <s>, then as many whole lines (each with its </s>) as fit; one more
 *                   </s> where a document ends inside: <s> d1s1 </s> d1s2 </s> </s> d2s1
 *                   </s> (RoBERTa's FULL-SENTENCES, fairseq's `complete`)
 *   doc-sentences   the same, but no sequence crosses the end of a document (fairseq's
 *                   `complete_doc`)
 *   fixed-blocks    <s> and length - 1 tokens of the row, broken anywhere; the tail is
 *                   dropped (fairseq's `none`)
 *
 * A line longer than a sequence is broken over several; a rest that is its </s> alone is
 * dropped. Blank lines are dropped where they separate nothing. Every token of the corpus
 * is used or dropped. Sequences are numbered with 64 bits; sentence modes keep 8 bytes a
 * sequence, fixed blocks nothing. */
#ifndef PRETRAIN_PACKING_H
#define PRETRAIN_PACKING_H

#include "pretrain/corpus.h"

/* In the order of PACKING_WORDS. */
enum packing_mode { PACKING_FULL_SENTENCES, PACKING_DOC_SENTENCES, PACKING_FIXED_BLOCKS };
#define PACKING_WORDS "full-sentences|doc-sentences|fixed-blocks"

struct packing {
    const struct corpus *corpus;
    enum packing_mode mode;
    int64_t length;
    uint64_t num_sequences;
    uint64_t tokens_used, tokens_dropped; /* of the corpus; their sum is its num_tokens */
    uint64_t *starts; /* owned; where each sequence begins, and the end */
    uint64_t capacity;
};

/* The mode of a word of PACKING_WORDS. */
enum packing_mode packing_mode_of(const char *word);
/* `length` counts <s> and is at least 3. A corpus that gives no sequence is ERR_INPUT;
 * `name` says which corpus ("train"). The corpus must outlive the packing. */
enum status packing_open(struct packing *p, const struct corpus *corpus, const char *name,
                         enum packing_mode mode, int64_t length,
                         struct error *err) MUST_CHECK;
/* Sequence `index`: *count ids (at most `length`) into `out`. */
enum status packing_read(const struct packing *p, uint64_t index, int32_t *out,
                         int64_t *count, struct error *err) MUST_CHECK;
void packing_close(struct packing *p);

#endif
