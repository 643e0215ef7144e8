/* file - reading plain and gzip files, mapping, and writing a whole file or none of it.
 *
 * Paths named "-" are stdin for readers. Only regular files are mapped; a FIFO, socket or
 * directory where a file is expected is an error and never blocks. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

/* Opens a regular file for reading, or says what else it is. */
struct stat;
enum status file_open(int *file, struct stat *info, const char *path,
                      struct error *err) MUST_CHECK;

/* A file mapped read-only. An empty file has data NULL and size 0. */
struct mapping {
    const unsigned char *data;
    size_t size;
};
enum status file_map(struct mapping *m, const char *path, struct error *err) MUST_CHECK;
void file_unmap(struct mapping *m);

/* The whole of a plain file (never unpacked), at most `limit` bytes, appended to `out`.
 */
enum status file_read(struct buffer *out, const char *path, size_t limit,
                      struct error *err) MUST_CHECK;

/* A stream of bytes or lines from a plain or gzip file (told by its first two bytes, not
 * its name) or from stdin ("-"). */
struct reader;
enum status reader_open(struct reader **r, const char *path,
                        struct error *err) MUST_CHECK;
/* Up to `size` bytes into `out`; *got is 0 only at the end. A damaged or cut gzip file is
 * ERR_INPUT. */
enum status reader_read(struct reader *r, void *out, size_t size, size_t *got,
                        struct error *err) MUST_CHECK;
/* The next line without its '\n' (only 0x0A ends a line; a last line without one counts;
 * NUL bytes are kept). `*line` stays valid until the next call and is NUL-terminated;
 * NULL at the end. A line longer than 1 GiB is ERR_INPUT. */
enum status reader_line(struct reader *r, char **line, size_t *length,
                        struct error *err) MUST_CHECK;
/* Can the next line be had without waiting for who writes it? True for files; for a pipe
 * or terminal when a line is buffered or more bytes or the end have arrived. */
bool reader_line_ready(const struct reader *r);
/* Was the last line that reader_line gave ended by a '\n'? */
bool reader_line_was_ended(const struct reader *r);
int64_t reader_line_number(const struct reader *r); /* of the last line, from 1 */
/* Bytes of the file on disk consumed so far, and its size there (0 when unknown): for
 * progress. */
uint64_t reader_bytes(const struct reader *r);
uint64_t reader_total(const struct reader *r);
/* Opens and closes each file, so that a missing one is told before work begins. *total:
 * their sizes on disk together, 0 when one is unknown (stdin). */
enum status reader_check(const char *const *paths, int path_count, uint64_t *total,
                         struct error *err) MUST_CHECK;
const char *reader_path(const struct reader *r);
void reader_close(struct reader *r);

/* A file that appears under its name complete and synced, or not at all: written to a
 * temporary name in the same folder, then fsync, rename, fsync of the folder. Mode from
 * the umask. writer_close() without a commit removes the temporary file. */
struct writer;
enum status writer_open(struct writer **w, const char *path,
                        struct error *err) MUST_CHECK;
/* Reserves room for `length` bytes in all, so that a full disk is told before the work of
 * writing. A file system that cannot reserve is no error. */
enum status writer_reserve(struct writer *w, uint64_t length,
                           struct error *err) MUST_CHECK;
enum status writer_write(struct writer *w, const void *bytes, size_t length,
                         struct error *err) MUST_CHECK;
/* Replaces bytes that were already written: for a header whose counts are known last. */
enum status writer_overwrite(struct writer *w, uint64_t offset, const void *bytes,
                             size_t length, struct error *err) MUST_CHECK;
uint64_t writer_bytes(const struct writer *w);
enum status writer_commit(struct writer *w, struct error *err) MUST_CHECK;
void writer_close(struct writer *w);
enum status file_write(const char *path, const void *bytes, size_t length,
                       struct error *err) MUST_CHECK;
/* Removes the temporary files in `directory` of processes that were killed. */
enum status file_remove_stale(const char *directory, struct error *err) MUST_CHECK;
/* Is process `pid` alive, as far as we can see? */
bool file_owner_is_alive(int64_t pid);

/* CRC32C (Castagnoli) of `bytes`, going on from `crc` (0 at first). "123456789" gives
 * 0xE3069283. */
uint32_t file_crc32c(uint32_t crc, const void *bytes, size_t length);
/* The same for processors without the instruction for it. */
uint32_t file_crc32c_by_table(uint32_t crc, const void *bytes, size_t length);
/* Size and CRC32C of a whole file. */
enum status file_checksum(const char *path, uint64_t *size, uint32_t *crc,
                          struct error *err) MUST_CHECK;

/* Of any kind, a folder too; false also where we may not look. */
bool file_exists(const char *path);
bool file_is_directory(const char *path);
/* Creates the folder and its parents; an existing folder is fine. */
enum status file_make_directory(const char *path, struct error *err) MUST_CHECK;
/* fsync of a file or folder. */
enum status file_sync(const char *path, struct error *err) MUST_CHECK;
/* Removes a folder of ours with all in it (no links followed); none there is fine. */
enum status file_remove_tree(const char *path, struct error *err) MUST_CHECK;
/* "<directory>/<name>" into a fixed buffer; ERR_INPUT when it does not fit. */
#define PATH_BYTES 4096
enum status file_join(char path[PATH_BYTES], const char *directory, const char *name,
                      struct error *err) MUST_CHECK;

#endif
