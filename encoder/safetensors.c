/* safetensors - the file format of weights: strict reading, and writing the same bytes as
 * the Python library safetensors for the same tensors.
 *
 * The file: u64 length N, N bytes of JSON, data. Offsets count from the end of the JSON.
 * Reading maps the file and points into it. The order of the checks matters: the length
 * against the file's size, every tensor's offsets against the data and against its shape
 * (safetensors_header.c), then that the tensors in the order of their offsets cover the
 * data exactly. After that no pointer can leave the mapping, and no byte is hidden or
 * shared.
 *
 * Writing follows the reference implementation, so that the bytes are equal: metadata
 * first, wide types before narrow ones, then by name; spaces up to a multiple of 8. */
#include "encoder/safetensors.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "encoder/safetensors_header.h"

#define MAX_HEADER 100000000

/* Splits the bytes into header and data. */
static enum status split(const char *path, const unsigned char *bytes, size_t size,
                         struct header *h, struct error *err) {
    uint64_t length = 0;
    if (size < 8)
        return error_set(err, ERR_INPUT,
                         "%s: expected at least 8 bytes of a safetensors file, found %zu",
                         path, size);
    memcpy(&length, bytes, 8);
    length = le64toh(length);
    if (length > MAX_HEADER)
        return error_set(err, ERR_INPUT,
                         "%s: expected a header of at most %d bytes, found %llu", path,
                         MAX_HEADER, (unsigned long long)length);
    if (length > size - 8)
        return error_set(err, ERR_INPUT,
                         "%s: the file has %zu bytes, its header promises %llu", path,
                         size, (unsigned long long)length + 8);
    h->text = bytes + 8;
    h->length = (size_t)length;
    h->data = bytes + 8 + length;
    h->data_size = size - 8 - (size_t)length;
    return OK;
}

