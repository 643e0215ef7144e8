/* bf16 - conversion of rows, by the processor's own instructions where it has them. */
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
#else
bool bf16_is_native(void) { return false; }
#endif

void bf16_from_floats(uint16_t *to, const float *from, int64_t count) {
#if VECTOR_BF16
    if (bf16_is_native()) {
        round_natively(to, from, count);
        return;
    }
#endif
    round_plainly(to, from, count);
}
