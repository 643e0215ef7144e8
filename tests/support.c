/* support - what several tests need.
 *
 * Errors are compared as whole sentences, because the sentence is what a user gets; "*"
 * stands for what differs from machine to machine (fnmatch). */
#include "tests/support.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"

static char folder[PATH_BYTES];
static pid_t owner; /* a child that a test forks must not remove the folder */

/* At exit, and not after each test: a failing one ends by a long jump. */
static void remove_folder(void) {
    struct error err;
    if (getpid() == owner && file_remove_tree(folder, &err) != OK)
        fprintf(stderr, "# %s\n", err.text);
}

const char *support_folder(void) {
    if (folder[0])
        return folder;
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/normglue-test-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(folder)) {
        perror(folder);
        exit(1);
    }
    owner = getpid();
    atexit(remove_folder);
    return folder;
}

const char *support_in(const char *directory, const char *name) {
    static char paths[16][PATH_BYTES];
    static unsigned next;
    char *path = paths[next++ % 16];
    struct error err;
    SUPPORT_OK(file_join(path, directory, name, &err), err);
    return path;
}

const char *support_path(const char *name) { return support_in(support_folder(), name); }

const char *support_new_path(void) {
    static char paths[64][PATH_BYTES];
    static int number;
    char name[32];
    assert_true(number < 64);
    snprintf(name, sizeof name, "new%d", number);
    return strcpy(paths[number++], support_path(name));
}

const char *support_write_bytes(const char *name, const void *bytes, size_t length) {
    const char *path = support_path(name);
    char parent[PATH_BYTES];
    struct error err;
    snprintf(parent, sizeof parent, "%s", path);
    *strrchr(parent, '/') = '\0';
    SUPPORT_OK(file_make_directory(parent, &err), err);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    return path;
}

const char *support_write(const char *name, const char *text) {
    return support_write_bytes(name, text, strlen(text));
}

const char *support_write_gzip(const char *name, const char *text, int append) {
    const char *path = support_path(name);
    gzFile file = gzopen(path, append ? "ab" : "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, text, (unsigned)strlen(text)), strlen(text));
    assert_int_equal(gzclose(file), Z_OK);
    return path;
}

struct buffer support_read(const char *path) {
    struct buffer text = {0};
    struct error err;
    SUPPORT_OK(file_read(&text, path, (size_t)1 << 30, &err), err);
    return text;
}

void support_assert_error(const struct error *err, enum status status,
                          const char *expected) {
    if (fnmatch(expected, err->text, 0) != 0)
        assert_string_equal(err->text, expected);
    assert_int_equal(err->status, status);
}

static void append(struct buffer *to, const char *name) {
    struct error err;
    struct buffer text = support_read(support_path(name));
    if (to)
        SUPPORT_OK(buffer_add(to, text.data, text.length, &err), err);
    buffer_free(&text);
}

/* Streams go through files, as a pipe that is not read would block the command. */
int support_run(const char *command, struct buffer *out, struct buffer *errors) {
    struct buffer line = {0};
    struct error err;
    const char *streams[] = {support_path("run.out"), support_path("run.err")};
    SUPPORT_OK(buffer_print(&line, &err, "{ %s\n} >'%s' 2>'%s'", command, streams[0],
                            streams[1]),
               err);
    const int code = system(line.data);
    buffer_free(&line);
    append(out, "run.out");
    append(errors, "run.err");
    return WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
}
