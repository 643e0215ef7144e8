/* bf16 - bfloat16, the upper half of a float: conversion of rows.
 *
 * A bf16 has a float's sign and exponent and 8 bits of precision: 2^-9 relative rounding,
 * no range lost. Arithmetic is on floats; only what lies in memory is bf16. */
#ifndef ENCODER_BF16_H
#define ENCODER_BF16_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline float bf16_float(uint16_t x) {
    const uint32_t bits = (uint32_t)x << 16;
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}

/* Rounded to nearest, ties to even; NaN stays NaN. */
static inline uint16_t bf16_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    return (uint16_t)(is_nan ? (bits >> 16 | 0x40) : rounded);
}

/* Does this processor have the instructions for products of bf16 (AVX512-BF16)? */
bool bf16_is_native(void);

/* Exact, as every bf16 is a float. */
void bf16_to_floats(float *to, const uint16_t *from, int64_t count);
/* As bf16_of(), except that the processor's own instruction takes denormals for 0. */
void bf16_from_floats(uint16_t *to, const float *from, int64_t count);

/* to[i] = low[i] and high[i] side by side, the lower half first; high NULL = 0. */
void bf16_pair(uint32_t *to, const uint16_t *low, const uint16_t *high, int64_t count);
/* The same, rounding floats. */
void bf16_pair_floats(uint32_t *to, const float *low, const float *high, int64_t count);

#endif
