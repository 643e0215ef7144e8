/* rng - Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy
 * as 1, 2, 3"), one draw or many at a time.
 *
 * A counter-based generator is a keyed mixing of the counter: 10 rounds of two 32 x 32
 * bit products whose halves are swapped and XORed with a key that steps by a constant. It
 * passes the BigCrush tests (the paper) and, unlike a generator with a state, needs no
 * order of draws: that is what makes dropout repeatable in backward, masks independent of
 * the batch size, and runs resumable without a saved state.
 *
 * Speed matters for dropout only, which draws 16 bits an activation: 8 or 32 blocks at
 * once, 1 to 6 words a nanosecond. */
#include "base/rng.h"

#include <math.h>
#include <string.h>

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

static void fill_narrow(struct rng r, uint32_t i0, uint32_t i1, uint32_t i2,
                        uint32_t first_block, uint32_t blocks, uint32_t *out) {
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

#if defined __x86_64__ && defined __GNUC__
#include <immintrin.h>
#define WIDE __attribute__((target("arch=x86-64-v4"), always_inline)) static inline

enum { GROUPS = 4, WIDE_LANES = 8 }; /* groups hide each other's latency */

/* Eight blocks, a word in the lower half of each 64-bit lane; upper halves are what the
 * multiplication ignores. */
struct wide_lanes {
    __m512i c0, c1, c2, c3;
};

WIDE void wide_round(struct wide_lanes *x, __m512i k0, __m512i k1) {
    const __m512i p0 = _mm512_mul_epu32(_mm512_set1_epi64(M0), x->c0),
                  p1 = _mm512_mul_epu32(_mm512_set1_epi64(M1), x->c2);
    x->c0 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), x->c1, k0, 0x96);
    x->c2 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), x->c3, k1, 0x96);
    x->c1 = p1;
    x->c3 = p0;
}

/* Lanes 0, 2, 4, 6 are the first four blocks, so that unpacking puts all in order. */
WIDE void wide_store(uint32_t *out, const struct wide_lanes *x) {
    const __m512i low = _mm512_set1_epi64(0xffffffff);
    const __m512i first =
        _mm512_ternarylogic_epi64(_mm512_slli_epi64(x->c1, 32), x->c0, low, 0xf8);
    const __m512i second =
        _mm512_ternarylogic_epi64(_mm512_slli_epi64(x->c3, 32), x->c2, low, 0xf8);
    _mm512_storeu_si512(out, _mm512_unpacklo_epi64(first, second));
    _mm512_storeu_si512(out + 16, _mm512_unpackhi_epi64(first, second));
}

/* `groups` times eight blocks; a constant where it is inlined. */
WIDE void wide_blocks(const int groups, struct rng r, uint32_t i0, uint32_t i1,
                      uint32_t i2, uint32_t block, uint32_t *out) {
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    struct wide_lanes x[GROUPS];
    for (int g = 0; g < groups; g++) {
        x[g].c0 = _mm512_set1_epi64(i0);
        x[g].c1 = _mm512_set1_epi64(i1);
        x[g].c2 = _mm512_set1_epi64(i2);
        x[g].c3 = _mm512_add_epi32(order, _mm512_set1_epi64(block + 8 * (uint32_t)g));
    }
    uint32_t k0 = r.key[0], k1 = r.key[1];
    for (int round = 0; round < ROUNDS; round++, k0 += W0, k1 += W1)
        for (int g = 0; g < groups; g++)
            wide_round(&x[g], _mm512_set1_epi64(k0), _mm512_set1_epi64(k1));
    for (int g = 0; g < groups; g++)
        wide_store(out + 32 * g, &x[g]);
}

/* About 6 words a nanosecond on one core. */
__attribute__((target("arch=x86-64-v4"))) static void fill_wide(struct rng r, uint32_t i0,
                                                                uint32_t i1, uint32_t i2,
                                                                uint32_t first_block,
                                                                uint32_t blocks,
                                                                uint32_t *out) {
    uint32_t block = 0;
    for (; blocks - block >= GROUPS * WIDE_LANES; block += GROUPS * WIDE_LANES)
        wide_blocks(GROUPS, r, i0, i1, i2, first_block + block, out + 4 * block);
    for (; blocks - block >= 2 * WIDE_LANES; block += 2 * WIDE_LANES)
        wide_blocks(2, r, i0, i1, i2, first_block + block, out + 4 * block);
    for (; blocks - block >= WIDE_LANES; block += WIDE_LANES)
        wide_blocks(1, r, i0, i1, i2, first_block + block, out + 4 * block);
    if (block < blocks) {
        uint32_t rest[4 * WIDE_LANES];
        wide_blocks(1, r, i0, i1, i2, first_block + block, rest);
        memcpy(out + 4 * block, rest, (blocks - block) * 4 * sizeof *out);
    }
}
#endif

void rng_fill(struct rng r, uint32_t i0, uint32_t i1, uint32_t i2, uint32_t first_block,
              uint32_t blocks, uint32_t *out) {
#if defined __x86_64__ && defined __GNUC__
    if (__builtin_cpu_supports("x86-64-v4")) {
        fill_wide(r, i0, i1, i2, first_block, blocks, out);
        return;
    }
#endif
    fill_narrow(r, i0, i1, i2, first_block, blocks, out);
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
