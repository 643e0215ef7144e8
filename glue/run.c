/* run - glue run: fine-tuning over tasks and seeds as one plan that can be continued.
 *
 * The plan is tasks x seeds, tasks outermost. Before anything runs, the command line, the
 * data folder and the settings of every run that has already finished are checked, so
 * that a mistake costs seconds, not the hours until it is reached. Seeds of an earlier
 * plan count too: the table takes the median over all that are in the folder. Then each
 * run is one of
 *
 *   done before    its score file is there: nothing to do
 *   cut short      its folder has checkpoints: finetune_run resumes from the newest
 *   new            finetune_run into an empty folder
 *
 * and ends with its score file, written last and whole. What may differ between a plan
 * and its continuation are the options of `immaterial`; the weights of the starting model
 * are compared by checksum, because a path stays the same when its model is trained on.
 */
#include "glue/run.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "encoder/checkpoint.h"
#include "glue/glue.h"
#include "glue/scores.h"
#include "glue/table.h"

#define FIELD(name) offsetof(struct run_options, name)

static const char plan_group[] = "Plan";
static const struct option own_rows[] = {
    {"output", OPTION_STRING, FIELD(finetune.output), NULL, 0, 0, "DIR", plan_group,
     "where scores and fine-tuned models go; a run that was cut short goes on there",
     true},
    {"tasks", OPTION_STRING, FIELD(tasks), "all", 0, 0, "NAME,...", plan_group,
     "all, or some of cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte, wnli", false},
    {"seeds", OPTION_INTEGER, FIELD(seeds), "1", 1, SCORES_MAX_SEEDS, NULL, plan_group,
     "how many seeds for each task, counted up from --seed", false},
    {"seed", OPTION_INTEGER, FIELD(finetune.seed), "1", 0, 4294967295.0, NULL, plan_group,
     "the first seed", false},
    {"seed-list", OPTION_STRING, FIELD(seed_list), NULL, 0, 0, "N,...", plan_group,
     "these seeds instead", false},
    {"overwrite", OPTION_FLAG, FIELD(finetune.overwrite), "false", 0, 0, NULL, plan_group,
     "redo runs that have finished", false},
    {"discard-models", OPTION_FLAG, FIELD(discard_models), "false", 0, 0, NULL,
     plan_group, "keep only the scores of a finished run, not its model", false},
    {"format", OPTION_CHOICE, FIELD(format), "plain", 0, 0, TABLE_FORMATS, plan_group,
     "of the score table", false},
};
enum { NUM_OWN_ROWS = sizeof own_rows / sizeof own_rows[0] };

/* Rows of `normglue finetune` that are not offered: those above, and what the plan sets.
 */
static bool is_replaced(const char *name) {
    for (int i = 0; i < NUM_OWN_ROWS; i++)
        if (strcmp(own_rows[i].name, name) == 0)
            return true;
    return strcmp(name, "task") == 0 || strcmp(name, "resume") == 0;
}

void run_option_rows(struct option rows[RUN_MAX_OPTIONS]) {
    int count = NUM_OWN_ROWS;
    memcpy(rows, own_rows, sizeof own_rows);
    for (const struct option *row = finetune_option_table; row->name; row++)
        if (!is_replaced(row->name)) {
            assert(count < RUN_MAX_OPTIONS - 1);
            rows[count++] = *row;
        }
    rows[count] = (struct option){0};
}

/* The whole run: what to do, what it is done with, and how far it has come. */
struct plan {
    const struct run_options *options;
    const struct command *command;
    const struct notices *notices;
    struct device *device;
    json_t *settings;
    const struct task *tasks[16];
    int64_t seeds[SCORES_MAX_SEEDS];
    int num_tasks, num_seeds, num_started;
    int num_failed;
    struct error first_failure;
};

/* The next word of a list separated by commas or spaces, or false. */
static bool next_word(const char **list, char *word, size_t size) {
    static const char separators[] = ", ";
    *list += strspn(*list, separators);
    const size_t length = strcspn(*list, separators);
    snprintf(word, size, "%.*s", (int)length, *list);
    *list += length;
    return length > 0;
}

/* A task named twice is planned once. */
static enum status add_task(struct plan *p, const char *name, struct error *err) {
    const struct task *task = task_find(glue_tasks, name, err);
    if (!task)
        return err->status;
    for (int i = 0; i < p->num_tasks; i++)
        if (p->tasks[i] == task)
            return OK;
    p->tasks[p->num_tasks++] = task;
    return OK;
}

static enum status plan_tasks(struct plan *p, struct error *err) {
    const char *list = p->options->tasks;
    char word[64];
    assert(glue_tasks.count <= (int)(sizeof p->tasks / sizeof p->tasks[0]));
    while (next_word(&list, word, sizeof word)) {
        if (strcmp(word, "all") != 0) {
            TRY(add_task(p, word, err));
            continue;
        }
        for (int i = 0; i < glue_tasks.count; i++)
            TRY(add_task(p, glue_tasks.items[i]->name, err));
    }
    if (p->num_tasks == 0)
        return error_set(err, ERR_USAGE,
                         "--tasks: expected 'all' or names with commas between them, "
                         "found '%s'",
                         p->options->tasks);
    return OK;
}

