/* test_file_writer - a file appears complete or not at all. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support.h"

static void check_content(const char *path, const char *expected) {
    struct buffer b = support_read(path);
    assert_string_equal(b.data, expected);
    buffer_free(&b);
}

static int count_entries(const char *folder) {
    int count = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    while (readdir(entries))
        count++;
    closedir(entries);
    return count - 2; /* without . and .. */
}

static const char *fresh_folder(const char *name) {
    struct error err;
    const char *path = support_path(name);
    SUPPORT_OK(file_make_directory(path, &err), err);
    return path;
}

static void a_file_without_commit_leaves_no_trace(void **state) {
    (void)state;
    const char *folder = fresh_folder("uncommitted");
    const char *path = support_write("uncommitted/file", "old");
    struct writer *w;
    struct error err;
    SUPPORT_OK(writer_open(&w, path, &err), err);
    SUPPORT_OK(writer_write(w, "new", 3, &err), err);
    check_content(path, "old");
    writer_close(w);
    check_content(path, "old");
    assert_int_equal(count_entries(folder), 1);
}

static void a_committed_file_replaces_the_old_one(void **state) {
    (void)state;
    const char *folder = fresh_folder("committed");
    const char *path = support_write("committed/file", "old");
    struct writer *w;
    struct error err;
    SUPPORT_OK(writer_open(&w, path, &err), err);
    SUPPORT_OK(writer_write(w, "new", 3, &err), err);
    SUPPORT_OK(writer_write(w, NULL, 0, &err), err);
    SUPPORT_OK(writer_write(w, "er", 2, &err), err);
    assert_int_equal(writer_bytes(w), 5);
    SUPPORT_OK(writer_commit(w, &err), err);
    writer_close(w);
    check_content(path, "newer");
    assert_int_equal(count_entries(folder), 1);
}

static void the_mode_comes_from_the_umask(void **state) {
    (void)state;
    const char *path = support_path("mode");
    struct error err;
    struct stat info;
    const mode_t saved = umask(027);
    SUPPORT_OK(file_write(path, "x", 1, &err), err);
    umask(saved);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
}

static void pieces_of_all_sizes_arrive_in_order(void **state) {
    (void)state;
    struct buffer expected = {0};
    struct writer *w;
    struct error err;
    char piece[300000];
    memset(piece, 'p', sizeof piece);
    static const size_t sizes[] = {1, 131072, 131071, 2, 300000, 131072, 0, 5};
    SUPPORT_OK(writer_open(&w, support_path("pieces"), &err), err);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memset(piece, 'a' + (int)i, sizes[i]);
        SUPPORT_OK(buffer_add(&expected, piece, sizes[i], &err), err);
        SUPPORT_OK(writer_write(w, piece, sizes[i], &err), err);
    }
    SUPPORT_OK(writer_commit(w, &err), err);
    assert_int_equal(writer_bytes(w), expected.length);
    writer_close(w);
    check_content(support_path("pieces"), expected.data);
    buffer_free(&expected);
}

static void a_header_is_replaced_before_and_after_it_reached_the_disk(void **state) {
    (void)state;
    struct writer *w;
    struct error err;
    char piece[200000];
    memset(piece, '.', sizeof piece);
    SUPPORT_OK(writer_open(&w, support_path("header"), &err), err);
    SUPPORT_OK(writer_write(w, "0000", 4, &err), err);
    SUPPORT_OK(writer_overwrite(w, 1, "12", 2, &err), err);
    SUPPORT_OK(writer_write(w, piece, sizeof piece, &err), err);
    SUPPORT_OK(writer_write(w, "end", 3, &err), err);
    SUPPORT_OK(writer_overwrite(w, 2, "ab", 2, &err), err);
    assert_int_equal(writer_bytes(w), 4 + sizeof piece + 3);
    SUPPORT_OK(writer_commit(w, &err), err);
    writer_close(w);
    struct buffer b = support_read(support_path("header"));
    assert_int_equal(b.length, 4 + sizeof piece + 3);
    assert_memory_equal(b.data, "01ab..", 6);
    assert_string_equal(b.data + b.length - 4, ".end");
    buffer_free(&b);
}

static void room_is_reserved_before_anything_is_written(void **state) {
    (void)state;
    struct writer *w;
    struct error err;
    SUPPORT_OK(writer_open(&w, support_path("room"), &err), err);
    assert_int_equal(writer_reserve(w, UINT64_C(1) << 62, &err), ERR_IO);
    support_assert_error(&err, ERR_IO, "*/room: cannot reserve room: *");
    SUPPORT_OK(writer_reserve(w, 1000000, &err), err);
    SUPPORT_OK(writer_write(w, "short", 5, &err), err);
    SUPPORT_OK(writer_commit(w, &err), err);
    writer_close(w);
    check_content(support_path("room"), "short");
}

static void what_cannot_be_a_file_is_an_error(void **state) {
    (void)state;
    struct error err;
    static const char sentence[] = "*: expected a file name, found a directory or device";
    const char *paths[] = {support_folder(), "/dev/null", "folder/"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(file_write(paths[i], "x", 1, &err), ERR_INPUT);
        support_assert_error(&err, ERR_INPUT, sentence);
    }
    assert_int_equal(file_write(support_path("no/such/folder"), "x", 1, &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT,
                         "*/no/such/folder: cannot create: No such file or directory");
}

/* A limit on file sizes stands for a full disk. */
static void a_full_disk_leaves_the_old_file(void **state) {
    (void)state;
    const char *folder = fresh_folder("full");
    const char *path = support_write("full/file", "old");
    struct rlimit saved, small;
    struct writer *w;
    struct error err;
    static const char bytes[400000];
    getrlimit(RLIMIT_FSIZE, &saved);
    small = saved;
    small.rlim_cur = 200000;
    signal(SIGXFSZ, SIG_IGN);
    SUPPORT_OK(writer_open(&w, path, &err), err);
    setrlimit(RLIMIT_FSIZE, &small);
    const enum status status = writer_write(w, bytes, sizeof bytes, &err);
    setrlimit(RLIMIT_FSIZE, &saved);
    assert_int_equal(status, ERR_IO);
    support_assert_error(&err, ERR_IO, "*/full/file: cannot write: File too large");
    writer_close(w);
    check_content(path, "old");
    assert_int_equal(count_entries(folder), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_without_commit_leaves_no_trace),
        cmocka_unit_test(a_committed_file_replaces_the_old_one),
        cmocka_unit_test(the_mode_comes_from_the_umask),
        cmocka_unit_test(pieces_of_all_sizes_arrive_in_order),
        cmocka_unit_test(a_header_is_replaced_before_and_after_it_reached_the_disk),
        cmocka_unit_test(room_is_reserved_before_anything_is_written),
        cmocka_unit_test(what_cannot_be_a_file_is_an_error),
        cmocka_unit_test(a_full_disk_leaves_the_old_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
