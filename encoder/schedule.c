/* schedule - the learning rate of a step.
 *
 * Names are transformers'. A course is a share of the peak after the warm-up; one row a
 * name, of which options, --help and the error for a wrong name are made too. */
#include "encoder/schedule.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Share of the peak rate after warm-up, at step s > warmup. */
typedef double decay(double s, double warmup, double max);

static double remaining(double s, double warmup, double max) {
    return s < max ? (max - s) / (max - warmup) : 0;
}

static double constant(double s, double warmup, double max) {
    (void)s, (void)warmup, (void)max;
    return 1;
}

static double cosine(double s, double warmup, double max) {
    return 0.5 * (1 + cos(M_PI * (1 - remaining(s, warmup, max))));
}

static double inverse_sqrt(double s, double warmup, double max) {
    (void)max;
    return sqrt((warmup > 0 ? warmup : 1) / s);
}

static double polynomial(double s, double warmup, double max) {
    const double left = remaining(s, warmup, max);
    return left * left;
}

#define SCHEDULES(FIRST, ROW)         \
    FIRST("linear", remaining)        \
    ROW("constant", constant)         \
    ROW("cosine", cosine)             \
    ROW("inverse_sqrt", inverse_sqrt) \
    ROW("polynomial", polynomial)

static const struct {
    const char *kind;
    decay *factor;
} table[] = {
#define ROW(kind, factor) {kind, factor},
    SCHEDULES(ROW, ROW)
#undef ROW
};

#define FIRST(kind, factor) kind
#define ROW(kind, factor) "|" kind
const char schedule_kinds[] = SCHEDULES(FIRST, ROW);
#undef FIRST
#undef ROW

double schedule_rate(const struct schedule *s, int64_t step) {
    if (step <= s->warmup_steps)
        return s->peak * (double)step / (double)s->warmup_steps;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].kind, s->kind) == 0)
            return s->peak * table[i].factor((double)step, (double)s->warmup_steps,
                                             (double)s->max_steps);
    assert(!"kind is a row of the table");
    return 0;
}