static enum status add_seed(struct plan *p, int64_t seed, struct error *err) {
    if (p->num_seeds == SCORES_MAX_SEEDS)
        return error_set(err, ERR_USAGE, "more than %d seeds", SCORES_MAX_SEEDS);
    p->seeds[p->num_seeds++] = seed;
    return OK;
}

static enum status plan_seeds(struct plan *p, struct error *err) {
    const char *list = p->options->seed_list;
    char word[64];
    for (int64_t i = 0; !list && i < p->options->seeds; i++)
        TRY(add_seed(p, p->options->finetune.seed + i, err));
    while (list && next_word(&list, word, sizeof word)) {
        char *end;
        errno = 0;
        const long long seed = strtoll(word, &end, 10);
        if (errno != 0 || *end || seed < 0 || seed > UINT32_MAX)
            return error_set(
                err, ERR_USAGE,
                "--seed-list: expected whole numbers from 0 to %u with commas "
                "between them, found '%s'",
                UINT32_MAX, word);
        TRY(add_seed(p, seed, err));
    }
    return p->num_seeds > 0 ? OK : error_set(err, ERR_USAGE, "--seed-list: no seed");
}

/* Options that change no score. */
static const char *const immaterial[] = {"tasks",
                                         "seeds",
                                         "seed_list",
                                         "seed",
                                         "output",
                                         "format",
                                         "discard_models",
                                         "progress",
                                         "overwrite",
                                         "threads",
                                         "resume",
                                         "logging_steps",
                                         "save_steps",
                                         "save_total_limit",
                                         "per_device_eval_batch_size",
                                         "max_tokens"};

/* Options and starting weights, for telling whether runs belong together. */
static enum status make_settings(struct plan *p, struct error *err) {
    char path[PATH_BYTES], directory[PATH_BYTES];
    uint64_t size;
    uint32_t crc;
    struct error unread;
    p->settings = options_to_json(p->command, p->options);
    if (!p->settings)
        return error_set(err, ERR_MEMORY, "out of memory: the settings");
    for (size_t i = 0; i < sizeof immaterial / sizeof immaterial[0]; i++)
        json_object_del(p->settings, immaterial[i]);
    /* What cannot be opened gets its sentence from the run that tries to. */
    if (checkpoint_resolve_model(p->options->finetune.model, directory, NULL, &unread) !=
        OK)
        return OK;
    TRY(file_join(path, directory, "model.safetensors", err));
    TRY(file_checksum(path, &size, &crc, err));
    if (json_object_set_new(p->settings, "weights_crc32c", json_integer(crc)) != 0)
        return error_set(err, ERR_MEMORY, "out of memory: the settings");
    return OK;
}

/* A setting as text for a sentence; absent and null are "unset", as options are. */
static void dump(const json_t *value, char *text, size_t size) {
    char *json = json_is_null(value) || !value
                     ? NULL
                     : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    snprintf(text, size, "%.100s", json ? json : "unset");
    free(json);
}

/* The settings of a finished run must be those of the plan. */
static enum status compare_settings(const struct plan *p, const struct scores_run *run,
                                    const char *path, bool is_planned,
                                    struct error *err) {
    const char *key;
    json_t *now;
    json_object_foreach(p->settings, key, now) {
        char was[128], is[128];
        const json_t *then = json_object_get(run->settings, key);
        if (json_equal(then, now))
            continue;
        dump(then, was, sizeof was);
        dump(now, is, sizeof is);
        return error_set(err, ERR_INCOMPATIBLE,
                         "%s was made with %s %s, not %s: use another --output%s", path,
                         key, was, is, is_planned ? ", or --overwrite to redo it" : "");
    }
    return OK;
}

/* Sets *is_done when the run has finished before. */
static enum status check_done(const struct plan *p, const struct task *task, int64_t seed,
                              bool *is_done, struct error *err) {
    char path[PATH_BYTES];
    struct scores_run run;
    *is_done = false;
    TRY(scores_path(path, p->options->finetune.output, task, seed, ".json", err));
    if (p->options->finetune.overwrite || !file_exists(path))
        return OK;
    TRY(scores_read(&run, task, path, err));
    const enum status status = compare_settings(p, &run, path, true, err);
    scores_run_free(&run);
    *is_done = status == OK;
    return status;
}

static bool is_planned(const struct plan *p, const struct scores_run *run) {
    bool has_seed = false;
    for (int s = 0; s < p->num_seeds; s++)
        has_seed |= p->seeds[s] == run->seed;
    return has_seed;
}

static bool has_task(const struct plan *p, const struct task *task) {
    for (int t = 0; t < p->num_tasks; t++)
        if (p->tasks[t] == task)
            return true;
    return false;
}

/* Other seeds of the plan's tasks, of an earlier plan: the table takes their median with
 * these. */
