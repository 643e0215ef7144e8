/* options_example - the table that the tests of options share: a row of every kind. */
#ifndef TESTS_OPTIONS_EXAMPLE_H
#define TESTS_OPTIONS_EXAMPLE_H

#include <math.h>
#include <stddef.h>

#include "base/options.h"

struct values {
    struct options_state *state;
    int64_t steps, seed;
    double rate, ratio;
    bool shuffle, overwrite;
    const char *output, *dtype;
    struct option_list train;
};

#define FIELD(name) offsetof(struct values, name)
static const struct option rows[] = {
    {"train", OPTION_LIST, FIELD(train), NULL, 0, 0, "FILE", "Data", "text to learn from",
     false},
    {"shuffle", OPTION_FLAG, FIELD(shuffle), "true", 0, 0, NULL, "Data",
     "another order each epoch", false},
    {"max-steps", OPTION_INTEGER, FIELD(steps), "1000", 1, 1e12, NULL, "Training",
     "optimizer steps", false},
    {"seed", OPTION_INTEGER, FIELD(seed), NULL, 0, 0, NULL, "Training",
     "of all random numbers", false},
    {"learning-rate", OPTION_NUMBER, FIELD(rate), "1e-4", 0, 1, NULL, "Training",
     "peak learning rate, which is reached after the warm-up and then falls as the "
     "schedule says",
     false},
    {"warmup-ratio", OPTION_NUMBER, FIELD(ratio), NULL, 0, INFINITY, NULL, "Training",
     "share of steps to warm up in", false},
    {"dtype", OPTION_CHOICE, FIELD(dtype), "auto", 0, 0, "auto|f32|bf16", "Training",
     "number format", false},
    {"output", OPTION_STRING, FIELD(output), NULL, 0, 0, "DIR", "Output",
     "folder to write to", true},
    {"overwrite", OPTION_FLAG, FIELD(overwrite), NULL, 0, 0, NULL, "Output",
     "write into a folder that is not empty", false},
    {0},
};
static const struct command command = {
    "normglue try", "--output DIR [OPTION]...", "Tries the options.", NULL, rows, NULL};

#endif
