/* manifest - checkpoint.json: size and CRC32C of every file of a checkpoint, with a
 * checksum of its own, so that any cut, flipped or missing byte is seen.
 *
 *   {"format": 1, "step": 100, "files": [{"name", "size", "crc32c"}, ...], "checksum"}
 *
 * It is written last: a folder without it is not a checkpoint. Files that it does not
 * name are nobody's business. */
#ifndef ENCODER_MANIFEST_H
#define ENCODER_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define MANIFEST_NAME "checkpoint.json"

/* Lists the regular files of `directory`. */
enum status manifest_write(const char *directory, int64_t step,
                           struct error *err) MUST_CHECK;
/* ERR_INCOMPATIBLE with the first fault. Without `contents` only names and sizes are
 * looked at. */
enum status manifest_check(const char *directory, bool contents,
                           struct error *err) MUST_CHECK;

#endif