/* Empty tensors come before the one that begins where they stand. */
static int by_place(const void *a, const void *b) {
    const struct safetensor *x = a, *y = b;
    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int by_name(const void *a, const void *b, void *items) {
    const struct safetensor *list = items;
    return strcmp(list[*(const int *)a].name, list[*(const int *)b].name);
}

/* No hole, no overlap, nothing behind the last tensor. */
static enum status check_places(const struct safetensors *s, const struct header *h,
                                struct error *err) {
    const unsigned char *end = h->data;
    for (int i = 0; i < s->count; i++) {
        const struct safetensor *t = &s->items[i];
        if (t->data != end)
            return error_set(err, ERR_INPUT,
                             "%s: tensor \"%.200s\": expected its data at offset %zu, "
                             "found %zu",
                             s->path, t->name, (size_t)(end - h->data),
                             (size_t)((const unsigned char *)t->data - h->data));
        end += t->bytes;
    }
    size_t used = (size_t)(end - h->data);
    if (used == h->data_size)
        return OK;
    return error_set(err, ERR_INPUT,
                     "%s: the file has %zu bytes of data, its header promises %zu",
                     s->path, h->data_size, used);
}

static enum status index_names(struct safetensors *s, struct error *err) {
    s->by_name = malloc(((size_t)s->count + 1) * sizeof *s->by_name);
    if (!s->by_name)
        return error_set(err, ERR_MEMORY, "%s: out of memory for %d names", s->path,
                         s->count);
    for (int i = 0; i < s->count; i++)
        s->by_name[i] = i;
    if (s->count)
        qsort_r(s->by_name, (size_t)s->count, sizeof *s->by_name, by_name, s->items);
    for (int i = 1; i < s->count; i++) {
        const char *name = s->items[s->by_name[i]].name;
        if (!strcmp(s->items[s->by_name[i - 1]].name, name))
            return error_set(err, ERR_INPUT, "%s: tensor \"%.200s\" stands twice",
                             s->path, name);
    }
    return OK;
}

static enum status parse(struct safetensors *s, const unsigned char *bytes, size_t size,
                         struct error *err) {
    struct header header;
    TRY(split(s->path, bytes, size, &header, err));
    TRY(safetensors_header_read(s, header, err));
    if (s->count)
        qsort(s->items, (size_t)s->count, sizeof *s->items, by_place);
    TRY(check_places(s, &header, err));
    return index_names(s, err);
}

enum status safetensors_parse(struct safetensors *s, const char *path,
                              const unsigned char *bytes, size_t size,
                              struct error *err) {
    *s = (struct safetensors){.path = strdup(path)};
    enum status status = s->path ? parse(s, bytes, size, err)
                                 : error_set(err, ERR_MEMORY, "%s: out of memory", path);
    if (status != OK)
        safetensors_close(s);
    return status;
}

enum status safetensors_open(struct safetensors *s, const char *path, struct error *err) {
    struct mapping mapping;
    *s = (struct safetensors){0};
    TRY(file_map(&mapping, path, err));
    enum status status = safetensors_parse(s, path, mapping.data, mapping.size, err);
    if (status == OK)
        s->mapping = mapping;
    else
        file_unmap(&mapping);
    return status;
}

void safetensors_close(struct safetensors *s) {
    free(s->items);
    free(s->names);
    free(s->by_name);
    free(s->path);
    file_unmap(&s->mapping);
    *s = (struct safetensors){0};
}

const struct safetensor *safetensors_find(const struct safetensors *s, const char *name) {
    int low = 0, high = s->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        const struct safetensor *t = &s->items[s->by_name[middle]];
        int order = strcmp(name, t->name);
        if (order == 0)
            return t;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* IEEE 754 half: 1 sign, 5 exponent, 10 fraction bits. */
static float float_of_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31,
             fraction = half & 1023;
    if (exponent == 31)
        return float_of_bits(sign | 0x7F800000 | fraction << 13);
    if (exponent == 0) {
        float value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

static double element_f32(const unsigned char *at) {
    float value;
    memcpy(&value, at, 4);
    return (double)value;
}
static double element_f64(const unsigned char *at) {
    double value;
    memcpy(&value, at, 8);
    return value;
}
static double element_f16(const unsigned char *at) {
    uint16_t half;
    memcpy(&half, at, 2);
    return (double)float_of_half(half);
}
static double element_bf16(const unsigned char *at) {
    uint16_t half;
    memcpy(&half, at, 2);
    return (double)float_of_bits((uint32_t)half << 16);
}

struct conversion {
    const char *dtype;
    size_t bytes;
    double (*element)(const unsigned char *at);
};

/* NULL and a sentence when elements of this type are not numbers of a model. */
static const struct conversion *find_conversion(const struct safetensors *s,
                                                const struct safetensor *t,
                                                struct error *err) {
    static const struct conversion rows[] = {
        {"F32", 4, element_f32},
        {"F64", 8, element_f64},
        {"F16", 2, element_f16},
        {"BF16", 2, element_bf16},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].dtype, t->dtype))
            return &rows[i];
    error_set(err, ERR_INPUT,
              "%s: tensor \"%.200s\": expected F32, F64, F16 or BF16, found %s", s->path,
              t->name, t->dtype);
    return NULL;
}

void safetensors_release(const struct safetensors *s, const struct safetensor *t) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t)t->data + page - 1) / page * page,
                    end = ((uintptr_t)t->data + t->bytes) / page * page;
    if (s->mapping.data && begin < end)
        madvise((void *)begin, end - begin, MADV_DONTNEED); /* a wish */
}

enum status safetensors_to_f32(const struct safetensors *s, const struct safetensor *t,
                               float *out, struct error *err) {
    const struct conversion *from = find_conversion(s, t, err);
    if (!from)
        return err->status;
    const unsigned char *bytes = t->data;
    if (from->element == element_f32 && t->bytes)
        memcpy(out, bytes, t->bytes);
    else
        for (size_t i = 0; i < t->count; i++)
            out[i] = (float)from->element(bytes + i * from->bytes);
    return OK;
}

