/* support - what several tests need: cmocka with its includes, a folder to write in,
 * files in it, and errors compared as whole sentences.
 *
 * Tests run with the repository's root as working directory, read tests/data and write
 * below support_folder() only. A path that is asked for again and again may be reused:
 * take support_new_path() for one that must be new. */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* cmocka wants the four above. */
#include <cmocka.h>

#include "base/buffer.h"
#include "base/error.h"

/* A new folder of this process under $TMPDIR, the same for every call, removed with all
 * in it at exit. */
const char *support_folder(void);
/* "<folder>/<name>", and the same in another directory; the text stays valid for the next
 * 16 calls of either. */
const char *support_path(const char *name);
const char *support_in(const char *directory, const char *name);
/* A path that no other call gave; it stays valid. At most 64 a test program. */
const char *support_new_path(void);
/* Writes `length` bytes (or a text) to support_path(name), making folders on the way, and
 * returns that path. */
const char *support_write_bytes(const char *name, const void *bytes, size_t length);
const char *support_write(const char *name, const char *text);
/* The same bytes as a gzip file of one member; `append` adds the member to what is there.
 */
const char *support_write_gzip(const char *name, const char *text, int append);
/* The whole file; the caller frees it with buffer_free. */
struct buffer support_read(const char *path);

/* Checks status and sentence of an error. "*" in `expected` stands for any characters. */
void support_assert_error(const struct error *err, enum status status,
                          const char *expected);
/* Fails with the error's sentence unless `status` is OK. */
#define SUPPORT_OK(call, err)                      \
    do {                                           \
        if ((call) != OK)                          \
            fail_msg("%s: %s", #call, (err).text); \
    } while (0)

/* The worse of the differences so far and a further one. NaN stays, and no bound lets it
 * through; fmax() would drop it. */
static inline double support_worse(double so_far, double found) {
    return isnan(so_far) || found <= so_far ? so_far : found;
}

/* Runs a shell command; stdout and stderr are appended where a buffer is given. Returns
 * the exit code, or 128 + the signal. */
int support_run(const char *command, struct buffer *out, struct buffer *errors);

#endif
