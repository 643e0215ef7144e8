/* checkpoint_folders - the checkpoint-<step> folders of an output directory.
 *
 * Private to encoder/checkpoint*.c and the trainer. A folder under construction, or one
 * that is being removed, is called ".tmp-checkpoint-<step>.<pid>". */
#ifndef ENCODER_CHECKPOINT_FOLDERS_H
#define ENCODER_CHECKPOINT_FOLDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"

struct checkpoint_folders {
    int64_t *steps; /* descending; owned */
    int count;
};

/* No folders where `output` does not exist. */
enum status checkpoint_folders_list(struct checkpoint_folders *f, const char *output,
                                    struct error *err) MUST_CHECK;
void checkpoint_folders_free(struct checkpoint_folders *f);
/* The step of a folder's name, -1 for other names. */
int64_t checkpoint_folder_step(const char *name);
/* Is it the name of a folder that is being made or removed? */
bool checkpoint_folder_is_temporary(const char *name);

enum status checkpoint_folder_path(char path[PATH_BYTES], const char *output,
                                   int64_t step, struct error *err) MUST_CHECK;
enum status checkpoint_folder_temporary(char path[PATH_BYTES], const char *output,
                                        int64_t step, struct error *err) MUST_CHECK;
/* Gives a finished temporary folder its final name and syncs the parent. An older folder
 * of that name is swapped out and removed; a damaged one is kept as <name>.damaged. */
enum status checkpoint_folder_publish(const char *output, int64_t step,
                                      struct error *err) MUST_CHECK;
/* Removes a checkpoint so that a crash half-way leaves only a temporary folder. */
enum status checkpoint_folder_remove(const char *output, int64_t step,
                                     struct error *err) MUST_CHECK;
/* Removes the temporary folders of processes that are gone. */
enum status checkpoint_folders_clean(const char *output, struct error *err) MUST_CHECK;

#endif
