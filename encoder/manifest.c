/* manifest - checkpoint.json: size and CRC32C of every file of a checkpoint.
 *
 * The checksum stands in the last line and covers every byte before that line; the line
 * itself is compared as text. So each bit of the file is covered: test_checkpoint flips
 * them all. CRC32C finds every burst of up to 32 bits and all but 2^-32 of other damage.
 * It is no signature: it protects against disks and power cuts, not against people. */
#include "encoder/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/json_file.h"

enum { FORMAT = 1, MOST_BYTES = 1 << 20 };

/* Hidden files are temporary ones of writers. */
static int is_ordinary(const struct dirent *entry) {
    return entry->d_name[0] != '.' && strcmp(entry->d_name, MANIFEST_NAME) != 0;
}

static enum status add_file(struct buffer *out, const char *directory, const char *name,
                            bool first, struct error *err) {
    char path[PATH_BYTES];
    uint64_t size;
    uint32_t crc;
    TRY(file_join(path, directory, name, err));
    TRY(file_checksum(path, &size, &crc, err));
    TRY(buffer_print(out, err, "%s\n    {\"name\": ", first ? "" : ","));
    TRY(buffer_add_json_string(out, name, strlen(name), err));
    return buffer_print(out, err, ", \"size\": %llu, \"crc32c\": \"%08x\"}",
                        (unsigned long long)size, crc);
}

static enum status add_files(struct buffer *out, const char *directory,
                             struct error *err) {
    struct dirent **entries;
    int count = scandir(directory, &entries, is_ordinary, alphasort);
    if (count < 0)
        return error_system(err, directory, "cannot list");
    enum status status = OK;
    for (int i = 0; i < count; i++) {
        if (status == OK)
            status = add_file(out, directory, entries[i]->d_name, i == 0, err);
        free(entries[i]);
    }
    free(entries);
    return status;
}

/* The end of the file: the checksum of all that stands before it. */
static int format_end(char end[64], const char *body, size_t length) {
    return snprintf(end, 64, "  \"checksum\": \"%08x\"\n}\n",
                    file_crc32c(0, body, length));
}

static enum status make(struct buffer *out, const char *directory, int64_t step,
                        struct error *err) {
    char end[64];
    TRY(buffer_print(out, err, "{\n  \"format\": %d,\n  \"step\": %lld,\n  \"files\": [",
                     FORMAT, (long long)step));
    TRY(add_files(out, directory, err));
    TRY(buffer_print(out, err, "\n  ],\n"));
    format_end(end, out->data, out->length);
    return buffer_print(out, err, "%s", end);
}

enum status manifest_write(const char *directory, int64_t step, struct error *err) {
    struct buffer text = {0};
    char path[PATH_BYTES];
    enum status status = make(&text, directory, step, err);
    if (status == OK)
        status = file_join(path, directory, MANIFEST_NAME, err);
    if (status == OK)
        status = file_write(path, text.data, text.length, err);
    buffer_free(&text);
    return status;
}

static enum status check_end(const struct buffer *text, const char *path,
                             struct error *err) {
    char end[64];
    size_t length = (size_t)format_end(end, "", 0);
    bool fits = text->length > length;
    if (fits) {
        format_end(end, text->data, text->length - length);
        fits = !memcmp(text->data + text->length - length, end, length);
    }
    return fits ? OK
                : error_set(err, ERR_INCOMPATIBLE,
                            "%s: its checksum does not fit its contents", path);
}

static enum status check_contents(const char *path, int64_t size, const char *crc,
                                  struct error *err) {
    uint64_t found_size;
    uint32_t found;
    char text[16];
    TRY(file_checksum(path, &found_size, &found, err));
    snprintf(text, sizeof text, "%08x", found);
    if (found_size != (uint64_t)size || strcmp(text, crc))
        return error_set(err, ERR_INCOMPATIBLE, "%s: expected CRC32C %s, found %s", path,
                         crc, text);
    return OK;
}

static enum status check_file(const char *directory, const json_t *row, bool contents,
                              struct error *err) {
    const char *name = json_string_value(json_object_get(row, "name"));
    const char *crc = json_string_value(json_object_get(row, "crc32c"));
    const json_t *size = json_object_get(row, "size");
    if (!name || strchr(name, '/') || !crc || !json_is_integer(size))
        return error_set(err, ERR_INCOMPATIBLE,
                         "%s/%s: a row without name, size or crc32c", directory,
                         MANIFEST_NAME);
    char path[PATH_BYTES];
    struct stat info;
    TRY(file_join(path, directory, name, err));
    if (stat(path, &info) != 0)
        return error_set(err, ERR_INCOMPATIBLE, "%s: %s", path, strerror(errno));
    if (info.st_size != json_integer_value(size))
        return error_set(err, ERR_INCOMPATIBLE, "%s: expected %lld bytes, found %lld",
                         path, (long long)json_integer_value(size),
                         (long long)info.st_size);
    return contents ? check_contents(path, json_integer_value(size), crc, err) : OK;
}

static enum status check_rows(const char *directory, const char *path,
                              const json_t *manifest, bool contents, struct error *err) {
    json_t *files = json_object_get(manifest, "files");
    if (json_integer_value(json_object_get(manifest, "format")) != FORMAT ||
        !json_is_array(files))
        return error_set(err, ERR_INCOMPATIBLE, "%s: expected format %d with files", path,
                         FORMAT);
    for (size_t i = 0; i < json_array_size(files); i++)
        TRY(check_file(directory, json_array_get(files, i), contents, err));
    return OK;
}

static enum status check_text(const char *directory, const char *path,
                              const struct buffer *text, bool contents,
                              struct error *err) {
    json_t *manifest;
    TRY(check_end(text, path, err));
    TRY(json_file_parse(&manifest, path, text->data, text->length, err));
    enum status status = check_rows(directory, path, manifest, contents, err);
    json_decref(manifest);
    return status;
}

enum status manifest_check(const char *directory, bool contents, struct error *err) {
    struct buffer text = {0};
    char path[PATH_BYTES];
    TRY(file_join(path, directory, MANIFEST_NAME, err));
    enum status status = file_read(&text, path, MOST_BYTES, err);
    if (status == OK)
        status = check_text(directory, path, &text, contents, err);
    buffer_free(&text);
    if (status == ERR_INPUT) /* for a checkpoint, a file that is not there is a fault */
        status = err->status = ERR_INCOMPATIBLE;
    return status;
}
