/* classifier - opening, loading and running a model directory with a classification head.
 *
 * A head is kept only if its label names are the task's, in whatever order and case: two
 * outputs of one shape may mean other things (MNLI's entailment is 0, 1 or 2 depending on
 * who trained it), and a head that is silently permuted loses points that nobody finds. A
 * head that does not fit starts from its initial values, which follow (seed, name), with
 * a notice that names both sets of labels. */
#include "finetune/classifier.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encoder/safetensors.h"
#include "encoder/scattered.h"

enum { LEAST_TOKENS = 5 }; /* <s> A </s></s> B </s> with one token in A and B together */
_Static_assert(CLASSIFIER_MAX_LABELS ==
                   sizeof((struct config *)0)->labels / sizeof(struct label),
               "one label, one name");

/* How many outputs the head in model.safetensors has; 0 = there is no head. */
static enum status file_labels(const char *directory, int *count, struct error *err) {
    char path[PATH_BYTES];
    struct safetensors file;
    TRY(file_join(path, directory, "model.safetensors", err));
    TRY(safetensors_open(&file, path, err));
    const struct safetensor *t = safetensors_find(&file, "classifier.out_proj.weight");
    int64_t rows = t && t->rank == 2 ? t->shape[0] : 0;
    enum status status = OK;
    if (rows > CLASSIFIER_MAX_LABELS)
        status = error_set(err, ERR_INPUT,
                           "%s: classifier.out_proj.weight has %lld outputs, at most %d "
                           "labels are supported",
                           path, (long long)rows, (int)CLASSIFIER_MAX_LABELS);
    *count = (int)rows;
    safetensors_close(&file);
    return status;
}

/* What tokenizer and config.json promise each other; later code reads the word table by
 * id and relies on it. */
static enum status check_sizes(const struct classifier *c, struct error *err) {
    const struct special_ids ids = tokenizer_specials(c->tokenizer);
    long long tokens = tokenizer_size(c->tokenizer), rows = c->config.vocab_size;
    if (tokens > rows)
        return error_set(err, ERR_INPUT,
                         "%s: the tokenizer has ids up to %lld, but config.json says "
                         "vocab_size %lld",
                         c->directory, tokens - 1, rows);
    if (ids.bos < 0 || ids.eos < 0)
        return error_set(err, ERR_INPUT,
                         "%s: the tokenizer has no <s> or no </s>, which begin and end "
                         "every sequence",
                         c->directory);
    if (config_max_tokens(&c->config) < LEAST_TOKENS)
        return error_set(err, ERR_INPUT,
                         "%s/config.json: max_position_embeddings %lld leaves %lld "
                         "tokens a sequence, expected at least %d",
                         c->directory, (long long)c->config.max_position_embeddings,
                         (long long)config_max_tokens(&c->config), (int)LEAST_TOKENS);
    return OK;
}

enum status classifier_open(struct classifier *c, const char *directory,
                            struct device *device, const struct notices *notices,
                            struct error *err) {
    *c = (struct classifier){.device = device};
    TRY(checkpoint_resolve_model(directory, c->directory, notices, err));
    TRY(config_read(&c->config, c->directory, err));
    TRY(file_labels(c->directory, &c->file_labels, err));
    TRY(tokenizer_load(&c->tokenizer, c->directory, notices, err));
    return check_sizes(c, err);
}

static bool same_name(const char *a, const char *b) {
    while (*a && tolower((unsigned char)*a) == tolower((unsigned char)*b))
        a++, b++;
    return tolower((unsigned char)*a) == tolower((unsigned char)*b);
}

static int find_label(const struct config *config, const char *name) {
    for (int i = 0; i < config->num_labels; i++)
        if (same_name(config->labels[i].name, name))
            return i;
    return -1;
}

/* Regression has no names: any single output will do. */
static bool labels_match(struct classifier *c, const struct task *task) {
    if (c->config.num_labels != task->num_labels)
        return false;
    for (int k = 0; k < task->num_labels; k++)
        c->class_of_output[k] = -1;
    for (int k = 0; k < task->num_labels; k++) {
        int output = task->labels ? find_label(&c->config, task->labels[k]) : k;
        if (output < 0 || c->class_of_output[output] >= 0)
            return false;
        c->output_of_class[k] = output;
        c->class_of_output[output] = k;
    }
    return true;
}

/* "a, b, c" cut to the buffer. */
static void list_labels(const struct config *config, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < config->num_labels && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "",
                                 config->labels[i].name);
}

