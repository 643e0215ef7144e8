/* schedule - the learning rate of a step: warm-up from 0, then a decay. */
#ifndef ENCODER_SCHEDULE_H
#define ENCODER_SCHEDULE_H

#include <stdint.h>

#include "base/error.h"

struct schedule {
    const char *
        kind; /* a row of the table: linear, constant, cosine, inverse_sqrt, polynomial */
    double peak;
    int64_t warmup_steps, max_steps;
};

extern const char schedule_kinds[]; /* "linear|constant|..." for options */
/* Step s from 1: peak s / warmup while s <= warmup, then peak times
 *   linear        l = (max - s) / (max - warmup)
 *   constant      1
 *   cosine        (1 + cos(pi (1 - l))) / 2
 *   inverse_sqrt  sqrt(warmup / s)
 *   polynomial    l^2
 * and 0 from step max on, where l is used. */
double schedule_rate(const struct schedule *s, int64_t step);

#endif
