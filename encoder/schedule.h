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

extern const char *const schedule_kinds; /* "linear|constant|..." for options */
/* Step s from 1: peak s / warmup while s <= warmup; linear: peak (max - s) / (max -
 * warmup). */
double schedule_rate(const struct schedule *s, int64_t step);

#endif
