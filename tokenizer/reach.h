/* reach - which tokens their own bytes encode to.
 *
 * In a vocabulary that training made all do, so a word that is in it is that one token
 * and a cache may start with it. Public vocabularies hold some that merges never reach;
 * taking them for words would give other ids than the reference. */
#ifndef TOKENIZER_REACH_H
#define TOKENIZER_REACH_H

#include "base/error.h"
#include "tokenizer/bpe.h"
#include "tokenizer/vocab.h"

/* Sets `reachable` of all entries. */
enum status reach_mark(struct vocab *v, const struct bpe *b,
                       struct error *err) MUST_CHECK;
/* The same by encoding every token, whatever the merges are; what reach_mark does when
 * they are in no order that training gives. */
enum status reach_mark_by_encoding(struct vocab *v, const struct bpe *b,
                                   struct error *err) MUST_CHECK;

#endif
