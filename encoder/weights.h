/* weights - every tensor of a model directory under the name we know it by.
 *
 * A directory holds model.safetensors, or shards with model.safetensors.index.json. Names
 * lose the prefix of their base model ("roberta.", "roberta_prelayernorm."), and the old
 * LayerNorm.gamma and .beta become .weight and .bias. */
#ifndef ENCODER_WEIGHTS_H
#define ENCODER_WEIGHTS_H

#include "base/error.h"
#include "encoder/safetensors.h"

struct weight {
    char name[160];
    const struct safetensor *tensor;
    const struct safetensors *file;
};

struct weights {
    struct weight *items; /* sorted by name, no name twice */
    int count;
    struct safetensors *files;
    int num_files;
};

/* Maps the file or all shards and sorts the names. ERR_INPUT for a missing file, an index
 * that does not fit its shards, or two tensors of one name. */
enum status weights_open(struct weights *w, const char *directory,
                         struct error *err) MUST_CHECK;
/* By the short name; NULL when there is none. O(log count). */
const struct weight *weights_find(const struct weights *w, const char *name);
void weights_close(struct weights *w);

/* `name` without the prefix of its base model. */
const char *weights_short_name(const char *name);

#endif
