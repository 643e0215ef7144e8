/* modelling - the Python files that let transformers open a model_type `normglue`.
 *
 * They are written beside the weights; config.json names them in auto_map, so that
 * AutoModel.from_pretrained(..., trust_remote_code=True) finds them. The source is
 * encoder/modelling/{configuration,modeling}_normglue.py, embedded at build time. */
#ifndef ENCODER_MODELLING_H
#define ENCODER_MODELLING_H

#include <stdbool.h>

#include "base/error.h"
#include "encoder/config.h"

extern const char *const modelling_auto_map; /* JSON object */
bool modelling_is_needed(const struct config *c);
enum status modelling_write(const char *directory, struct error *err) MUST_CHECK;

#endif
