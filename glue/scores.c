/* scores - what fine-tunings scored, kept on disk: one small JSON file a task and seed.
 *
 * The file of a run, in the order it is written:
 *
 *   {"task": "rte", "seed": 1,
 *    "splits": [{"split": "dev", "rows": 277, "loss": 0.69,
 *                "score": {"accuracy": 0.55, "combined_score": 0.55,
 *                          "one_class_predicted": false},
 *                "majority": {...}}],          an entry for each eval split, in order
 *    "train_rows": 2490, "max_steps": 1560, "best_step": 624,
 *    "max_train_samples": 0, "max_eval_samples": 0, "seconds": 12.5,
 *    "model_type": "normglue", "arch": "normformer",
 *    "settings": {"model": "run/", "learning_rate": 1e-05, ...}}
 *
 * Metrics are shares of one; an undefined one is null. `settings` are the options that
 * change scores (run.c), compared when a plan is continued. Whoever edits a file gets an
 * error that names the member, or another score: nothing here can crash a reader.
 */
#include "glue/scores.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"
#include "glue/glue.h"
#include "glue/scoring.h"

enum {
    MOST_SPLITS = sizeof((struct finetune_result *)0)->splits /
                  sizeof((struct finetune_result *)0)->splits[0]
};

enum status scores_path(char path[PATH_BYTES], const char *folder,
                        const struct task *task, int64_t seed, const char *suffix,
                        struct error *err) {
    char name[96];
    snprintf(name, sizeof name, "%s/seed-%lld%s", task->name, (long long)seed, suffix);
    return file_join(path, folder, name, err);
}

void scores_run_free(struct scores_run *run) {
    json_decref(run->settings);
    run->settings = NULL;
}

json_t *scores_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *score_to_json(const struct score *score) {
    json_t *object = json_object();
    for (int i = 0; i < score->count; i++)
        json_object_set_new(object, score->metrics[i].name,
                            scores_number(score->metrics[i].value));
    json_object_set_new(object, "combined_score", scores_number(score->combined));
    json_object_set_new(object, "one_class_predicted",
                        json_boolean(score->one_class_predicted));
    return object;
}

static json_t *split_to_json(const struct finetune_split_result *split) {
    return json_pack("{s:s, s:I, s:o, s:o, s:o}", "split", split->split, "rows",
                     (json_int_t)split->rows, "loss", scores_number(split->loss), "score",
                     score_to_json(&split->score), "majority",
                     score_to_json(&split->majority));
}

static json_t *run_to_json(const struct scores_run *run) {
    const struct finetune_result *r = &run->result;
    json_t *splits = json_array();
    for (int i = 0; i < r->num_splits; i++)
        json_array_append_new(splits, split_to_json(&r->splits[i]));
    return json_pack(
        "{s:s, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:f, s:s, s:s, s:O}", "task",
        run->task->name, "seed", (json_int_t)run->seed, "splits", splits, "train_rows",
        (json_int_t)r->train_rows, "max_steps", (json_int_t)r->max_steps, "best_step",
        (json_int_t)r->best_step, "max_train_samples", (json_int_t)run->max_train_samples,
        "max_eval_samples", (json_int_t)run->max_eval_samples, "seconds", r->seconds,
        "model_type", r->model_type, "arch", r->arch, "settings", run->settings);
}

enum status scores_write(const struct scores_run *run, const char *path,
                         struct error *err) {
    json_t *object = run_to_json(run);
    if (!object)
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    const enum status status = json_file_write(object, path, err);
    json_decref(object);
    return status;
}

/* Which metrics there are is the task's to say, not the file's. */
static enum status read_score(const json_t *object, const char *path,
                              const struct task *task, struct score *score,
                              struct error *err) {
    const double undefined = (double)NAN;
    scoring_prepare(task, score);
    for (int i = 0; i < score->count; i++)
        TRY(json_file_number(object, path, score->metrics[i].name, -1, 1, undefined,
                             &score->metrics[i].value, err));
    TRY(json_file_number(object, path, "combined_score", -1, 1, undefined,
                         &score->combined, err));
    return json_file_boolean(object, path, "one_class_predicted", false,
                             &score->one_class_predicted, err);
}

/* Names are for showing: one that is too long is cut. */
static enum status copy_string(const json_t *object, const char *path, const char *key,
                               char *out, size_t size, struct error *err) {
    const char *text;
    TRY(json_file_string(object, path, key, "", &text, err));
    snprintf(out, size, "%s", text);
    return OK;
}

static enum status read_split(const json_t *object, const char *path,
                              const struct task *task, struct finetune_split_result *out,
                              struct error *err) {
    TRY(copy_string(object, path, "split", out->split, sizeof out->split, err));
    TRY(json_file_integer(object, path, "rows", 0, INT64_MAX, 0, &out->rows, err));
    TRY(json_file_number(object, path, "loss", 0, HUGE_VAL, (double)NAN, &out->loss,
                         err));
    TRY(read_score(json_object_get(object, "score"), path, task, &out->score, err));
    return read_score(json_object_get(object, "majority"), path, task, &out->majority,
                      err);
}

/* The splits must be the task's, in its order. */
static enum status read_splits(const json_t *splits, const char *path,
                               struct scores_run *run, struct error *err) {
    struct finetune_result *r = &run->result;
    for (int i = 0; i < MOST_SPLITS && run->task->eval_splits[i]; i++) {
        TRY(read_split(json_array_get(splits, (size_t)i), path, run->task, &r->splits[i],
                       err));
        if (strcmp(r->splits[i].split, run->task->eval_splits[i]) != 0)
            return error_set(err, ERR_INPUT, "%s: splits: expected '%s', found '%s'",
                             path, run->task->eval_splits[i], r->splits[i].split);
        r->num_splits++;
    }
    return OK;
}

