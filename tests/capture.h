/* capture - runs a command in this process with its standard streams redirected. */
#ifndef TESTS_CAPTURE_H
#define TESTS_CAPTURE_H

struct captured {
    int code;
    char *out, *err; /* all that was written */
};

/* `words` end with NULL; `input` is what stdin holds; *state is a folder's
 * (tests/folder).
 */
struct captured capture(void **state, int (*command)(int argc, char **argv),
                        const char *input, const char *const *words);
void captured_free(struct captured *c);

/* Points a standard descriptor at `file`; what restore wants. */
int capture_redirect(int standard, int file);
void capture_restore(int standard, int saved);

#endif
