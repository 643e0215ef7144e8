/* checkpoint - the model directory and the training state beside it, saved so that a
 * crash at any moment leaves the old one or the new one, never a mix.
 *
 * A model directory is config.json, model.safetensors and the tokenizer's files. A
 * training checkpoint `checkpoint-<step>/` adds optimizer.safetensors, trainer_state.json
 * and, last, checkpoint.json: the manifest with size and CRC32C of every file and a
 * checksum of its own. It is built under a temporary name, every file synced, renamed,
 * the parent synced, read back, and only then are older ones removed (at least two are
 * kept). Valid = the manifest parses, its checksum fits, every file has its size and CRC.
 * An invalid checkpoint is skipped with a reason, never deleted. */
#ifndef ENCODER_CHECKPOINT_H
#define ENCODER_CHECKPOINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"
#include "base/notice.h"
#include "encoder/config.h"
#include "encoder/parameters.h"

/* Fills the rows of `p` from <directory>/model.safetensors, strictly: a missing or
 * mis-shaped encoder tensor, or a name that no known head has, is an error that lists
 * them all. Known heads that `p` does not hold (lm_head, pooler, classifier) are named in
 * one notice; head rows of `p` that the file lacks, or has in another shape, are
 * initialised from `seed` with one notice. Names are tried as they stand and without the
 * encoder prefix (RobertaModel directories). */
enum status checkpoint_read_parameters(const char *directory, const struct config *config,
                                       struct parameters *p, uint64_t seed,
                                       const struct notices *notices,
                                       struct error *err) MUST_CHECK;
/* <directory>/model.safetensors from the rows of `p`. */
enum status checkpoint_write_parameters(const char *directory, const struct parameters *p,
                                        struct error *err) MUST_CHECK;

/* Where `--model DIR` really is: DIR itself when it holds model.safetensors, else the
 * newest valid checkpoint-<step> in it, with a notice that training has not ended. */
enum status checkpoint_resolve_model(const char *directory, char path[PATH_BYTES],
                                     const struct notices *notices,
                                     struct error *err) MUST_CHECK;

/* Who writes the model's own files (config.json, tokenizer) into a directory. */
struct checkpoint_writer {
    enum status (*write)(void *self, const char *directory, struct error *err);
    void *self;
};

/* The model files alone, into a directory that may already hold an older model: each file
 * is replaced whole, model.safetensors last. */
enum status checkpoint_save_model(const char *directory, const struct parameters *p,
                                  struct checkpoint_writer writer,
                                  struct error *err) MUST_CHECK;
/* <output>/checkpoint-<step> with model, moments and `state` (a JSON object); keeps the
 * newest `keep` (at least 2) and `keep_step` (the best one; -1 = none). */
enum status checkpoint_save(const char *output, int64_t step, const struct parameters *p,
                            const json_t *state, struct checkpoint_writer writer,
                            int keep, int64_t keep_step, struct error *err) MUST_CHECK;
/* The newest valid checkpoint of <output>: its path, or path[0] = 0 when there is none.
 * Each skipped one is a notice with its reason. */
enum status checkpoint_newest(const char *output, char path[PATH_BYTES],
                              const struct notices *notices,
                              struct error *err) MUST_CHECK;
/* ERR_INCOMPATIBLE with the first fault. */
enum status checkpoint_verify(const char *directory, struct error *err) MUST_CHECK;
/* Weights, moments and trainer_state.json of one checkpoint; the caller owns *state. */
enum status checkpoint_load(const char *directory, struct parameters *p, json_t **state,
                            struct error *err) MUST_CHECK;

/* normglue checkpoint inspect|verify|export|convert DIR */
int checkpoint_command(int argc, char **argv);

#endif
