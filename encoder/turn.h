/* turn - a matrix of bf16 turned: its columns become rows.
 *
 * Whole tiles of TURN_TILE rows and columns only, by AVX-512; where the processor has
 * none, and at edges, callers take small_product's word-wise forms. */
#ifndef ENCODER_TURN_H
#define ENCODER_TURN_H

#include <stdbool.h>
#include <stdint.h>

enum { TURN_TILE = 32 /* elements: a cache line */ };

/* Row c of `to` = column c of `from`, for `columns` columns of `rows` elements; both are
 * multiples of TURN_TILE. Rows are ld_to and ld_from elements apart. Returns false, and
 * does nothing, where the processor cannot. */
bool turn_bf16(uint16_t *to, int64_t ld_to, const uint16_t *from, int64_t ld_from,
               int64_t rows, int64_t columns);

#endif
