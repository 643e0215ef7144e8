/* scores - what fine-tunings scored, kept on disk: one small JSON file a task and seed.
 *
 *   <folder>/<task>/seed-<n>.json   scores of a finished run, with its settings
 *   <folder>/<task>/seed-<n>/       the fine-tuned model: finetune_run's output
 *
 * A file is written whole when its run has finished, so its being there means "done". */
#ifndef GLUE_SCORES_H
#define GLUE_SCORES_H

#include <jansson.h>

#include "base/file.h"
#include "finetune/finetune.h"

enum { SCORES_MAX_SEEDS = 1000 }; /* of a task */

struct scores_run {
    const struct task *task;
    int64_t seed;
    int64_t max_train_samples, max_eval_samples; /* 0 = all rows */
    struct finetune_result result;
    json_t *settings; /* owned: what must be equal for runs to be comparable */
};

struct scores {
    char *path, *name;       /* as given; the name in a table, its last part */
    char *model;             /* --model of the first run, NULL without runs */
    struct scores_run *runs; /* in the order of glue_tasks, seeds rising */
    int count;
};

/* <folder>/<task>/seed-<n><suffix>, suffix ".json" or "". */
enum status scores_path(char path[PATH_BYTES], const char *folder,
                        const struct task *task, int64_t seed, const char *suffix,
                        struct error *err) MUST_CHECK;
/* Whole or not at all (base/file); the folder must be there. */
enum status scores_write(const struct scores_run *run, const char *path,
                         struct error *err) MUST_CHECK;
/* The file of a run of `task`; scores_run_free() afterwards. */
enum status scores_read(struct scores_run *run, const struct task *task, const char *path,
                        struct error *err) MUST_CHECK;
void scores_run_free(struct scores_run *run);

/* JSON has no NaN: an undefined value is null. */
json_t *scores_number(double value);

/* All finished runs of a folder. A folder without any is ERR_INPUT. */
enum status scores_collect(struct scores *s, const char *folder,
                           struct error *err) MUST_CHECK;
void scores_free(struct scores *s);

#endif
