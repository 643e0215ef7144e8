/* run - glue run: fine-tuning over tasks and seeds as one plan that can be continued. */
#ifndef GLUE_RUN_H
#define GLUE_RUN_H

#include "finetune/finetune.h"

struct run_options {
    struct finetune_options finetune; /* first: its option rows are offered as they are */
    const char *tasks, *seed_list, *format;
    int64_t seeds; /* from finetune.seed on */
    bool discard_models;
};

/* Rows for struct run_options: those of `normglue finetune` except task, output, seed,
 * resume and overwrite, which mean something else here. */
enum { RUN_MAX_OPTIONS = 80 };
void run_option_rows(struct option rows[RUN_MAX_OPTIONS]);

/* Fine-tunes every task with every seed into options->finetune.output and leaves the
 * scores there (scores.h). Finished runs are not redone, unless overwrite; if they, or
 * other seeds of the plan's tasks there, were made with other settings or weights that is
 * ERR_INCOMPATIBLE, before anything runs. A run that fails is reported and the others go
 * on; the status is then that of the first failure. A signal ends all. `command` holds
 * the rows that filled `options`; *has_begun is false when nothing was tried. */
enum status run_plan(const struct run_options *options, const struct command *command,
                     const struct notices *notices, bool *has_begun,
                     struct error *err) MUST_CHECK;

#endif
