/* test_runlog - lines, numbers, and the cut at a checkpoint's offset. */
#include "base/runlog.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support.h"

static void check(const char *path, const char *expected) {
    struct buffer b = support_read(path);
    assert_string_equal(b.data, expected);
    buffer_free(&b);
}

static void lines_are_objects_and_counted(void **state) {
    (void)state;
    struct runlog *log;
    struct error err;
    char loss[32];
    const char *path = support_write("log", "old lines\n");
    SUPPORT_OK(runlog_open(&log, path, 0, &err), err);
    SUPPORT_OK(
        runlog_line(log, &err, "\"step\": %d, \"loss\": %s", 1, runlog_number(loss, 0.1)),
        err);
    SUPPORT_OK(
        runlog_line(log, &err, "\"step\": %d, \"loss\": %s", 2, runlog_number(loss, NAN)),
        err);
    check(path, "{\"step\": 1, \"loss\": 0.1}\n{\"step\": 2, \"loss\": null}\n");
    assert_int_equal(runlog_offset(log), 25 + 26);
    SUPPORT_OK(runlog_sync(log, &err), err);
    runlog_close(log);
}

static void a_log_is_cut_back_to_the_checkpoint(void **state) {
    (void)state;
    struct runlog *log;
    struct error err;
    const char *path = support_path("log");
    SUPPORT_OK(runlog_open(&log, path, 0, &err), err);
    SUPPORT_OK(runlog_line(log, &err, "\"step\": 1"), err);
    const uint64_t offset = runlog_offset(log);
    SUPPORT_OK(runlog_line(log, &err, "\"step\": 2, \"lost\": true"), err);
    runlog_close(log);
    SUPPORT_OK(runlog_open(&log, path, offset, &err), err);
    SUPPORT_OK(runlog_line(log, &err, "\"step\": 2"), err);
    assert_int_equal(runlog_offset(log), 2 * offset);
    runlog_close(log);
    check(path, "{\"step\": 1}\n{\"step\": 2}\n");
}

static void a_log_shorter_than_the_checkpoint_is_incompatible(void **state) {
    (void)state;
    struct runlog *log;
    struct error err;
    const char *path = support_write("log", "{}\n");
    assert_int_equal(runlog_open(&log, path, 4, &err), ERR_INCOMPATIBLE);
    support_assert_error(&err, ERR_INCOMPATIBLE,
                         "*/log: expected at least the 4 bytes that the checkpoint "
                         "records, found 3");
    assert_null(log);
    check(path, "{}\n");
}

static void what_is_no_file_is_an_error(void **state) {
    (void)state;
    struct runlog *log;
    struct error err;
    const char *fifo = support_path("fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    alarm(20);
    assert_int_not_equal(runlog_open(&log, fifo, 0, &err), OK);
    alarm(0);
    assert_int_equal(runlog_open(&log, support_folder(), 0, &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "*: cannot open the log: Is a directory");
    assert_int_equal(runlog_open(&log, "/dev/null", 0, &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "/dev/null: expected a regular file");
}

static void a_line_too_long_is_an_error_and_not_written(void **state) {
    (void)state;
    struct runlog *log;
    struct error err;
    static char text[5000];
    memset(text, 'x', sizeof text - 1);
    SUPPORT_OK(runlog_open(&log, support_path("log"), 0, &err), err);
    assert_int_equal(runlog_line(log, &err, "\"x\": \"%s\"", text), ERR_FAILED);
    assert_int_equal(runlog_offset(log), 0);
    runlog_close(log);
}

static void no_log_keeps_nothing(void **state) {
    (void)state;
    struct error err;
    SUPPORT_OK(runlog_line(NULL, &err, "\"x\": 1"), err);
    SUPPORT_OK(runlog_sync(NULL, &err), err);
    assert_int_equal(runlog_offset(NULL), 0);
    runlog_close(NULL);
}

static void numbers_are_json(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {1, "1"},          {-0.5, "-0.5"},     {1.0 / 3, "0.333333333"},
        {1e300, "1e+300"}, {INFINITY, "null"}, {-INFINITY, "null"},
        {NAN, "null"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[32];
        assert_string_equal(runlog_number(text, rows[i].value), rows[i].text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_objects_and_counted),
        cmocka_unit_test(a_log_is_cut_back_to_the_checkpoint),
        cmocka_unit_test(a_log_shorter_than_the_checkpoint_is_incompatible),
        cmocka_unit_test(what_is_no_file_is_an_error),
        cmocka_unit_test(a_line_too_long_is_an_error_and_not_written),
        cmocka_unit_test(no_log_keeps_nothing),
        cmocka_unit_test(numbers_are_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