/* The labels of the task in its own order; a score is called as transformers calls it. */
static void take_labels(struct classifier *c, const struct task *task) {
    c->config.num_labels = task->num_labels;
    for (int k = 0; k < task->num_labels; k++) {
        c->output_of_class[k] = c->class_of_output[k] = k;
        snprintf(c->config.labels[k].name, sizeof c->config.labels[k].name, "%s",
                 task->labels ? task->labels[k] : "LABEL_0");
    }
}

void classifier_labels(struct classifier *c, const struct task *task,
                       const struct notices *notices) {
    char old[512], new[512];
    struct config *config = &c->config;
    assert(task->num_labels >= 1 && task->num_labels <= CLASSIFIER_MAX_LABELS);
    snprintf(config->finetuning_task, sizeof config->finetuning_task, "%s", task->name);
    if (labels_match(c, task))
        return;
    list_labels(config, old, sizeof old);
    take_labels(c, task);
    list_labels(config, new, sizeof new);
    c->new_head = c->file_labels == task->num_labels;
    if (c->file_labels > 0)
        notice(notices,
               "%s: the classification head's labels (%s) are not those of %s (%s): it "
               "starts new",
               c->directory, old, task->name, new);
}

/* Weights first, then a new head over what the file had under its names. */
enum status classifier_load(struct classifier *c, bool training, uint64_t seed,
                            const struct notices *notices, struct error *err) {
    struct parameters *p = &c->parameters;
    TRY(encoder_declare(&c->encoder, &c->config, c->device, p, err));
    TRY(head_declare(&c->head, &c->config, c->device, p, err));
    TRY(parameters_allocate(p, training, err));
    TRY(checkpoint_read_parameters(c->directory, &c->config, p, seed, notices, err));
    for (int i = 0; c->new_head && i < p->count; i++)
        if (p->rows[i]->is_head)
            parameters_initialise_row(p->rows[i], &c->config, seed);
    if (training) /* its memory, as long as no other needs it */
        scattered_settle(encoder_word_embeddings(c->encoder));
    return OK;
}

static void lay_out(struct classifier *c, struct limits limits, bool train) {
    encoder_layout(c->encoder, &c->arena, limits, train);
    head_layout(c->head, &c->arena, limits.output_rows, train);
    input_batch_layout(&c->batch, &c->arena, limits);
    if (train)
        c->dhidden = tensor_take(&c->arena, DTYPE_F32, limits.output_rows,
                                 config_stream_size(&c->config));
}

/* The first pass runs on no memory and measures; the second hands the pieces out. */
enum status classifier_layout(struct classifier *c, struct limits limits, bool train,
                              struct error *err) {
    arena_close(&c->arena);
    c->arena = (struct arena){0};
    lay_out(c, limits, train);
    size_t bytes = c->arena.used;
    TRY(arena_open(&c->arena, bytes, err));
    lay_out(c, limits, train);
    return OK;
}

int64_t classifier_max_length(const struct classifier *c, int64_t wanted) {
    int64_t most = config_max_tokens(&c->config);
    return wanted < most ? wanted : most;
}

enum status classifier_outputs(struct classifier *c, struct tensor *outputs,
                               struct error *err) {
    struct tensor hidden;
    const struct pass pass = {.train = false};
    TRY(encoder_forward(c->encoder, &c->batch.batch, pass, &hidden, err));
    *outputs = head_forward(c->head, hidden, pass, c->batch.sequence_numbers);
    return device_check(c->device, err);
}

double classifier_loss(struct classifier *c) {
    const struct tensor rows = {.rows = c->batch.batch.num_output_rows,
                                .columns = config_stream_size(&c->config)};
    return head_loss(c->head, rows, c->batch.labels, (struct pass){.train = false},
                     c->batch.sequence_numbers, NULL);
}

enum status classifier_step(struct classifier *c, struct pass pass, double *loss,
                            struct error *err) {
    struct tensor hidden;
    const struct batch *batch = &c->batch.batch;
    struct tensor dhidden = tensor_head(c->dhidden, batch->num_output_rows);
    TRY(encoder_forward(c->encoder, batch, pass, &hidden, err));
    head_forward(c->head, hidden, pass, c->batch.sequence_numbers);
    *loss = head_loss(c->head, hidden, c->batch.labels, pass, c->batch.sequence_numbers,
                      &dhidden);
    encoder_backward(c->encoder, batch, pass, dhidden);
    return OK;
}

enum status classifier_save_files(struct classifier *c, const char *directory,
                                  struct error *err) {
    TRY(config_write(&c->config, directory, "SequenceClassification", err));
    return tokenizer_save(c->tokenizer, directory, err);
}

void classifier_close(struct classifier *c) {
    head_free(c->head);
    encoder_free(c->encoder);
    parameters_free(&c->parameters);
    tokenizer_free(c->tokenizer);
    arena_close(&c->arena);
    *c = (struct classifier){0};
}
