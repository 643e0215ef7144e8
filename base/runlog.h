/* runlog - metrics.jsonl: one JSON object a line, append-only, flushed a line at a time.
 *
 *     {"step": 100, "loss": 6.94, "learning_rate": 0.0005}
 *
 * A line is one write(2), so a kill leaves whole lines (and at worst one cut at the end).
 * A checkpoint records the log's length; on resume the log is cut back to it, so that the
 * stream of an interrupted run equals that of an uninterrupted one. */
#ifndef BASE_RUNLOG_H
#define BASE_RUNLOG_H

#include <stdint.h>

#include "base/error.h"

struct runlog; /* NULL is a valid log that keeps nothing */

/* Opens or creates `path` and cuts it to `offset` bytes (0 = start anew). A file shorter
 * than `offset` is ERR_INCOMPATIBLE. */
enum status runlog_open(struct runlog **log, const char *path, uint64_t offset,
                        struct error *err) MUST_CHECK;
/* One line: `format` holds the members without braces, e.g. "\"step\": %lld, \"loss\":
 * %.6g". Write numbers with runlog_number() so that NaN becomes null. */
enum status runlog_line(struct runlog *log, struct error *err, const char *format, ...)
    PRINTF_LIKE(3, 4) MUST_CHECK;
/* `value` as JSON with 9 significant digits, "null" when not finite. Returns `text`. */
const char *runlog_number(char text[32], double value);
uint64_t runlog_offset(const struct runlog *log); /* bytes so far */
/* On disk when it returns: before a checkpoint records the length. */
enum status runlog_sync(struct runlog *log, struct error *err) MUST_CHECK;
void runlog_close(struct runlog *log);

#endif
