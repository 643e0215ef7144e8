/* rng - Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy
 * as 1, 2, 3"), one draw or many at a time. */
#include "base/rng.h"

#include <math.h>

enum { ROUNDS = 10, LANES = 8 }; /* LANES: blocks that rng_fill computes side by side */

static const uint32_t M0 = 0xD2511F53, M1 = 0xCD9E8D57; /* multipliers */
static const uint32_t W0 = 0x9E3779B9, W1 = 0xBB67AE85; /* steps of the key, a round */

struct rng_block rng_philox(const uint32_t key[2], const uint32_t counter[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < ROUNDS; round++, k0 += W0, k1 += W1) {
        const uint64_t p0 = (uint64_t)M0 * c0, p1 = (uint64_t)M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
    }
    return (struct rng_block){{c0, c1, c2, c3}};
}

struct rng rng_stream(uint64_t seed, enum rng_purpose purpose, uint32_t site,
                      uint64_t step) {
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)purpose, site, (uint32_t)step,
                                 (uint32_t)(step >> 32)};
    const struct rng_block block = rng_philox(key, counter);
    return (struct rng){{block.word[0], block.word[1]}};
}

/* LANES blocks as structure of arrays, so that each line is a vector instruction: about
 * 1.1 words a nanosecond on one core with AVX2. */
struct lanes {
    uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
};

static inline void philox_lanes(struct lanes *x, uint32_t k0, uint32_t k1) {
#pragma GCC unroll 10 /* keeps the lanes in registers: 1.2 times as fast */
    for (int round = 0; round < ROUNDS; round++, k0 += W0, k1 += W1)
        for (int i = 0; i < LANES; i++) {
            const uint64_t p0 = (uint64_t)M0 * x->c0[i], p1 = (uint64_t)M1 * x->c2[i];
            x->c0[i] = (uint32_t)(p1 >> 32) ^ x->c1[i] ^ k0;
            x->c1[i] = (uint32_t)p1;
            x->c2[i] = (uint32_t)(p0 >> 32) ^ x->c3[i] ^ k1;
            x->c3[i] = (uint32_t)p0;
        }
}

void rng_fill(struct rng r, uint32_t i0, uint32_t i1, uint32_t i2, uint32_t first_block,
              uint32_t blocks, uint32_t *out) {
    uint32_t block = 0;
    for (; blocks - block >= LANES; block += LANES, out += 4 * LANES) {
        struct lanes x;
        for (uint32_t i = 0; i < LANES; i++) {
            x.c0[i] = i0, x.c1[i] = i1, x.c2[i] = i2;
            x.c3[i] = first_block + block + i;
        }
        philox_lanes(&x, r.key[0], r.key[1]);
        for (int i = 0; i < LANES; i++) {
            out[4 * i] = x.c0[i], out[4 * i + 1] = x.c1[i];
            out[4 * i + 2] = x.c2[i], out[4 * i + 3] = x.c3[i];
        }
    }
    for (; block < blocks; block++, out += 4) {
        const struct rng_block b = rng_draw(r, i0, i1, i2, first_block + block);
        for (int i = 0; i < 4; i++)
            out[i] = b.word[i];
    }
}

void rng_normal(uint32_t a, uint32_t b, float out[2]) {
    /* (0, 1], so that the logarithm is finite */
    const double u = ((double)a + 1) * 0x1p-32, angle = 2 * M_PI * (double)b * 0x1p-32;
    const double radius = sqrt(-2 * log(u));
    out[0] = (float)(radius * cos(angle));
    out[1] = (float)(radius * sin(angle));
}

/* A permutation of 0..2^(2 * half_bits)-1: Feistel rounds, Philox the round function
 * (Luby and Rackoff 1988: four rounds of a good function look random; six, because the
 * halves are small). */
static uint64_t feistel(struct rng r, unsigned half_bits, uint64_t x) {
    const uint32_t mask = (uint32_t)((UINT64_C(1) << half_bits) - 1);
    uint32_t left = (uint32_t)(x >> half_bits), right = (uint32_t)x & mask;
    for (uint32_t round = 0; round < 6; round++) {
        const uint32_t mixed = rng_draw(r, round, right, half_bits, 0).word[0] & mask;
        const uint32_t next = left ^ mixed;
        left = right;
        right = next;
    }
    return (uint64_t)left << half_bits | right;
}

uint64_t rng_permute(struct rng r, uint64_t n, uint64_t position) {
    unsigned half_bits =
        4; /* halves of 1 or 2 bits do not mix: few items, unfair orders */
    while (half_bits < 32 && (UINT64_C(1) << (2 * half_bits)) < n)
        half_bits++;
    uint64_t item = position;
    do /* walk the cycle back into 0..n-1; the domain is below 4 n, or 256 */
        item = feistel(r, half_bits, item);
    while (item >= n);
    return item;
}
