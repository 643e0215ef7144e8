/* folder - a fresh folder below the system's temporary one for a test to write in. */
#ifndef TESTS_FOLDER_H
#define TESTS_FOLDER_H

#include <stddef.h>

/* cmocka setup and teardown: *state is the folder's path. Failures end the test. */
int folder_setup(void **state);
int folder_teardown(void **state);

/* "<folder>/<name>"; the string lives until the next eight calls. */
const char *folder_path(void **state, const char *name);
/* Writes <folder>/<name>, making folders on the way, and returns its path as above. */
const char *folder_write(void **state, const char *name, const void *bytes,
                         size_t length);
const char *folder_write_text(void **state, const char *name, const char *text);
/* The whole file as a NUL-terminated string to free(); NULL when it cannot be read. */
char *folder_read(const char *path);

#endif