static enum status check_others(const struct plan *p, struct error *err) {
    char path[PATH_BYTES];
    struct scores all;
    struct error nothing;
    const char *output = p->options->finetune.output;
    if (scores_collect(&all, output, &nothing) != OK)
        return OK;
    enum status status = OK;
    for (int i = 0; i < all.count && status == OK; i++) {
        const struct scores_run *run = &all.runs[i];
        if (!has_task(p, run->task) || is_planned(p, run))
            continue;
        status = scores_path(path, output, run->task, run->seed, ".json", err);
        if (status == OK)
            status = compare_settings(p, run, path, false, err);
    }
    scores_free(&all);
    return status;
}

/* Every finished run of the plan is compared now, not when its turn comes after hours. */
static enum status check_plan(const struct plan *p, struct error *err) {
    bool is_done;
    const struct finetune_options *o = &p->options->finetune;
    if (!file_is_directory(o->data))
        return error_set(err, ERR_INPUT, "%s: expected the GLUE folder, found no folder",
                         o->data);
    for (int t = 0; t < p->num_tasks; t++)
        for (int s = 0; s < p->num_seeds; s++)
            TRY(check_done(p, p->tasks[t], p->seeds[s], &is_done, err));
    return check_others(p, err);
}

/* The score file is written before the model is removed: a stop between the two leaves a
 * folder too many, never a score too few. */
static enum status keep_scores(const struct plan *p, const struct task *task,
                               const struct finetune_options *o,
                               const struct finetune_result *result, struct error *err) {
    char path[PATH_BYTES];
    const struct scores_run run = {.task = task,
                                   .seed = o->seed,
                                   .max_train_samples = o->max_train_samples,
                                   .max_eval_samples = o->max_eval_samples,
                                   .result = *result,
                                   .settings = p->settings};
    TRY(scores_path(path, p->options->finetune.output, task, o->seed, ".json", err));
    TRY(scores_write(&run, path, err));
    return p->options->discard_models ? file_remove_tree(o->output, err) : OK;
}

/* --overwrite removes the old score first, so that a run that then fails is not taken for
 * the one before it. */
static enum status run_one(const struct plan *p, const struct task *task, int64_t seed,
                           struct error *err) {
    char output[PATH_BYTES], scores[PATH_BYTES];
    struct finetune_options o = p->options->finetune;
    struct finetune_result result;
    TRY(scores_path(output, o.output, task, seed, "", err));
    TRY(scores_path(scores, o.output, task, seed, ".json", err));
    if (o.overwrite && unlink(scores) != 0 && errno != ENOENT)
        return error_system(err, scores, "cannot remove");
    o.task = task->name;
    o.seed = seed;
    o.output = output;
    o.resume = o.overwrite ? "never" : "auto";
    TRY(finetune_run(&o, task, p->device, p->notices, &result, err));
    return keep_scores(p, task, &o, &result, err);
}

/* Only a signal is an error here; a run that fails is noted. */
static enum status try_one(struct plan *p, const struct task *task, int64_t seed,
                           struct error *err) {
    bool is_done = false;
    const int total = p->num_tasks * p->num_seeds;
    enum status status = check_done(p, task, seed, &is_done, err);
    notice(p->notices, "[%d/%d] %s, seed %lld%s", ++p->num_started, total, task->title,
           (long long)seed, is_done ? ": done before" : "");
    if (status == OK && !is_done)
        status = run_one(p, task, seed, err);
    if (status == STOPPED_SIGINT || status == STOPPED_SIGTERM)
        notice(p->notices, "stopped and saved; the same command goes on from here");
    if (status == OK || status == STOPPED_SIGINT || status == STOPPED_SIGTERM)
        return status;
    notice(p->notices, "%s, seed %lld failed: %s", task->title, (long long)seed,
           err->text);
    if (p->num_failed++ == 0) {
        p->first_failure = *err;
        error_context(&p->first_failure, "%s, seed %lld", task->title, (long long)seed);
    }
    return OK;
}

/* Tasks outermost: a task has all its seeds before the next begins. */
static enum status run_all(struct plan *p, struct error *err) {
    for (int t = 0; t < p->num_tasks; t++)
        for (int s = 0; s < p->num_seeds; s++)
            TRY(try_one(p, p->tasks[t], p->seeds[s], err));
    if (p->num_failed == 0)
        return OK;
    *err = p->first_failure;
    return error_context(err, "%d of %d runs failed, the first", p->num_failed,
                         p->num_tasks * p->num_seeds);
}

static enum status make_plan(struct plan *p, struct error *err) {
    TRY(plan_tasks(p, err));
    TRY(plan_seeds(p, err));
    TRY(make_settings(p, err));
    return check_plan(p, err);
}

enum status run_plan(const struct run_options *options, const struct command *command,
                     const struct notices *notices, bool *has_begun, struct error *err) {
    struct plan p = {.options = options, .command = command, .notices = notices};
    enum status status = make_plan(&p, err);
    if (status == OK)
        status = device_open(&p.device, (int)options->finetune.threads, notices, err);
    if (status == OK) {
        interrupt_install();
        status = run_all(&p, err);
        device_close(p.device);
    }
    json_decref(p.settings);
    *has_begun = p.num_started > 0;
    return status;
}
