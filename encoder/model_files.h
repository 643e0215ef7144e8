/* model_files - what a model directory consists of, and copies of it. */
#ifndef ENCODER_MODEL_FILES_H
#define ENCODER_MODEL_FILES_H

#include <stdbool.h>

#include "base/error.h"

/* Is there a file of this name in the directory? */
bool model_files_hold(const char *directory, const char *name);
/* Copies what is there of the tokenizer's files. */
enum status model_files_copy_tokenizer(const char *from, const char *to,
                                       struct error *err) MUST_CHECK;
/* The same, and the model's own files. The weights come last: a folder without them is no
 * model yet. */
enum status model_files_copy(const char *from, const char *to,
                             struct error *err) MUST_CHECK;

#endif
