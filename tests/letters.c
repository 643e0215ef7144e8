/* letters - texts of a, b, c, x, y and z whose class shows in their letters. */
#include "tests/letters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/support.h"
#include "tests/tiny_model.h"

enum { TEXT_BYTES = 256 };

static uint32_t word(int64_t row, uint32_t i, uint32_t what) {
    return rng_draw(rng_stream(1, RNG_TEST, what, 0), (uint32_t)row, i, 0, 0).word[0];
}

/* Class 0 is written with a, b and c, class 1 with x, y and z; 2 of 3 rows are class 1.
 * A score is five times the share of letters that are x, y or z. */
static void invent(struct example *x, char *text, int64_t row, const struct task *task) {
    const struct letters_course *course = task->row;
    const size_t letters = course->long_text ? course->long_text : 6;
    const bool is_score = task->num_labels == 1;
    size_t late = 0;
    const bool late_class = row % 3 != 0;
    for (size_t i = 0; i < letters; i++) {
        uint32_t draw = word(row, (uint32_t)i, 0);
        bool is_late =
            is_score ? word(row, (uint32_t)i, 1) % 6 <= (uint32_t)(row % 7) : late_class;
        late += is_late;
        text[i] = (char)((is_late ? 'x' : 'a') + draw % 3);
    }
    text[letters] = '\0';
    *x = (struct example){
        .text_a = text,
        .text_b = task->is_pair ? "pair" : NULL,
        .label = is_score ? 5 * (float)late / (float)letters : (float)late_class,
        .line = row + 2};
}

/* Dev rows are numbered from 1000 on, so that none of them is a training row. */
static enum status read_split(const struct task *task, const char *data,
                              const char *split, int64_t limit, struct examples *out,
                              const struct notices *notices, struct error *err) {
    const struct letters_course *course = task->row;
    const bool is_train = strcmp(split, "train") == 0;
    int64_t rows = is_train ? LETTERS_TRAIN_ROWS : LETTERS_DEV_ROWS;
    (void)data, (void)notices, (void)err;
    rows = course->empty ? 0 : limit > 0 && limit < rows ? limit : rows;
    char *texts = calloc((size_t)rows + 1, TEXT_BYTES);
    *out = (struct examples){.items = calloc((size_t)rows + 1, sizeof *out->items),
                             .count = (size_t)rows,
                             .labelled = !course->unlabelled,
                             .path = strdup(split),
                             .owned = texts};
    for (int64_t i = 0; i < rows; i++)
        invent(&out->items[i], texts + i * TEXT_BYTES, i + (is_train ? 0 : 1000), task);
    return OK;
}

/* Written out once more, as this task must not lean on glue/. */
static double pearson(const float *x, const float *y, size_t n) {
    double mx = 0, my = 0, xy = 0, xx = 0, yy = 0;
    for (size_t i = 0; i < n; i++)
        mx += (double)x[i] / (double)n, my += (double)y[i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        double dx = (double)x[i] - mx, dy = (double)y[i] - my;
        xy += dx * dy, xx += dx * dx, yy += dy * dy;
    }
    return xx > 1e-9 && yy > 0 ? xy / sqrt(xx * yy) : (double)NAN;
}

static enum status score(const struct task *task, const float *predictions,
                         const float *labels, size_t count, struct score *out,
                         struct error *err) {
    const struct letters_course *course = task->row;
    if (course->fail_at > 0 && ++*course->scored == course->fail_at)
        return error_set(err, ERR_FAILED, "killed");
    double equal = 0;
    bool one_class = true;
    for (size_t i = 0; i < count; i++) {
        equal += predictions[i] == labels[i];
        one_class = one_class && predictions[i] == predictions[0];
    }
    const bool is_score = task->num_labels == 1;
    double value = is_score ? pearson(predictions, labels, count) : equal / (double)count;
    *out = (struct score){.metrics = {{is_score ? "pearson" : "accuracy", value}},
                          .count = 1,
                          .combined = value,
                          .one_class_predicted = one_class || course->one_class};
    return OK;
}

static const char *const names[] = {"early", "late"};
static const char *const dev[] = {"dev", NULL};

struct task letters_task(const struct letters_course *course) {
    return (struct task){.name = "letters",
                         .title = "Letters",
                         .labels = names,
                         .num_labels = 2,
                         .eval_splits = dev,
                         .learning_rate = 2e-3,
                         .batch_size = 8,
                         .num_train_epochs = 4,
                         .warmup_ratio = 0.06,
                         .read = read_split,
                         .score = score,
                         .row = course};
}

static void hear(void *self, const char *text) {
    struct letters_heard *heard = self;
    size_t used = strlen(heard->text);
    snprintf(heard->text + used, sizeof heard->text - used, "%s\n", text);
}

static const struct command command = {.name = "test", .options = finetune_option_table};

enum status letters_run(const char *model, const char *output, struct task task,
                        struct finetune_result *result, struct letters_heard *heard,
                        struct error *err, const char *const *words) {
    struct finetune_options options;
    struct device *device;
    bool help;
    const char *argv[32] = {"--model", model,    "--output", output,       "--task",
                            "letters", "--data", "-",        "--progress", "never"};
    int argc = 10;
    while (words && *words)
        argv[argc++] = *words++;
    if (options_parse(&command, &options, argc, (char **)argv, NULL, &help, err) != OK ||
        device_open(&device, 1, NULL, err) != OK)
        fail_msg("%s", err->text);
    struct notices notices = {hear, heard};
    enum status status = finetune_run(&options, &task, device, &notices, result, err);
    device_close(device);
    options_free(&command, &options);
    return status;
}

const char *letters_model(void) {
    static char path[4096];
    if (!path[0])
        strcpy(path, tiny_model("start", (struct tiny_model){.seed = 5}));
    return path;
}
