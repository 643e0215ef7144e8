/* dataset - a split of an official GLUE folder as examples.
 *
 * Columns are found by the header's names. A header without any of the names but with the
 * official number of columns is read by position, with a notice; the header of another
 * task is an error that names both. Every row must have as many fields as the header,
 * except that malformed rows of tasks with `skip_malformed` are counted and left out. */
#ifndef GLUE_DATASET_H
#define GLUE_DATASET_H

#include "finetune/task.h"

/* The `read` of every task of glue/tasks.c: DATA/<folder>/<split>.tsv. A split that the
 * task does not have is ERR_USAGE; a missing, empty or malformed file ERR_INPUT. Test
 * splits come unlabelled. */
enum status dataset_read(const struct task *task, const char *data, const char *split,
                         int64_t limit, struct examples *out,
                         const struct notices *notices, struct error *err) MUST_CHECK;

#endif
