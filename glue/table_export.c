/* table_export - the score table for programs: TSV and JSON.
 *
 * TSV has a line for each metric of each split, and for each average (task "average", the
 * share of its tasks as split); undefined values are "nan". JSON is nested as the data is
 * and has the value of every seed; undefined values are null.
 *
 * Programs get what people do not: full paths for names, six digits, every seed. A
 * limited run is a column of its own instead of a mark.
 *
 *   {"measured": "...", "models": [
 *     {"scores": "<folder>", "model": "...", "model_type", "arch",
 *      "tasks": [
 *        {"task", "seeds": [1, 2], "train_rows", "official_train_rows", "limited",
 *         "splits": [
 *           {"split", "rows", "official_rows", "seeds_with_one_class",
 *            "metrics": [{"metric", "median", "lowest", "highest", "majority",
 *                         "values": [...]}]}]}],
 *      "averages": [{"name", "value", "majority", "tasks", "of"}]}]} */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "glue/glue.h"
#include "glue/scoring.h"
#include "glue/statistics.h"
#include "glue/table.h"
#include "glue/tasks.h"

static enum status add_number(struct buffer *out, double value, struct error *err) {
    if (isnan(value))
        return buffer_print(out, err, "\tnan");
    return buffer_print(out, err, "\t%.6f", value);
}

static enum status tsv_metric(const struct scores *s, const struct task *task, int split,
                              int metric, struct buffer *out, struct error *err) {
    int count;
    const struct scores_run *run = statistics_runs(s, task, &count);
    const struct finetune_split_result *r = &run->result.splits[split];
    const struct summary model = statistics_metric(s, task, split, metric, OF_MODEL);
    const struct summary majority =
        statistics_metric(s, task, split, metric, OF_MAJORITY);
    TRY(buffer_print(out, err, "%s\t%s\t%s\t%s", s->path, task->name, r->split,
                     r->score.metrics[metric].name));
    TRY(add_number(out, model.median, err));
    TRY(add_number(out, model.lowest, err));
    TRY(add_number(out, model.highest, err));
    TRY(buffer_print(out, err, "\t%d", count));
    TRY(add_number(out, majority.median, err));
    return buffer_print(
        out, err, "\t%lld\t%lld\t%lld\t%lld\t%d\n", (long long)r->rows,
        (long long)tasks_split(task, r->split)->rows, (long long)run->result.train_rows,
        (long long)tasks_split(task, "train")->rows, table_is_limited(run, count));
}

/* As wide as a metric's line, so that every line has the same columns. */
static enum status tsv_average(const struct scores *s, const struct average *a,
                               struct buffer *out, struct error *err) {
    const struct average_value model = statistics_average(s, a, OF_MODEL);
    const struct average_value majority = statistics_average(s, a, OF_MAJORITY);
    TRY(buffer_print(out, err, "%s\taverage\t%d of %d tasks\t%s", s->path, model.tasks,
                     model.of, a->key));
    TRY(add_number(out, model.value, err));
    TRY(buffer_print(out, err, "\t\t\t"));
    TRY(add_number(out, majority.value, err));
    return buffer_print(out, err, "\t\t\t\t\t\n");
}

static enum status tsv_model(const struct scores *s, struct buffer *out,
                             struct error *err) {
    for (int t = 0; t < glue_tasks.count; t++) {
        int count;
        const struct task *task = glue_tasks.items[t];
        const struct scores_run *run = statistics_runs(s, task, &count);
        for (int i = 0; run && i < run->result.num_splits; i++)
            for (int m = 0; m < run->result.splits[i].score.count; m++)
                TRY(tsv_metric(s, task, i, m, out, err));
    }
    for (int a = 0; a < NUM_AVERAGES; a++)
        TRY(tsv_average(s, &statistics_averages[a], out, err));
    return OK;
}

enum status table_write_tsv(const struct scores *models, int count, struct buffer *out,
                            struct error *err) {
    TRY(buffer_print(out, err,
                     "scores\ttask\tsplit\tmetric\tmedian\tlowest\thighest\tseeds\t"
                     "majority\trows\tofficial_rows\ttrain_rows\tofficial_train_rows\t"
                     "limited\n"));
    for (int m = 0; m < count; m++)
        TRY(tsv_model(&models[m], out, err));
    return OK;
}

