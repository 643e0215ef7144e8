/* table - the score table: models side by side, for people or for programs.
 *
 *   task     split  metric    rows  train rows  majority  scores                seeds
 *   RTE      dev    accuracy   277        2490     52.71  55.96 [54.1, 57.0]        3
 *   average  glue   9 tasks                        ...    ...
 *
 * A row is a metric of a split of a task that at least one model has run; a model has two
 * columns. What a reader could take for more than it is gets a mark and a note: limited
 * runs, files with fewer rows than the official ones, runs that predicted one class,
 * averages over a part of their tasks. A note stands below the table only if its mark
 * occurs in it.
 *
 * Models stand side by side in the order given; a task that a model has no run of is a
 * dash. The majority baseline is the data's, not a model's, and stands once. */
#include "glue/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "glue/glue.h"
#include "glue/grid.h"
#include "glue/scoring.h"
#include "glue/statistics.h"
#include "glue/tasks.h"

enum {
    FIXED_COLUMNS = 6, /* before those of the models */
    MODEL_COLUMNS = 2, /* score and seeds */
    VALUE_BYTES = 96,
    RIGHT_ALIGNED = 0x38 /* rows, train rows, majority */
};

/* What is shown, and which notes it needs. */
struct view {
    const struct scores *models;
    int count;
    bool limited, one_class, fewer_rows;
};

bool table_is_limited(const struct scores_run *runs, int count) {
    for (int i = 0; i < count; i++)
        if (runs[i].max_train_samples > 0 || runs[i].max_eval_samples > 0)
            return true;
    return false;
}

static const char *percent(char text[VALUE_BYTES], double value) {
    if (isnan(value))
        snprintf(text, VALUE_BYTES, "nan (constant)");
    else
        snprintf(text, VALUE_BYTES, "%.2f", 100 * value);
    return text;
}

static const char *summary_text(char text[VALUE_BYTES], struct summary s) {
    char low[VALUE_BYTES], high[VALUE_BYTES];
    percent(text, s.median);
    if (s.count > 1 && !(isnan(s.lowest) && isnan(s.highest))) {
        percent(low, s.lowest);
        percent(high, s.highest);
        const size_t used = strlen(text);
        snprintf(text + used, VALUE_BYTES - used, " [%.30s, %.30s]", low, high);
    }
    return text;
}

/* "277", "100 of 277" when the official file has more, "277 / 100" when models differ. */
static void rows_text(struct view *v, const struct task *task, int split,
                      char text[VALUE_BYTES]) {
    int64_t last = -1;
    text[0] = '\0';
    for (int m = 0; m < v->count; m++) {
        int count;
        const struct scores_run *run = statistics_runs(&v->models[m], task, &count);
        if (count == 0)
            continue;
        const int64_t rows =
            split < 0 ? run->result.train_rows : run->result.splits[split].rows;
        const char *name = split < 0 ? "train" : task->eval_splits[split];
        const int64_t official = tasks_split(task, name)->rows;
        const size_t used = strlen(text);
        if (rows == last)
            continue;
        snprintf(text + used, VALUE_BYTES - used, "%s%lld", used ? " / " : "",
                 (long long)(last = rows));
        if (rows < official && v->count == 1)
            snprintf(text + strlen(text), VALUE_BYTES - strlen(text), " of %lld",
                     (long long)official);
        v->fewer_rows |= rows < official;
    }
}

static enum status add_model_cells(struct view *v, struct grid *g,
                                   const struct scores *model, const struct task *task,
                                   int split, int metric, struct error *err) {
    char text[VALUE_BYTES];
    const struct summary s = statistics_metric(model, task, split, metric, OF_MODEL);
    const struct scores_run *runs = statistics_runs(model, task, &(int){0});
    const bool limited = table_is_limited(runs, s.count);
    bool one_class = false;
    for (int i = 0; i < s.count; i++)
        one_class |= runs[i].result.splits[split].score.one_class_predicted;
    v->limited |= limited;
    v->one_class |= one_class;
    if (s.count == 0) {
        TRY(grid_add(g, err, "-"));
        return grid_add(g, err, "0");
    }
    TRY(grid_add(g, err, "%s%s%s", summary_text(text, s), limited ? " *" : "",
                 one_class ? " !" : ""));
    return grid_add(g, err, "%d", s.count);
}

