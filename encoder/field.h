/* field - the rows of config.json: name, kind, bounds and place in struct config.
 *
 * Private to encoder/config*.c. Sizes stand before switches, because switches such as
 * resid_alpha=auto are resolved with the depth. */
#ifndef ENCODER_FIELD_H
#define ENCODER_FIELD_H

#include <stdbool.h>
#include <stddef.h>

#include "encoder/config.h"

enum field_kind {
    FIELD_INTEGER, /* int64_t */
    FIELD_NUMBER,  /* double, or one of `words` */
    FIELD_FLAG,    /* bool, written 0 or 1 */
    FIELD_WORD,    /* an enum: the place of the word in `words` */
    FIELD_NORM,    /* const struct norm_kind * */
    FIELD_NUMBERS, /* double[], one of each name in `words`; NaN = not set */
};

struct field {
    const char *name, *key; /* name of the switch; key in config.json */
    enum field_kind kind;
    size_t offset; /* in struct config */
    double least, most;
    const char *words;
    bool is_switch;
};
extern const struct field config_fields[]; /* ends with a NULL name */

const struct field *field_find(const char *name); /* by name or key, '-' = '_' */
/* Sets the field from text; ERR_USAGE "<name>: expected ..., found ...". */
enum status field_parse(const struct field *f, struct config *c, const char *text,
                        struct error *err) MUST_CHECK;
/* Its value as JSON text, numbers with the fewest digits that read back exactly. */
#define FIELD_TEXT 384
const char *field_format(const struct field *f, const struct config *c,
                         char text[FIELD_TEXT]);
bool field_equal(const struct field *f, const struct config *a, const struct config *b);
/* ERR_USAGE when the value is outside the row's bounds. */
enum status field_check(const struct field *f, const struct config *c,
                        struct error *err) MUST_CHECK;

#endif
