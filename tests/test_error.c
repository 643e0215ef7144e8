/* test_error - sentences, contexts in front of them, and system errors. */
#include <errno.h>
#include <string.h>

#include "tests/support.h"

static void a_sentence_is_kept_with_its_status(void **state) {
    (void)state;
    struct error err;
    assert_int_equal(
        error_set(&err, ERR_INPUT, "%s:%d: expected %d columns", "a.tsv", 7, 3),
        ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "a.tsv:7: expected 3 columns");
}

static void a_context_goes_in_front_and_keeps_the_status(void **state) {
    (void)state;
    struct error err;
    error_set(&err, ERR_IO, "disk full");
    assert_int_equal(error_context(&err, "model.%s", "safetensors"), ERR_IO);
    assert_int_equal(error_context(&err, "finetune"), ERR_IO);
    support_assert_error(&err, ERR_IO, "finetune: model.safetensors: disk full");
}

static void an_argument_may_be_the_sentence_itself(void **state) {
    (void)state;
    struct error err;
    error_set(&err, ERR_INPUT, "inner");
    error_set(&err, ERR_USAGE, "outer (%s)", err.text);
    support_assert_error(&err, ERR_USAGE, "outer (inner)");
}

static void a_long_sentence_is_cut(void **state) {
    (void)state;
    struct error err;
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    error_set(&err, ERR_FAILED, "%s", text);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    error_context(&err, "%s", text);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static void errno_decides_the_status_of_a_system_error(void **state) {
    (void)state;
    static const struct {
        int number;
        enum status status;
        const char *text;
    } rows[] = {
        {ENOENT, ERR_INPUT, "p: cannot open: No such file or directory"},
        {EISDIR, ERR_INPUT, "p: cannot open: Is a directory"},
        {ENOMEM, ERR_MEMORY, "p: cannot open: Cannot allocate memory"},
        {ENOSPC, ERR_IO, "p: cannot open: No space left on device"},
        {EACCES, ERR_IO, "p: cannot open: Permission denied"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error err;
        errno = rows[i].number;
        assert_int_equal(error_system(&err, "p", "cannot open"), rows[i].status);
        support_assert_error(&err, rows[i].status, rows[i].text);
    }
}

static enum status try_it(enum status inner, int *reached) {
    TRY(inner);
    *reached = 1;
    return OK;
}

static void try_leaves_with_the_status_of_a_failure(void **state) {
    (void)state;
    int reached = 0;
    assert_int_equal(try_it(ERR_MEMORY, &reached), ERR_MEMORY);
    assert_int_equal(reached, 0);
    assert_int_equal(try_it(OK, &reached), OK);
    assert_int_equal(reached, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sentence_is_kept_with_its_status),
        cmocka_unit_test(a_context_goes_in_front_and_keeps_the_status),
        cmocka_unit_test(an_argument_may_be_the_sentence_itself),
        cmocka_unit_test(a_long_sentence_is_cut),
        cmocka_unit_test(errno_decides_the_status_of_a_system_error),
        cmocka_unit_test(try_leaves_with_the_status_of_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