/* The majority baseline depends on the data only: the first model that has the task. */
static struct summary majority_of(const struct view *v, const struct task *task,
                                  int split, int metric) {
    struct summary s = {.median = NAN};
    for (int m = 0; m < v->count && s.count == 0; m++)
        s = statistics_metric(&v->models[m], task, split, metric, OF_MAJORITY);
    s.count = s.count > 0;
    return s;
}

/* What is the same for the metrics of a split, or for the splits of a task, stands once.
 */
static enum status add_metric(struct view *v, struct grid *g, const struct task *task,
                              int split, int metric, struct error *err) {
    char rows[VALUE_BYTES], train[VALUE_BYTES], majority[VALUE_BYTES];
    struct score score;
    const bool first = metric == 0;
    scoring_prepare(task, &score);
    rows_text(v, task, split, rows);
    rows_text(v, task, -1, train);
    summary_text(majority, majority_of(v, task, split, metric));
    TRY(grid_add(g, err, "%s", first && split == 0 ? task->title : ""));
    TRY(grid_add(g, err, "%s", first ? task->eval_splits[split] : ""));
    TRY(grid_add(g, err, "%s", scoring_metric_title(score.metrics[metric].name)));
    TRY(grid_add(g, err, "%s", first ? rows : ""));
    TRY(grid_add(g, err, "%s", first && split == 0 ? train : ""));
    TRY(grid_add(g, err, "%s", majority));
    for (int m = 0; m < v->count; m++)
        TRY(add_model_cells(v, g, &v->models[m], task, split, metric, err));
    return OK;
}

static enum status add_task(struct view *v, struct grid *g, const struct task *task,
                            struct error *err) {
    struct score score;
    int runs = 0;
    for (int m = 0; m < v->count; m++) {
        int count;
        (void)statistics_runs(&v->models[m], task, &count);
        runs += count;
    }
    scoring_prepare(task, &score);
    for (int split = 0; runs > 0 && task->eval_splits[split]; split++)
        for (int metric = 0; metric < score.count; metric++)
            TRY(add_metric(v, g, task, split, metric, err));
    return OK;
}

static enum status add_average_value(struct grid *g, struct average_value a,
                                     const char *mark, struct error *err) {
    char text[VALUE_BYTES], part[VALUE_BYTES] = "";
    if (a.tasks == 0)
        return grid_add(g, err, "-");
    if (a.tasks < a.of)
        snprintf(part, sizeof part, " (%d of %d tasks)", a.tasks, a.of);
    return grid_add(g, err, "%s%s%s", percent(text, a.value), part, mark);
}

static enum status add_average(const struct view *v, struct grid *g,
                               const struct average *a, struct error *err) {
    struct average_value best = {0};
    for (int m = 0; m < v->count; m++) { /* majority: of the model with most tasks */
        const struct average_value x = statistics_average(&v->models[m], a, OF_MAJORITY);
        best = x.tasks > best.tasks || m == 0 ? x : best;
    }
    TRY(grid_add(g, err, "average"));
    TRY(grid_add(g, err, "%s", a->key));
    TRY(grid_add(g, err, "%d tasks", best.of));
    TRY(grid_add(g, err, "%s", ""));
    TRY(grid_add(g, err, "%s", ""));
    TRY(add_average_value(g, best, "", err));
    for (int m = 0; m < v->count; m++) {
        const struct scores *model = &v->models[m];
        TRY(add_average_value(g, statistics_average(model, a, OF_MODEL),
                              table_is_limited(model->runs, model->count) ? " *" : "",
                              err));
        TRY(grid_add(g, err, "%s", ""));
    }
    return OK;
}

