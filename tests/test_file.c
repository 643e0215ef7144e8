/* test_file - mapping, whole reads, checksums, folders: what is not a regular file is an
 * error that names it, and nothing waits. */
#include "base/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support.h"

static void a_mapped_file_has_its_bytes(void **state) {
    (void)state;
    struct mapping m;
    struct error err;
    SUPPORT_OK(file_map(&m, support_write("map", "abc\n"), &err), err);
    assert_int_equal(m.size, 4);
    assert_memory_equal(m.data, "abc\n", 4);
    file_unmap(&m);
    assert_null(m.data);
    SUPPORT_OK(file_map(&m, support_write("empty", ""), &err), err);
    assert_null(m.data);
    assert_int_equal(m.size, 0);
    file_unmap(&m);
}

static void a_whole_file_is_appended(void **state) {
    (void)state;
    struct buffer b = {0};
    struct error err;
    const char *path = support_write("whole", "0123456789");
    SUPPORT_OK(file_read(&b, path, 10, &err), err);
    SUPPORT_OK(file_read(&b, path, 10, &err), err);
    assert_string_equal(b.data, "01234567890123456789");
    assert_int_equal(file_read(&b, path, 9, &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "*/whole: expected at most 9 bytes, found 10");
    buffer_free(&b);
    SUPPORT_OK(file_read(&b, support_write("empty", ""), 9, &err), err);
    assert_string_equal(b.data, "");
    buffer_free(&b);
}

/* Each opens what is there as a file, and must neither succeed nor wait. */
static enum status map_it(const char *path, struct error *err) {
    struct mapping m;
    return file_map(&m, path, err);
}
static enum status read_it(const char *path, struct error *err) {
    struct buffer b = {0};
    const enum status status = file_read(&b, path, 100, err);
    buffer_free(&b);
    return status;
}
static enum status stream_it(const char *path, struct error *err) {
    struct reader *r;
    const enum status status = reader_open(&r, path, err);
    if (status == OK)
        reader_close(r);
    return status;
}
static enum status sum_it(const char *path, struct error *err) {
    uint64_t size;
    uint32_t crc;
    return file_checksum(path, &size, &crc, err);
}

static void what_is_no_regular_file_is_named(void **state) {
    (void)state;
    enum status (*const openers[])(const char *, struct error *) = {map_it, read_it,
                                                                    stream_it, sum_it};
    const char *fifo = support_path("fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    struct {
        const char *path, *sentence;
    } rows[] = {
        {fifo, "*/fifo: expected a regular file, found a FIFO"},
        {support_folder(), "*: expected a regular file, found a directory"},
        {"/dev/null", "/dev/null: expected a regular file, found a device"},
        {"missing/file", "missing/file: cannot open: No such file or directory"},
    };
    alarm(20); /* a hang fails */
    for (size_t i = 0; i < sizeof openers / sizeof *openers; i++)
        for (size_t j = 0; j < sizeof rows / sizeof *rows; j++) {
            struct error err;
            assert_int_equal(openers[i](rows[j].path, &err), ERR_INPUT);
            support_assert_error(&err, ERR_INPUT, rows[j].sentence);
        }
    alarm(0);
}

/* RFC 3720, B.4, and the check value of the catalogue of CRCs. */
static void crc32c_gives_the_published_answers(void **state) {
    (void)state;
    unsigned char bytes[32] = {0};
    assert_int_equal(file_crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(file_crc32c(0, "", 0), 0);
    assert_int_equal(file_crc32c(0, bytes, 32), 0x8A9136AA);
    memset(bytes, 0xff, 32);
    assert_int_equal(file_crc32c(0, bytes, 32), 0x62A8AB43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(file_crc32c(0, bytes, 32), 0x46DD794E);
}

static void crc32c_goes_on_where_it_stopped(void **state) {
    (void)state;
    char text[1000];
    for (int i = 0; i < 1000; i++)
        text[i] = (char)(i * i);
    const uint32_t whole = file_crc32c(0, text, sizeof text);
    for (size_t cut = 0; cut <= sizeof text; cut += 7)
        assert_int_equal(
            file_crc32c(file_crc32c(0, text, cut), text + cut, sizeof text - cut), whole);
    for (size_t size = 0; size < 40; size++) /* the instruction against the table */
        assert_int_equal(file_crc32c(5, text + 3, size),
                         file_crc32c_by_table(5, text + 3, size));
}

static void a_checksum_is_of_the_whole_file(void **state) {
    (void)state;
    uint64_t size = 1;
    uint32_t crc = 1;
    struct error err;
    SUPPORT_OK(file_checksum(support_write("sum", "123456789"), &size, &crc, &err), err);
    assert_int_equal(size, 9);
    assert_int_equal(crc, 0xE3069283);
    SUPPORT_OK(file_checksum(support_write("empty", ""), &size, &crc, &err), err);
    assert_int_equal(size, 0);
    assert_int_equal(crc, 0);
}

static void folders_are_made_with_their_parents(void **state) {
    (void)state;
    struct error err;
    const char *path = support_path("a/b/c//d/");
    SUPPORT_OK(file_make_directory(path, &err), err);
    assert_true(file_is_directory(path));
    SUPPORT_OK(file_make_directory(path, &err), err);
    SUPPORT_OK(file_sync(path, &err), err);
    support_write("a/plain", "x");
    assert_int_equal(file_make_directory(support_path("a/plain/e"), &err), ERR_IO);
    support_assert_error(&err, ERR_IO, "*/a/plain: cannot create the folder: *");
    char long_path[PATH_BYTES + 10];
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    assert_int_equal(file_make_directory(long_path, &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "xxx*...: path too long");
}

static void a_tree_is_removed_but_no_link_is_followed(void **state) {
    (void)state;
    struct error err;
    SUPPORT_OK(file_make_directory(support_path("tree/x/y"), &err), err);
    SUPPORT_OK(file_make_directory(support_path("outside"), &err), err);
    support_write("tree/x/file", "1");
    support_write("tree/.hidden", "2");
    const char *kept = support_write("outside/kept", "3");
    assert_int_equal(symlink(support_path("outside"), support_path("tree/link")), 0);
    SUPPORT_OK(file_remove_tree(support_path("tree"), &err), err);
    assert_false(file_exists(support_path("tree")));
    assert_true(file_exists(kept));
    SUPPORT_OK(file_remove_tree(support_path("tree"), &err), err);
    const char *plain = support_write("plain", "x");
    assert_int_equal(file_remove_tree(plain, &err), ERR_IO);
    support_assert_error(&err, ERR_IO,
                         "*/plain: cannot remove the folder: Not a directory");
    assert_int_equal(symlink(support_path("outside"), support_path("link")), 0);
    assert_int_not_equal(file_remove_tree(support_path("link"), &err), OK);
    assert_true(file_exists(kept));
}

static void joined_paths_have_one_slash(void **state) {
    (void)state;
    char path[PATH_BYTES], long_name[PATH_BYTES];
    struct error err;
    SUPPORT_OK(file_join(path, "run", "config.json", &err), err);
    assert_string_equal(path, "run/config.json");
    SUPPORT_OK(file_join(path, "run/", "config.json", &err), err);
    assert_string_equal(path, "run/config.json");
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(file_join(path, "run", long_name, &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "run.../nnn*: path too long");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mapped_file_has_its_bytes),
        cmocka_unit_test(a_whole_file_is_appended),
        cmocka_unit_test(what_is_no_regular_file_is_named),
        cmocka_unit_test(crc32c_gives_the_published_answers),
        cmocka_unit_test(crc32c_goes_on_where_it_stopped),
        cmocka_unit_test(a_checksum_is_of_the_whole_file),
        cmocka_unit_test(folders_are_made_with_their_parents),
        cmocka_unit_test(a_tree_is_removed_but_no_link_is_followed),
        cmocka_unit_test(joined_paths_have_one_slash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
