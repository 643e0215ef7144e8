/* command - normglue finetune. */
#include <string.h>

#include "base/interrupt.h"
#include "finetune/finetune.h"
#include "finetune/results.h"

static const struct command command = {
    .name = "normglue finetune",
    .usage = "--model DIR --task NAME --data DIR --output DIR",
    .summary =
        "Trains a classifier or regressor from a pretrained model directory and "
        "prints the scores of the model that was best on the task's dev set.",
    .epilog =
        "The output directory is the best model, ready for normglue predict, with "
        "eval_results.json,\nmetrics.jsonl, run_config.json and checkpoints. "
        "Example:\n\n"
        "  normglue finetune --model run/ --task rte --data GLUE/ --output run-rte/",
    .options = finetune_option_table,
};

static enum status run(const struct finetune_options *options, struct task_list tasks,
                       struct error *err) {
    struct device *device = NULL;
    struct finetune_result result;
    const struct task *task = task_find(tasks, options->task, err);
    if (!task)
        return err->status;
    TRY(device_open(&device, (int)options->threads, &notices_stderr, err));
    interrupt_install();
    enum status status =
        finetune_run(options, task, device, &notices_stderr, &result, err);
    device_close(device);
    if (status == OK)
        results_print(&result);
    return status;
}

int finetune_command(int argc, char **argv, struct task_list tasks) {
    struct finetune_options options;
    struct error err;
    bool help = false;
    enum status status = options_parse(&command, &options, argc, argv, NULL, &help, &err);
    if (status == OK && help)
        options_print_help(&command);
    else if (status == OK)
        status = run(&options, tasks, &err);
    return options_finish(&command, &options, status, &err);
}
