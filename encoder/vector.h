/* vector - what the hot loops share: clones for wider vectors, and exp, erf and their
 * like as polynomials that the compiler turns into vector instructions.
 *
 * The build's baseline is AVX2; a function marked HOT is compiled once more for AVX-512
 * and the loader picks by processor. Loops stay plain C: `#pragma omp simd` allows the
 * reordering of sums that vectors need, in a fixed order. */
#ifndef ENCODER_VECTOR_H
#define ENCODER_VECTOR_H

#include <stdint.h>
#include <string.h>

/* The sanitizers instrument the loader's choice before they are set up: no clones there.
 */
#if defined __x86_64__ && defined __gnu_linux__ && __GNUC__ >= 12 && \
    !defined __clang__ && !defined __SANITIZE_ADDRESS__
#define HOT __attribute__((target_clones("arch=x86-64-v4", "default")))
#else
#define HOT
#endif

/* Functions with intrinsics for bf16 products, to be called after bf16_is_native(). */
#if defined __x86_64__ && defined __GNUC__ && __GNUC__ >= 12
#define VECTOR_BF16 1
#define VECTOR_TARGET_BF16 __attribute__((target("arch=x86-64-v4,avx512bf16")))
#else
#define VECTOR_BF16 0
#endif

/* e^x to 1e-7 relative for x <= 0 (and up to 88); 0 below -87.3, so that there are no
 * denormals; NaN for NaN. x = n ln 2 + r with |r| <= ln 2 / 2 (ln 2 in two parts), a
 * polynomial in r, and n added to its exponent. */
static inline float vector_exp(float x) {
    const float clipped = x < -87.3f ? -87.3f : x;
    const float shifted = clipped * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: rounds */
    const float n = shifted - 12582912.0f;
    const float r = (clipped - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.3981999e-3f + r * 1.9875691e-4f;
    p = p * r + 8.3334519e-3f;
    p = p * r + 4.1665796e-2f;
    p = p * r + 1.6666665e-1f;
    p = p * r + 5.0000001e-1f;
    p = p * r * r + r + 1.0f;
    uint32_t bits, power; /* the lowest bits of `shifted` are n */
    memcpy(&power, &shifted, sizeof power);
    memcpy(&bits, &p, sizeof bits);
    bits += power << 23;
    float y;
    memcpy(&y, &bits, sizeof y);
    return x < -87.3f ? 0.0f : y;
}

/* Phi(x) of the standard normal and, through `density`, exp(-x^2 / 2), which both GELU
 * and its slope need. Phi(-a) = exp(-a^2 / 2) t P(t) with t = 1 / (1 + 0.34 a): P is our
 * own least-maximum fit for a up to 14, relative error 3e-8 before rounding. Errors of
 * one sign must stay small: a feed-forward adds them up over its channels. */
static inline float vector_normal_cdf(float x, float *density) {
    const float a = x < 0 ? -x : x;
    const float t = 1.0f / (1.0f + 0.34f * a);
    float p = -0.0261204636f;
    p = p * t + 0.13949944f;
    p = p * t - 0.273132644f;
    p = p * t + 0.202182564f;
    p = p * t - 0.0447183783f;
    p = p * t + 0.115359132f;
    p = p * t + 0.115197667f;
    p = p * t + 0.136112196f;
    p = p * t + 0.135620504f;
    *density = vector_exp(-0.5f * x * x);
    const float tail = p * t * *density;
    return x < 0 ? tail : 1.0f - tail;
}

#endif
