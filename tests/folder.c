/* folder - a fresh folder below the system's temporary one for a test to write in. */
#include "tests/folder.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"

int folder_setup(void **state) {
    const char *base = getenv("TMPDIR");
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/normglue-test-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(path));
    *state = strdup(path);
    assert_non_null(*state);
    return 0;
}

int folder_teardown(void **state) {
    struct error err;
    assert_int_equal(file_remove_tree(*state, &err), OK);
    free(*state);
    return 0;
}

const char *folder_path(void **state, const char *name) {
    static char paths[8][PATH_BYTES];
    static int turn;
    char *path = paths[turn++ % 8];
    snprintf(path, PATH_BYTES, "%s/%s", (const char *)*state, name);
    return path;
}

const char *folder_write(void **state, const char *name, const void *bytes,
                         size_t length) {
    struct error err;
    const char *path = folder_path(state, name);
    char parent[PATH_BYTES];
    snprintf(parent, sizeof parent, "%s", path);
    *strrchr(parent, '/') = '\0';
    assert_int_equal(file_make_directory(parent, &err), OK);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    return path;
}

const char *folder_write_text(void **state, const char *name, const char *text) {
    return folder_write(state, name, text, strlen(text));
}

char *folder_read(const char *path) {
    struct error err;
    struct buffer text = {0};
    if (file_read(&text, path, 1 << 28, &err) != OK ||
        buffer_reserve(&text, 0, &err) != OK) {
        buffer_free(&text);
        return NULL;
    }
    return text.data;
}
