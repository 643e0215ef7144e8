/* safetensors_header - the JSON in front of the data, read strictly.
 *
 * Private to encoder/safetensors.c. A parser of its own, because its work must stay
 * linear in a hostile header of 100 MB and duplicate names must be seen. */
#ifndef ENCODER_SAFETENSORS_HEADER_H
#define ENCODER_SAFETENSORS_HEADER_H

#include "encoder/safetensors.h"

struct header {
    const unsigned char *text; /* the JSON, `length` bytes */
    size_t length;
    const unsigned char *data; /* what the offsets count from, `data_size` bytes */
    size_t data_size;
};

/* The row of a type: its canonical name, or NULL. Rows stand in ascending alignment, the
 * order that the reference writer sorts by, downwards. */
struct element_type {
    const char *name;
    int bits;
};
const struct element_type *element_type_find(const char *name);

/* Items and names into `s` in the order of the header; each lies inside the data and has
 * the bytes that its shape asks for. */
enum status safetensors_header_read(struct safetensors *s, struct header header,
                                    struct error *err) MUST_CHECK;

#endif
