/* glue - the GLUE benchmark: its nine tasks as rows of finetune/task.h, and the commands.
 */
#ifndef GLUE_GLUE_H
#define GLUE_GLUE_H

#include "finetune/task.h"

/* CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI, in the order of the official
 * table. */
extern const struct task_list glue_tasks;

/* normglue glue run|table */
int glue_command(int argc, char **argv);

#endif