static json_t *json_metric(const struct scores *s, const struct task *task, int split,
                           int metric) {
    int count;
    const struct scores_run *runs = statistics_runs(s, task, &count);
    const struct summary model = statistics_metric(s, task, split, metric, OF_MODEL);
    const struct summary majority =
        statistics_metric(s, task, split, metric, OF_MAJORITY);
    json_t *values = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(
            values,
            scores_number(runs[i].result.splits[split].score.metrics[metric].value));
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "metric",
                     runs->result.splits[split].score.metrics[metric].name, "median",
                     scores_number(model.median), "lowest", scores_number(model.lowest),
                     "highest", scores_number(model.highest), "majority",
                     scores_number(majority.median), "values", values);
}

static json_t *json_split(const struct scores *s, const struct task *task, int split) {
    int count, one_class = 0;
    const struct scores_run *runs = statistics_runs(s, task, &count);
    const struct finetune_split_result *r = &runs->result.splits[split];
    json_t *metrics = json_array();
    for (int m = 0; m < r->score.count; m++)
        json_array_append_new(metrics, json_metric(s, task, split, m));
    for (int i = 0; i < count; i++)
        one_class += runs[i].result.splits[split].score.one_class_predicted;
    return json_pack("{s:s, s:I, s:I, s:i, s:o}", "split", r->split, "rows",
                     (json_int_t)r->rows, "official_rows",
                     (json_int_t)tasks_split(task, r->split)->rows,
                     "seeds_with_one_class", one_class, "metrics", metrics);
}

static json_t *json_task(const struct scores *s, const struct task *task) {
    int count;
    const struct scores_run *runs = statistics_runs(s, task, &count);
    json_t *seeds = json_array(), *splits = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(seeds, json_integer(runs[i].seed));
    for (int i = 0; i < runs->result.num_splits; i++)
        json_array_append_new(splits, json_split(s, task, i));
    return json_pack("{s:s, s:o, s:I, s:I, s:b, s:o}", "task", task->name, "seeds", seeds,
                     "train_rows", (json_int_t)runs->result.train_rows,
                     "official_train_rows", (json_int_t)tasks_split(task, "train")->rows,
                     "limited", table_is_limited(runs, count), "splits", splits);
}

static json_t *json_average(const struct scores *s, const struct average *a) {
    const struct average_value model = statistics_average(s, a, OF_MODEL);
    const struct average_value majority = statistics_average(s, a, OF_MAJORITY);
    return json_pack("{s:s, s:o, s:o, s:i, s:i}", "name", a->key, "value",
                     scores_number(model.value), "majority",
                     scores_number(majority.value), "tasks", model.tasks, "of", model.of);
}

static json_t *json_model(const struct scores *s) {
    json_t *tasks = json_array(), *averages = json_array();
    for (int t = 0; t < glue_tasks.count; t++) {
        int count;
        if (statistics_runs(s, glue_tasks.items[t], &count))
            json_array_append_new(tasks, json_task(s, glue_tasks.items[t]));
    }
    for (int a = 0; a < NUM_AVERAGES; a++)
        json_array_append_new(averages, json_average(s, &statistics_averages[a]));
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "scores", s->path, "model",
                     s->model, "model_type", s->runs->result.model_type, "arch",
                     s->runs->result.arch, "tasks", tasks, "averages", averages);
}

enum status table_write_json(const struct scores *models, int count, struct buffer *out,
                             struct error *err) {
    json_t *array = json_array();
    for (int m = 0; m < count; m++)
        json_array_append_new(array, json_model(&models[m]));
    json_t *root =
        json_pack("{s:s, s:o}", "measured",
                  "dev splits, best checkpoint of each run on dev", "models", array);
    char *text = root && json_array_size(array) == (size_t)count
                     ? json_dumps(root, JSON_INDENT(2))
                     : NULL;
    json_decref(root);
    const enum status status =
        text ? buffer_print(out, err, "%s\n", text)
             : error_set(err, ERR_MEMORY, "out of memory: the table as JSON");
    free(text);
    return status;
}
