/* capture - standard streams into files of the test's folder and back.
 *
 * Descriptors are exchanged below stdio, with stdout flushed on either side, so that what
 * a command writes through any of both ends up in the file, in order. */
#include "tests/capture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support.h"

int capture_redirect(int standard, int file) {
    fflush(stdout);
    int saved = dup(standard);
    assert_true(saved >= 0 && dup2(file, standard) == standard);
    return saved;
}

void capture_restore(int standard, int saved) {
    fflush(stdout);
    dup2(saved, standard);
    close(saved);
}

static int create(const char *path) {
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0);
    return file;
}

struct captured capture(int (*command)(int argc, char **argv), const char *input,
                        const char *const *words) {
    int argc = 0, saved[3];
    while (words[argc])
        argc++;
    const char **argv = calloc((size_t)argc + 1, sizeof *argv);
    assert_non_null(argv);
    for (int i = 0; i < argc; i++)
        argv[i] = words[i];
    const char *in = support_write("stdin", input), *out = support_path("stdout"),
               *err = support_path("stderr");
    const int files[3] = {open(in, O_RDONLY), create(out), create(err)};
    for (int i = 0; i < 3; i++)
        saved[i] = capture_redirect(i, files[i]);
    struct captured c = {.code = command(argc, (char **)argv)};
    for (int i = 0; i < 3; i++) {
        capture_restore(i, saved[i]);
        close(files[i]);
    }
    free(argv);
    c.out = support_read(out);
    c.err = support_read(err);
    return c;
}

void captured_free(struct captured *c) {
    buffer_free(&c->out);
    buffer_free(&c->err);
}