/* A model's name in the table: its folder's last part, the whole path if that is taken.
 */
static const char *shown_name(const struct view *v, int model) {
    for (int m = 0; m < v->count; m++)
        if (m != model && strcmp(v->models[m].name, v->models[model].name) == 0)
            return v->models[model].path;
    return v->models[model].name;
}

/* The grid has 32 bits for right-aligned columns; models beyond are left-aligned. */
static enum status fill(struct view *v, struct grid *g, struct error *err) {
    static const char *const headings[FIXED_COLUMNS] = {"task", "split",      "metric",
                                                        "rows", "train rows", "majority"};
    for (int i = 0; i < FIXED_COLUMNS; i++)
        TRY(grid_add(g, err, "%s", headings[i]));
    for (int m = 0; m < v->count; m++) {
        TRY(grid_add(g, err, "%s", shown_name(v, m)));
        TRY(grid_add(g, err, "seeds"));
        if (FIXED_COLUMNS + MODEL_COLUMNS * m + 1 < 32)
            g->right |= 1u << (FIXED_COLUMNS + MODEL_COLUMNS * m + 1);
    }
    for (int t = 0; t < glue_tasks.count; t++)
        TRY(add_task(v, g, glue_tasks.items[t], err));
    for (int a = 0; a < NUM_AVERAGES; a++)
        TRY(add_average(v, g, &statistics_averages[a], err));
    return OK;
}

static enum status write_models(const struct view *v, const char *bullet,
                                struct buffer *out, struct error *err) {
    for (int m = 0; m < v->count; m++) {
        const struct scores *s = &v->models[m];
        const struct finetune_result *r = &s->runs[0].result;
        TRY(buffer_print(out, err, "%s%s: fine-tuned from %s (%s)\n", bullet,
                         shown_name(v, m), s->model,
                         r->arch[0] ? r->arch : r->model_type));
    }
    return OK;
}

static enum status write_notes(const struct view *v, const char *bullet,
                               struct buffer *out, struct error *err) {
    const struct {
        bool is_needed;
        const char *text;
    } notes[] = {
        {true,
         "Scores x 100 on the dev splits, of the checkpoint of each run that scored "
         "best there\n  (MNLI: on dev_matched). Over seeds: median [lowest, highest]. "
         "majority: always the most\n  frequent training label."},
        {true,
         "average glue: the nine official tasks, several metrics and MNLI's two "
         "splits averaged\n  first. average paper: the seven tasks of the NormFormer "
         "paper, accuracy for CoLA,\n  MRPC and QQP."},
        {v->fewer_rows,
         "rows: a part of the official file; not comparable with published "
         "scores."},
        {v->limited, "*: with --max-train-samples or --max-eval-samples."},
        {v->one_class, "!: in at least one run every row got the same prediction."},
    };
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++)
        if (notes[i].is_needed)
            TRY(buffer_print(out, err, "%s%s\n", bullet, notes[i].text));
    return write_models(v, bullet, out, err);
}

static enum status write_grid(struct view *v, struct grid *g, bool markdown,
                              struct buffer *out, struct error *err) {
    TRY(fill(v, g, err));
    TRY(markdown ? grid_write_markdown(g, out, err) : grid_write_plain(g, out, err));
    TRY(buffer_print(out, err, "\n"));
    return write_notes(v, markdown ? "- " : "", out, err);
}

enum status table_write(const struct scores *models, int count, const char *format,
                        struct buffer *out, struct error *err) {
    struct view v = {.models = models, .count = count};
    struct grid g = {.columns = FIXED_COLUMNS + MODEL_COLUMNS * count,
                     .right = RIGHT_ALIGNED};
    if (strcmp(format, "tsv") == 0)
        return table_write_tsv(models, count, out, err);
    if (strcmp(format, "json") == 0)
        return table_write_json(models, count, out, err);
    const enum status status =
        write_grid(&v, &g, strcmp(format, "markdown") == 0, out, err);
    grid_free(&g);
    return status;
}
