/* rng - random numbers that are a function of what they are for (Philox4x32-10, Salmon et
 * al. 2011).
 *
 * There is no state to advance or to save: a draw is addressed by (seed, purpose, site,
 * step) and up to four 32-bit indices that name the thing drawn for (sequence number in
 * the global batch, token, channel ...), never its place in memory. So no draw depends on
 * thread count, batch size or on what was drawn before, and any step can be replayed. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

enum rng_purpose { /* each use of random numbers has a row of its own; append only */
                   RNG_INIT = 1,   /* initial weights */
                   RNG_SHUFFLE,    /* order of sequences or examples */
                   RNG_MASK,       /* MLM masking */
                   RNG_MASK_VALID, /* fixed masks of validation */
                   RNG_DROPOUT,    /* all dropout sites */
                   RNG_TEST,
};

struct rng {
    uint32_t key[2];
};

struct rng_block {
    uint32_t word[4];
};

/* Philox4x32-10 of a 128-bit counter under a 64-bit key: the published function, known
 * answers in the tests. */
struct rng_block rng_philox(const uint32_t key[2], const uint32_t counter[4]);

/* The stream for one purpose at one site of one step: its key is Philox under the seed of
 * the counter (purpose, site, step). */
struct rng rng_stream(uint64_t seed, enum rng_purpose purpose, uint32_t site,
                      uint64_t step);

/* Four words for four indices. */
static inline struct rng_block rng_draw(struct rng r, uint32_t i0, uint32_t i1,
                                        uint32_t i2, uint32_t i3) {
    const uint32_t counter[4] = {i0, i1, i2, i3};
    return rng_philox(r.key, counter);
}

/* out[j] for j < 4 * blocks = the words of draws (i0, i1, i2, first_block + j / 4): the
 * same bits as rng_draw, many at a time with vector instructions. */
void rng_fill(struct rng r, uint32_t i0, uint32_t i1, uint32_t i2, uint32_t first_block,
              uint32_t blocks, uint32_t *out);

/* Uniform in [0, 1): the upper 24 bits of a word. */
static inline float rng_uniform(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }
/* Unbiased enough for shuffles and vocabularies: floor(word * n / 2^32), n < 2^32. */
static inline uint32_t rng_below(uint32_t word, uint32_t n) {
    return (uint32_t)(((uint64_t)word * n) >> 32);
}
/* Two standard normals from two words (Box-Muller). */
void rng_normal(uint32_t a, uint32_t b, float out[2]);

/* A shuffle of n items, one stream an epoch, asked item by item in any order:
 * position -> item of a pseudo-random permutation of 0..n-1 (a Feistel network with cycle
 * walking over Philox rounds): shuffles any number of items without memory. */
uint64_t rng_permute(struct rng r, uint64_t n, uint64_t position);

#endif