enum status safetensors_to_f64(const struct safetensors *s, const struct safetensor *t,
                               double *out, struct error *err) {
    const struct conversion *from = find_conversion(s, t, err);
    if (!from)
        return err->status;
    const unsigned char *bytes = t->data;
    for (size_t i = 0; i < t->count; i++)
        out[i] = from->element(bytes + i * from->bytes);
    return OK;
}

/* The reference writer's order: wide types first, then by name. */
static int by_type_and_name(const void *a, const void *b) {
    const struct safetensor *x = *(const struct safetensor *const *)a,
                            *y = *(const struct safetensor *const *)b;
    const struct element_type *type_x = element_type_find(x->dtype),
                              *type_y = element_type_find(y->dtype);
    if (type_x != type_y)
        return type_x > type_y ? -1 : 1;
    return strcmp(x->name, y->name);
}

static size_t bytes_of(const struct safetensor *t) {
    size_t bits = (size_t)safetensors_bits(t->dtype);
    assert(bits && t->rank <= SAFETENSORS_MAX_RANK);
    for (int i = 0; i < t->rank; i++)
        bits *= (size_t)t->shape[i];
    return bits / 8;
}

static enum status add_entry(struct buffer *out, const struct safetensor *t, size_t begin,
                             struct error *err) {
    TRY(buffer_print(out, err, ","));
    TRY(buffer_add_json_string(out, t->name, strlen(t->name), err));
    TRY(buffer_print(out, err, ":{\"dtype\":\"%s\",\"shape\":[", t->dtype));
    for (int i = 0; i < t->rank; i++)
        TRY(buffer_print(out, err, "%s%lld", i ? "," : "", (long long)t->shape[i]));
    return buffer_print(out, err, "],\"data_offsets\":[%zu,%zu]}", begin,
                        begin + bytes_of(t));
}

/* Length and JSON, padded with spaces so that the data begins at a multiple of 8. */
static enum status make_header(struct buffer *out, const struct safetensor *const *items,
                               int count, struct error *err) {
    size_t begin = 0;
    uint64_t length = 0;
    TRY(buffer_add(out, &length, sizeof length, err));
    TRY(buffer_print(out, err, "{\"__metadata__\":{\"format\":\"pt\"}"));
    for (int i = 0; i < count; begin += bytes_of(items[i++]))
        TRY(add_entry(out, items[i], begin, err));
    TRY(buffer_print(out, err, "}"));
    while (out->length % 8)
        TRY(buffer_print(out, err, " "));
    length = htole64(out->length - sizeof length);
    memcpy(out->data, &length, sizeof length);
    return OK;
}

static enum status write_all(struct writer *w, const struct buffer *header,
                             const struct safetensor *const *items, int count,
                             struct error *err) {
    uint64_t total = header->length;
    for (int i = 0; i < count; i++)
        total += bytes_of(items[i]);
    TRY(writer_reserve(w, total, err));
    TRY(writer_write(w, header->data, header->length, err));
    for (int i = 0; i < count; i++)
        TRY(writer_write(w, items[i]->data, bytes_of(items[i]), err));
    return writer_commit(w, err);
}

static enum status write_sorted(const char *path, const struct safetensor *const *items,
                                int count, struct error *err) {
    struct buffer header = {0};
    struct writer *writer = NULL;
    enum status status = make_header(&header, items, count, err);
    if (status == OK)
        status = writer_open(&writer, path, err);
    if (status == OK) {
        status = write_all(writer, &header, items, count, err);
        writer_close(writer);
    }
    buffer_free(&header);
    return status;
}

enum status safetensors_write(const char *path, const struct safetensor *items, int count,
                              struct error *err) {
    const struct safetensor **sorted = malloc(((size_t)count + 1) * sizeof *sorted);
    if (!sorted)
        return error_set(err, ERR_MEMORY, "%s: out of memory for %d names", path, count);
    for (int i = 0; i < count; i++)
        sorted[i] = &items[i];
    if (count)
        qsort(sorted, (size_t)count, sizeof *sorted, by_type_and_name);
    enum status status = write_sorted(path, sorted, count, err);
    free(sorted);
    return status;
}
