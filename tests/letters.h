/* letters - an invented task that is learnt in seconds, and a whole fine-tuning on it.
 *
 * A model of 32 channels tells the classes apart within a few epochs, so that a test can
 * ask for more than "the loss fell": the score must pass the majority's. What can go
 * wrong in a benchmark (no labels, no rows, long texts, one class) is a field of its
 * course. */
#ifndef TESTS_LETTERS_H
#define TESTS_LETTERS_H

#include "finetune/finetune.h"

enum { LETTERS_TRAIN_ROWS = 90, LETTERS_DEV_ROWS = 32 };

/* How the task behaves; its `row`. */
struct letters_course {
    int fail_at; /* the scoring that fails, from 1; 0 = none. A killed process. */
    int *scored;
    bool one_class, unlabelled, empty;
    size_t long_text; /* letters of a text, 0 = 6 */
};

/* Two classes, "early" (one of three rows) and "late", told by the letters of the text;
 * with num_labels 1 a score from 0 to 5. */
struct task letters_task(const struct letters_course *course);
/* A tiny model without a head, made once. */
const char *letters_model(void);

/* The notices of a run, a line each. */
struct letters_heard {
    char text[8192];
};
/* Fine-tunes on one thread with default options; `words` are further ones, ended by
 * NULL. */
enum status letters_run(const char *model, const char *output, struct task task,
                        struct finetune_result *result, struct letters_heard *heard,
                        struct error *err, const char *const *words);

#endif
