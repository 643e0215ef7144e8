/* scattered - the gradient of a table of which a step reads few rows.
 *
 * Nothing but the look-up of word embeddings gives the table a gradient in
 * classification: some hundred of 50,000 rows. Rows that got one are marked. The others
 * are zeros that are neither read nor written, and take no memory: pages are given back
 * to the system before a step, which hands out zeros where it is read or written again.
 * So the gradient is where and what a dense one is, and the update is the same: all
 * moments decay.
 *
 * Where a product writes the whole gradient (the decoder of masked language modelling),
 * the row is dense as any other. */
#ifndef ENCODER_SCATTERED_H
#define ENCODER_SCATTERED_H

#include "encoder/parameters.h"

/* Before rows are added: a stale gradient becomes zero, without a mark. */
void scattered_settle(struct parameter *row);
/* Row `index` of the table gets a gradient. */
static inline void scattered_mark(struct parameter *row, int64_t index) {
    if (row->is_scattered)
        row->marked[index] = 1;
}
/* May row `index` of the table have a gradient other than 0? */
static inline bool scattered_has(const struct parameter *row, int64_t index) {
    return !row->is_scattered || row->marked[index];
}

#endif
