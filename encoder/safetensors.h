/* safetensors - the file format of weights: strict reading, and writing the same bytes as
 * the Python library safetensors for the same tensors.
 *
 * Layout: u64 header length, a JSON header {"name": {"dtype", "shape", "data_offsets"}},
 * then raw little-endian data without holes or overlaps. Sizes are checked before
 * anything is allocated or read; a file is refused for any deviation the reference reader
 * refuses, and for duplicate names. */
#ifndef ENCODER_SAFETENSORS_H
#define ENCODER_SAFETENSORS_H

#include <stdint.h>

#include "base/error.h"
#include "base/file.h"

struct safetensor {
    const char *name;
    const char *dtype; /* "F32", "F64", "F16", "BF16", "I64", "U8" ... */
    int rank;
    int64_t shape[8]; /* SAFETENSORS_MAX_RANK */
    const void *data; /* into the mapped file: any alignment */
    size_t bytes, count;
};

struct safetensors {
    struct safetensor *items; /* in the order of their data */
    int count;
    struct mapping mapping;
    char *path;
    char *names;  /* what the items' names point into */
    int *by_name; /* indices of items, sorted by name */
};

/* Limits of our own: the reference has none but the header's 100,000,000 bytes. */
#define SAFETENSORS_MAX_RANK 8
#define SAFETENSORS_MAX_NODES 1000000 /* JSON values of a header */
#define SAFETENSORS_MAX_DEPTH 8

/* Bits of an element, 0 for a type that does not exist. */
int safetensors_bits(const char *dtype);

/* Maps the file and reads its header; data is read when it is looked at. ERR_INPUT with
 * the byte or the tensor for what the format does not allow. */
enum status safetensors_open(struct safetensors *s, const char *path,
                             struct error *err) MUST_CHECK;
/* The same on bytes that the caller keeps until safetensors_close(); `path` only names
 * them in errors. */
enum status safetensors_parse(struct safetensors *s, const char *path,
                              const unsigned char *bytes, size_t size,
                              struct error *err) MUST_CHECK;
/* NULL when no tensor has this name. O(log count). */
const struct safetensor *safetensors_find(const struct safetensors *s, const char *name);
/* Elements as f32 (from F32, F64, F16 or BF16; F64 is rounded) or as f64. ERR_INPUT for
 * other types. */
enum status safetensors_to_f32(const struct safetensors *s, const struct safetensor *t,
                               float *out, struct error *err) MUST_CHECK;
enum status safetensors_to_f64(const struct safetensors *s, const struct safetensor *t,
                               double *out, struct error *err) MUST_CHECK;
/* The tensor will not be read again soon: its pages of the file need not stay in memory.
 */
void safetensors_release(const struct safetensors *s, const struct safetensor *t);
void safetensors_close(struct safetensors *s);

/* Writes whole or not at all; metadata is {"format":"pt"}. Items need name, dtype, rank,
 * shape, data; their order does not matter. */
enum status safetensors_write(const char *path, const struct safetensor *items, int count,
                              struct error *err) MUST_CHECK;

#endif
