/* bf16 - conversion of rows, by the processor's own instructions where it has them.
 *
 * One instruction rounds 16 or 32 floats where the processor has AVX512-BF16; the plain
 * loops give the same bits but for denormals, which the instruction takes for 0. */
#include "encoder/bf16.h"

#include "encoder/vector.h"

HOT void bf16_to_floats(float *to, const uint16_t *from, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = bf16_float(from[i]);
}

HOT static void round_plainly(uint16_t *to, const float *from, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = bf16_of(from[i]);
}

HOT static void pair_plainly(uint32_t *to, const float *low, const float *high,
                             int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = bf16_of(low[i]) | (uint32_t)bf16_of(high ? high[i] : 0) << 16;
}

HOT static void pair(uint32_t *to, const uint16_t *low, const uint16_t *high,
                     int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = low[i] | (uint32_t)high[i] << 16;
}

HOT static void widen(uint32_t *to, const uint16_t *low, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = low[i];
}

void bf16_pair(uint32_t *to, const uint16_t *low, const uint16_t *high, int64_t count) {
    if (high)
        pair(to, low, high, count);
    else
        widen(to, low, count);
}

#if VECTOR_BF16
#include <immintrin.h>

bool bf16_is_native(void) { return __builtin_cpu_supports("avx512bf16"); }

VECTOR_TARGET_BF16 static void round_natively(uint16_t *to, const float *from,
                                              int64_t count) {
    int64_t i = 0;
    for (; count - i >= 32; i += 32)
        _mm512_storeu_si512(to + i,
                            (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + i + 16),
                                                         _mm512_loadu_ps(from + i)));
    for (; i < count; i += 16) {
        const int64_t left = count - i;
        const __mmask16 mask = (__mmask16)(left < 16 ? (1 << left) - 1 : 0xffff);
        const __m256bh part = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, from + i));
        _mm256_mask_storeu_epi16(to + i, mask, (__m256i)part);
    }
}

/* Both rows in one register, low half and high half, whose elements then alternate. */
VECTOR_TARGET_BF16 static void pair_natively(uint32_t *to, const float *low,
                                             const float *high, int64_t count) {
    const __m512i ends = _mm512_set1_epi32(16 << 16);
    const __m512i order = _mm512_or_si512(
        ends, _mm512_mullo_epi32(
                  _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                  _mm512_set1_epi32(0x10001)));
    for (int64_t i = 0; i < count; i += 16) {
        const int64_t left = count - i;
        const __mmask16 mask = (__mmask16)(left < 16 ? (1 << left) - 1 : 0xffff);
        const __m512 a = _mm512_maskz_loadu_ps(mask, low + i);
        const __m512 b =
            high ? _mm512_maskz_loadu_ps(mask, high + i) : _mm512_setzero_ps();
        _mm512_mask_storeu_epi32(
            to + i, mask,
            _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(b, a)));
    }
}
#else
bool bf16_is_native(void) { return false; }
#endif

void bf16_pair_floats(uint32_t *to, const float *low, const float *high, int64_t count) {
#if VECTOR_BF16
    if (bf16_is_native()) {
        pair_natively(to, low, high, count);
        return;
    }
#endif
    pair_plainly(to, low, high, count);
}

void bf16_from_floats(uint16_t *to, const float *from, int64_t count) {
#if VECTOR_BF16
    if (bf16_is_native()) {
        round_natively(to, from, count);
        return;
    }
#endif
    round_plainly(to, from, count);
}
