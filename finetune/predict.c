/* predict - label and probabilities of texts, a JSON line each, as fast as they come.
 *
 * Lines that are already there are predicted together; when the input pauses, what has
 * been read is answered at once.
 *
 *   reader_line -> add_line   until 256 lines are there or the input pauses
 *   evaluate_outputs          the group in batches by length
 *   softmax                   unless there is one output: a score is printed as it is
 *   print_row                 labels by falling score, in the order of the lines
 *
 * The labels are config.json's id2label. f32 unless asked otherwise: scores of a saved
 * model then do not depend on whether the processor has bf16. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/options.h"
#include "encoder/loss.h"
#include "finetune/classifier.h"
#include "finetune/evaluate.h"
#include "finetune/finetune.h"

enum { GROUP_LINES = 256, BATCH_LINES = 64, BATCH_TOKENS = 2048 };

struct predict_options {
    struct options_state *state;
    const char *model, *dtype;
    int64_t max_seq_length, top_k, threads;
};

#define FIELD(name) offsetof(struct predict_options, name)

static const struct option options_table[] = {
    {"model", OPTION_STRING, FIELD(model), NULL, 0, 0, "DIR", "Input",
     "fine-tuned model directory", true},
    {"max-seq-length", OPTION_INTEGER, FIELD(max_seq_length), NULL, 5, 1 << 20, NULL,
     "Input", "tokens of a sequence; longer texts are cut; unset = what the model holds",
     false},
    {"top-k", OPTION_INTEGER, FIELD(top_k), NULL, 1, CLASSIFIER_MAX_LABELS, NULL,
     "Output", "labels a line, the most probable first; unset = all", false},
    {"dtype", OPTION_CHOICE, FIELD(dtype), "f32", 0, 0, DEVICE_DTYPES, "Run",
     DEVICE_DTYPE_HELP, false},
    {"threads", OPTION_INTEGER, FIELD(threads), "0", 0, 4096, NULL, "Run",
     "threads; 0 = as many as the process may use", false},
    {NULL, OPTION_FLAG, 0, NULL, 0, 0, NULL, NULL, NULL, false},
};

static const struct command command = {
    .name = "normglue predict",
    .usage = "--model DIR [FILE...]",
    .summary =
        "Prints labels and their probabilities for each line of the input: one "
        "text, or two separated by a tab.",
    .epilog =
        "A line of output is a JSON array of {\"label\", \"score\"}, best first; a "
        "regression's score stands\nas it is. Without FILE texts come from "
        "standard input, .gz is unpacked. Example:\n\n"
        "  normglue predict --model run-rte/ < texts.tsv",
    .options = options_table,
    .operands = "FILE",
};

struct predictor {
    const struct predict_options *options;
    struct classifier classifier;
    struct tokenizer_cache *cache;
    int64_t max_seq_length, texts, cut; /* cut: sequences that fill max_seq_length */
    struct input group;
    float *outputs; /* (GROUP_LINES, C) */
    struct buffer answer;
};

/* One text, or two separated by a tab; a '\r' before the line's end is dropped. */
static enum status add_line(struct predictor *p, const struct reader *r, char *line,
                            size_t length, struct error *err) {
    if (length > 0 && line[length - 1] == '\r')
        length--;
    int fields = 1;
    struct text_pair text = {.a = line, .a_length = length};
    for (size_t i = 0; i < length; i++)
        if (line[i] == '\t' && ++fields == 2)
            text = (struct text_pair){line, line + i + 1, i, length - i - 1};
    if (fields > 2)
        error_set(err, ERR_INPUT,
                  "expected one text or two separated by a tab, found %d fields", fields);
    else if (input_add(&p->group, p->classifier.tokenizer, p->cache, text, 0,
                       p->max_seq_length, err) == OK)
        return OK;
    if (err->status != ERR_INPUT)
        return err->status;
    const char *path = reader_path(r);
    return error_context(err, "%s:%lld", strcmp(path, "-") == 0 ? "standard input" : path,
                         (long long)reader_line_number(r));
}

/* The labels of one row of outputs by falling score, as a JSON array. */
static enum status print_row(struct predictor *p, float *scores, struct error *err) {
    const struct config *config = &p->classifier.config;
    int64_t count = config->num_labels;
    if (p->options->top_k != OPTION_UNSET_INTEGER && p->options->top_k < count)
        count = p->options->top_k;
    for (int64_t k = 0; k < count; k++) {
        int best = evaluate_argmax(scores, config->num_labels);
        const char *name = config->labels[best].name;
        TRY(buffer_print(&p->answer, err, "%s{\"label\": ", k == 0 ? "[" : ", "));
        TRY(buffer_add_json_string(&p->answer, name, strlen(name), err));
        TRY(buffer_print(&p->answer, err, ", \"score\": %.9g}", (double)scores[best]));
        scores[best] = -INFINITY;
    }
    return buffer_print(&p->answer, err, "]\n");
}

