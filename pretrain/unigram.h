/* unigram - what guessing by frequency alone would score: the plateau that a training has
 * to leave. */
#ifndef PRETRAIN_UNIGRAM_H
#define PRETRAIN_UNIGRAM_H

#include "pretrain/masking.h"
#include "pretrain/packing.h"

struct unigram_result {
    double loss; /* mean of -log p(token) over the targets */
    uint64_t num_targets;
};

/* p(token) = (count in `train` + 1) / (all counts + V), special tokens not counted; the
 * targets are those that `masking` chooses with `stream` in `valid`. */
enum status unigram_measure(const struct corpus *train, const struct packing *valid,
                            const struct masking *masking, struct rng stream,
                            struct unigram_result *result, struct error *err) MUST_CHECK;

#endif
