/* progress - a bar with rate and time left on a terminal, a plain line every few seconds
 * otherwise.
 *
 *     pretrain:  50% [######......] 1.5k/3k steps, 12.5/s, 2:00 left, loss 5.871
 *
 * The rate counts from the first update, so that a resumed run does not boast of the
 * steps it was spared. No colour, no cursor codes but "wipe this line". At most ten
 * redraws a second; to stderr only. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum progress_mode {
    PROGRESS_AUTO,
    PROGRESS_ALWAYS,
    PROGRESS_NEVER
}; /* AUTO: a bar iff isatty(2) */

/* Of the words of a --progress option: auto, always or never. */
#define PROGRESS_WORDS "auto|always|never"
enum progress_mode progress_mode_named(const char *word);

struct progress; /* NULL is a valid progress that shows nothing */

/* `unit` is counted ("tokens", "bytes", "steps"); total 0 = unknown. NULL when out of
 * memory. */
struct progress *progress_open(enum progress_mode mode, const char *label,
                               const char *unit, uint64_t total);
/* `detail` is shown after the rate ("loss 5.871"), may be NULL. */
void progress_update(struct progress *p, uint64_t done, const char *detail);
/* Removes the bar so that a line can be printed; the next update draws it again. */
void progress_hide(struct progress *p);
void progress_close(struct progress *p);

#endif