/* A damaged model may give NaN, which is no JSON. */
static enum status check_finite(const float *scores, int64_t count, struct error *err) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(scores[i]))
            return error_set(err, ERR_NONFINITE,
                             "the model gives outputs that are not finite");
    return OK;
}

/* Answers the lines read so far. */
static enum status answer(struct predictor *p, struct error *err) {
    const int64_t count = p->group.count, labels = p->classifier.config.num_labels;
    input_sort(&p->group);
    TRY(evaluate_outputs(&p->classifier, &p->group, BATCH_LINES, p->outputs, NULL, err));
    TRY(check_finite(p->outputs, count * labels, err));
    if (labels > 1)
        loss_softmax(tensor_f32(p->outputs, count, labels), 1);
    buffer_clear(&p->answer);
    for (int64_t i = 0; i < count; i++) {
        p->texts++;
        p->cut += input_length(&p->group, i) == p->max_seq_length;
        TRY(print_row(p, p->outputs + i * labels, err));
    }
    input_clear(&p->group);
    if (p->answer.length > 0)
        fwrite(p->answer.data, 1, p->answer.length, stdout);
    return fflush(stdout) == 0 ? OK
                               : error_system(err, "standard output", "cannot write");
}

static enum status predict_lines(struct predictor *p, struct reader *r,
                                 struct error *err) {
    for (;;) {
        char *line;
        size_t length;
        TRY(reader_line(r, &line, &length, err));
        if (!line)
            return answer(p, err);
        struct error bad;
        if (add_line(p, r, line, length, &bad) != OK) {
            TRY(answer(p, err)); /* the lines before the bad one */
            *err = bad;
            return bad.status;
        }
        if (p->group.count == GROUP_LINES || !reader_line_ready(r))
            TRY(answer(p, err));
    }
}

static enum status predict_file(struct predictor *p, const char *path,
                                struct error *err) {
    struct reader *r;
    TRY(reader_open(&r, path, err));
    enum status status = predict_lines(p, r, err);
    reader_close(r);
    return status;
}

static enum status check_head(const struct classifier *c, struct error *err) {
    if (c->file_labels == 0)
        return error_set(err, ERR_INPUT,
                         "%s: the model has no classification head; normglue finetune "
                         "makes one",
                         c->directory);
    if (c->file_labels != c->config.num_labels)
        return error_set(err, ERR_INPUT,
                         "%s: config.json names %d labels, but the classification head "
                         "has %d outputs",
                         c->directory, c->config.num_labels, c->file_labels);
    return OK;
}

static enum status open_predictor(struct predictor *p, struct device *device,
                                  struct error *err) {
    struct classifier *c = &p->classifier;
    TRY(classifier_open(c, p->options->model, device, &notices_stderr, err));
    TRY(check_head(c, err));
    TRY(classifier_load(c, false, 0, &notices_stderr, err));
    int64_t wanted = p->options->max_seq_length;
    p->max_seq_length =
        classifier_max_length(c, wanted == OPTION_UNSET_INTEGER ? INT64_MAX : wanted);
    const struct limits limits = {
        .tokens = p->max_seq_length > BATCH_TOKENS ? p->max_seq_length : BATCH_TOKENS,
        .sequences = BATCH_LINES,
        .tokens_per_sequence = p->max_seq_length,
        .output_rows = BATCH_LINES};
    TRY(classifier_layout(c, limits, false, err));
    p->cache = tokenizer_cache_new(c->tokenizer);
    p->outputs = calloc(GROUP_LINES * (size_t)c->config.num_labels, sizeof *p->outputs);
    if (!p->cache || !p->outputs)
        return error_set(err, ERR_MEMORY, "out of memory");
    return OK;
}

static void close_predictor(struct predictor *p) {
    input_free(&p->group);
    buffer_free(&p->answer);
    free(p->outputs);
    tokenizer_cache_free(p->cache);
    classifier_close(&p->classifier);
}

static enum status predict_files(struct predictor *p, struct option_list files,
                                 struct error *err) {
    if (files.count == 0)
        TRY(predict_file(p, "-", err));
    for (int i = 0; i < files.count; i++)
        TRY(predict_file(p, files.items[i], err));
    if (p->cut > 0)
        notice(&notices_stderr,
               "%lld of %lld sequences fill max-seq-length %lld; longer texts are cut",
               (long long)p->cut, (long long)p->texts, (long long)p->max_seq_length);
    return OK;
}

static enum status run(const struct call *call, struct error *err) {
    const struct predict_options *options = call->values;
    struct device *device;
    struct predictor p = {.options = options};
    TRY(device_open(&device, (int)options->threads, &notices_stderr, err));
    enum status status = device_set_dtype_named(device, options->dtype, err);
    if (status == OK)
        status = open_predictor(&p, device, err);
    if (status == OK)
        status = predict_files(&p, call->operands, err);
    close_predictor(&p);
    device_close(device);
    return status;
}

int predict_command(int argc, char **argv) {
    struct predict_options options;
    return options_run(&command, &options, argc, argv, run);
}
