/* results - scores as metrics of the trainer, as JSON and as a table.
 *
 * Scores travel as named numbers of the trainer, which logs them, keeps those of the best
 * step and restores both when a run is resumed; results_add and results_take are the two
 * ways between these and struct score. So the scores of the best step survive a resume.
 *
 * Keys are those of Hugging Face's run_glue: eval_<metric>, for MNLI's second split with
 * _mm, eval_combined_score as the mean where there are several. */
#include "finetune/results.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json_file.h"

enum { NAME_BYTES = sizeof((struct trainer_metrics *)0)->values[0].name };
enum {
    MOST_VALUES = sizeof((struct trainer_metrics *)0)->values /
                  sizeof((struct trainer_metrics *)0)->values[0]
};

static void name_value(char name[NAME_BYTES], const char *metric, bool second) {
    snprintf(name, NAME_BYTES, "eval_%s%s", metric, second ? "_mm" : "");
}

static void add_value(struct trainer_metrics *out, const char *metric, double value,
                      bool second) {
    assert(out->count < MOST_VALUES);
    name_value(out->values[out->count].name, metric, second);
    out->values[out->count++].value = value;
}

void results_add(struct trainer_metrics *out, const struct score *score, double loss,
                 bool second) {
    if (score->count > 1)
        add_value(out, "combined_score", score->combined, second);
    for (int i = 0; i < score->count; i++)
        add_value(out, score->metrics[i].name, score->metrics[i].value, second);
    add_value(out, "loss", loss, second);
    add_value(out, "one_class", score->one_class_predicted, second);
}

static double find_value(const struct trainer_metrics *from, const char *metric,
                         bool second) {
    char name[NAME_BYTES];
    name_value(name, metric, second);
    for (int i = 0; i < from->count; i++)
        if (strcmp(from->values[i].name, name) == 0)
            return from->values[i].value;
    return (double)NAN;
}

void results_take(struct finetune_split_result *split, const struct trainer_metrics *from,
                  bool second) {
    struct score *score = &split->score;
    *score = split->majority;
    for (int i = 0; i < score->count; i++)
        score->metrics[i].value = find_value(from, score->metrics[i].name, second);
    score->combined = find_value(
        from, score->count > 1 ? "combined_score" : score->metrics[0].name, second);
    score->one_class_predicted = find_value(from, "one_class", second) == 1;
    split->loss = find_value(from, "loss", second);
}

static int set_number(json_t *object, const char *prefix, const char *metric, bool second,
                      double value) {
    char name[64];
    snprintf(name, sizeof name, "%s_%s%s", prefix, metric, second ? "_mm" : "");
    return json_object_set_new(object, name,
                               isfinite(value) ? json_real(value) : json_null());
}

static int set_score(json_t *object, const char *prefix, const struct score *score,
                     bool second) {
    int failed = 0;
    for (int i = 0; i < score->count; i++)
        failed |= set_number(object, prefix, score->metrics[i].name, second,
                             score->metrics[i].value);
    if (score->count > 1)
        failed |= set_number(object, prefix, "combined_score", second, score->combined);
    return failed;
}

static int set_split(json_t *object, const struct finetune_split_result *split,
                     bool second) {
    char name[32];
    int failed = set_score(object, "eval", &split->score, second);
    failed |= set_number(object, "eval", "loss", second, split->loss);
    snprintf(name, sizeof name, "eval_samples%s", second ? "_mm" : "");
    failed |= json_object_set_new(object, name, json_integer(split->rows));
    snprintf(name, sizeof name, "eval_split%s", second ? "_mm" : "");
    failed |= json_object_set_new(object, name, json_string(split->split));
    return failed | set_score(object, "majority", &split->majority, second);
}

static int set_run(json_t *object, const struct finetune_result *r,
                   const struct finetune_options *options) {
    return json_object_set_new(object, "train_samples", json_integer(r->train_rows)) |
           json_object_set_new(object, "max_steps", json_integer(r->max_steps)) |
           json_object_set_new(object, "best_step", json_integer(r->best_step)) |
           set_number(object, "train", "runtime", false, r->seconds) |
           json_object_set_new(object, "seed", json_integer(options->seed)) |
           json_object_set_new(object, "model", json_string(options->model)) |
           json_object_set_new(object, "model_type", json_string(r->model_type)) |
           json_object_set_new(object, "arch", json_string(r->arch));
}

enum status results_write(const struct finetune_result *r,
                          const struct finetune_options *options, const struct task *task,
                          struct error *err) {
    char path[PATH_BYTES];
    TRY(file_join(path, options->output, "eval_results.json", err));
    json_t *object = json_object();
    int failed = json_object_set_new(object, "task", json_string(task->name));
    for (int i = 0; i < r->num_splits; i++)
        failed |= set_split(object, &r->splits[i], i > 0);
    failed |= set_run(object, r, options);
    enum status status = failed ? error_set(err, ERR_MEMORY, "%s: out of memory", path)
                                : json_file_write(object, path, err);
    json_decref(object);
    return status;
}

/* One cell, right-aligned under its heading. */
static void print_cell(const char *heading, const char *prefix, double value) {
    char text[32] = "nan";
    int width = (int)(strlen(heading) + strlen(prefix));
    if (isfinite(value))
        snprintf(text, sizeof text, "%.4f", value);
    printf("  %*s", width > 6 ? width : 6, text);
}

static void print_headings(const struct score *score, const char *prefix) {
    for (int i = 0; i < score->count; i++) {
        const char *name = score->metrics[i].name;
        int width = 6 - (int)strlen(prefix) - (int)strlen(name);
        printf("  %*s%s%s", width > 0 ? width : 0, "", prefix, name);
    }
}

void results_print(const struct finetune_result *r) {
    static const char baseline[] = "majority ";
    printf("%-14s  %6s", "split", "rows");
    print_headings(&r->splits[0].score, "");
    print_headings(&r->splits[0].majority, baseline);
    printf("  best step\n");
    for (int s = 0; s < r->num_splits; s++) {
        const struct finetune_split_result *split = &r->splits[s];
        printf("%-14s  %6lld", split->split, (long long)split->rows);
        for (int i = 0; i < split->score.count; i++)
            print_cell(split->score.metrics[i].name, "", split->score.metrics[i].value);
        for (int i = 0; i < split->majority.count; i++)
            print_cell(split->majority.metrics[i].name, baseline,
                       split->majority.metrics[i].value);
        printf("  %9lld\n", (long long)r->best_step);
    }
}