static enum status read_counts(const json_t *o, const char *path, struct scores_run *run,
                               struct error *err) {
    struct finetune_result *r = &run->result;
    const struct {
        const char *key;
        int64_t *value;
    } rows[] = {{"seed", &run->seed},
                {"train_rows", &r->train_rows},
                {"max_steps", &r->max_steps},
                {"best_step", &r->best_step},
                {"max_train_samples", &run->max_train_samples},
                {"max_eval_samples", &run->max_eval_samples}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        TRY(json_file_integer(o, path, rows[i].key, 0, INT64_MAX, 0, rows[i].value, err));
    return json_file_number(o, path, "seconds", 0, HUGE_VAL, 0, &r->seconds, err);
}

static enum status from_json(json_t *o, const char *path, struct scores_run *run,
                             struct error *err) {
    struct finetune_result *r = &run->result;
    const char *name;
    TRY(json_file_string(o, path, "task", "", &name, err));
    if (strcmp(name, run->task->name) != 0)
        return error_set(err, ERR_INPUT, "%s: task: expected '%s', found '%s'", path,
                         run->task->name, name);
    TRY(read_counts(o, path, run, err));
    TRY(copy_string(o, path, "model_type", r->model_type, sizeof r->model_type, err));
    TRY(copy_string(o, path, "arch", r->arch, sizeof r->arch, err));
    TRY(read_splits(json_object_get(o, "splits"), path, run, err));
    run->settings = json_incref(json_object_get(o, "settings"));
    if (!json_is_object(run->settings))
        return error_set(err, ERR_INPUT, "%s: settings: expected an object", path);
    return OK;
}

enum status scores_read(struct scores_run *run, const struct task *task, const char *path,
                        struct error *err) {
    json_t *object;
    *run = (struct scores_run){.task = task};
    TRY(json_file_read(&object, path, err));
    const enum status status = from_json(object, path, run, err);
    json_decref(object);
    if (status != OK)
        scores_run_free(run);
    return status;
}

static int by_number(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Seeds of the finished runs of a task, rising; 0 when the folder has none. */
static int list_seeds(const char *folder, int64_t seeds[SCORES_MAX_SEEDS]) {
    DIR *directory = opendir(folder);
    int count = 0;
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        long long seed;
        char end[8];
        if (count < SCORES_MAX_SEEDS &&
            sscanf(entry->d_name, "seed-%lld%7s", &seed, end) == 2 &&
            strcmp(end, ".json") == 0)
            seeds[count++] = seed;
    }
    if (directory)
        closedir(directory);
    qsort(seeds, (size_t)count, sizeof *seeds, by_number);
    return count;
}

static enum status collect_task(struct scores *s, const struct task *task,
                                struct error *err) {
    char path[PATH_BYTES];
    int64_t seeds[SCORES_MAX_SEEDS];
    TRY(file_join(path, s->path, task->name, err));
    const int count = list_seeds(path, seeds);
    const size_t total = (size_t)(s->count + count);
    if (count == 0)
        return OK;
    struct scores_run *runs = realloc(s->runs, total * sizeof *runs);
    if (!runs)
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    s->runs = runs;
    for (int i = 0; i < count; i++) {
        TRY(scores_path(path, s->path, task, seeds[i], ".json", err));
        TRY(scores_read(&s->runs[s->count], task, path, err));
        s->count++;
    }
    return OK;
}

/* "scores/" and "scores" are one folder and get one name. */
static enum status set_names(struct scores *s, const char *folder, struct error *err) {
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        length--;
    s->path = strndup(folder, length);
    const char *slash = s->path ? strrchr(s->path, '/') : NULL;
    s->name = s->path ? strdup(slash && slash[1] ? slash + 1 : s->path) : NULL;
    if (!s->name)
        return error_set(err, ERR_MEMORY, "%s: out of memory", folder);
    return OK;
}

/* All tasks of the table are looked for; what else is in the folder is nobody's business.
 */
static enum status collect(struct scores *s, const char *folder, struct error *err) {
    TRY(set_names(s, folder, err));
    if (!file_is_directory(s->path))
        return error_set(err, ERR_INPUT,
                         "%s: expected a folder of scores, found no folder", s->path);
    for (int i = 0; i < glue_tasks.count; i++)
        TRY(collect_task(s, glue_tasks.items[i], err));
    if (s->count == 0)
        return error_set(err, ERR_INPUT,
                         "%s: no scores here; expected <task>/seed-<n>.json as "
                         "normglue glue run writes them",
                         s->path);
    const char *model = json_string_value(json_object_get(s->runs[0].settings, "model"));
    s->model = strdup(model ? model : "");
    return s->model ? OK : error_set(err, ERR_MEMORY, "%s: out of memory", s->path);
}

enum status scores_collect(struct scores *s, const char *folder, struct error *err) {
    *s = (struct scores){0};
    const enum status status = collect(s, folder, err);
    if (status != OK)
        scores_free(s);
    return status;
}

void scores_free(struct scores *s) {
    for (int i = 0; i < s->count; i++)
        scores_run_free(&s->runs[i]);
    free(s->runs);
    free(s->path);
    free(s->name);
    free(s->model);
    *s = (struct scores){0};
}
