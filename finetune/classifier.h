/* classifier - one model directory as a whole: tokenizer, encoder and classification
 * head.
 *
 *   classifier_open     config.json and tokenizer, checked against each other
 *   classifier_labels   the labels it is to have from now on      (fine-tuning only)
 *   classifier_load     weights
 *   classifier_layout   memory for batches
 *
 * The struct must stay where it is between open and close. */
#ifndef FINETUNE_CLASSIFIER_H
#define FINETUNE_CLASSIFIER_H

#include "encoder/checkpoint.h"
#include "encoder/encoder.h"
#include "finetune/head.h"
#include "finetune/input.h"
#include "finetune/task.h"
#include "tokenizer/tokenizer.h"

enum { CLASSIFIER_MAX_LABELS = 64 }; /* as many as struct config has room for */

struct classifier {
    struct config config;
    struct device *device;
    struct tokenizer *tokenizer;
    struct parameters parameters;
    struct encoder *encoder;
    struct head *head;
    struct arena arena;
    struct input_batch batch; /* filled by the caller before outputs or step */
    struct tensor dhidden;
    char directory[PATH_BYTES];                 /* where the weights are */
    int output_of_class[CLASSIFIER_MAX_LABELS]; /* class of the task -> head's output */
    int class_of_output[CLASSIFIER_MAX_LABELS];
    int file_labels; /* outputs of the head in model.safetensors, 0 = none */
    bool new_head;   /* the head starts new although the file's has its shape */
};

/* `directory` may be an unfinished training (checkpoint_resolve_model). ERR_INPUT
 * when an id of the tokenizer lies outside the word table. */
enum status classifier_open(struct classifier *c, const char *directory,
                            struct device *device, const struct notices *notices,
                            struct error *err) MUST_CHECK;
/* Gives the model the task's labels. A head whose label names are the task's, in any
 * order and case, is kept with its own order; any other starts new, with a notice. Sets
 * output_of_class and class_of_output. */
void classifier_labels(struct classifier *c, const struct task *task,
                       const struct notices *notices);
/* `training` makes room for gradients and moments; a new head is drawn from `seed`. */
enum status classifier_load(struct classifier *c, bool training, uint64_t seed,
                            const struct notices *notices, struct error *err) MUST_CHECK;
/* Memory for batches within `limits`; with `train` for classifier_step too. A second call
 * replaces the first. */
enum status classifier_layout(struct classifier *c, struct limits limits, bool train,
                              struct error *err) MUST_CHECK;
/* Longest sequence: `wanted` tokens, or what the position table holds if that is less. */
int64_t classifier_max_length(const struct classifier *c, int64_t wanted);

/* Outputs (B, C) of the batch, without dropout; valid until the next call. */
enum status classifier_outputs(struct classifier *c, struct tensor *outputs,
                               struct error *err) MUST_CHECK;
/* Summed loss of the batch that classifier_outputs has just seen. */
double classifier_loss(struct classifier *c);
/* Forward, summed loss and backward of the batch: gradients are added. */
enum status classifier_step(struct classifier *c, struct pass pass, double *loss,
                            struct error *err) MUST_CHECK;
/* config.json and tokenizer files into a directory. */
enum status classifier_save_files(struct classifier *c, const char *directory,
                                  struct error *err) MUST_CHECK;
/* Frees everything but the device; a struct that was zeroed or whose opening failed too.
 */
void classifier_close(struct classifier *c);

#endif
