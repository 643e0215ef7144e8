/* test_file_reader - bytes and lines of plain files, gzip files and pipes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support.h"

/* All lines of a reader as "<line>|<length>" joined by '\n'. */
static enum status gather(const char *path, struct buffer *out, struct error *err) {
    struct reader *r;
    char *line;
    size_t length;
    TRY(reader_open(&r, path, err));
    enum status status;
    while ((status = reader_line(r, &line, &length, err)) == OK && line) {
        assert_int_equal(line[length], 0);
        SUPPORT_OK(buffer_print(out, err, "%s|%zu%s", line, length,
                                reader_line_was_ended(r) ? "\n" : "<end>"),
                   *err);
    }
    reader_close(r);
    return status;
}

static void check_lines(const char *path, const char *expected) {
    struct buffer out = {0};
    struct error err;
    SUPPORT_OK(buffer_add(&out, "", 0, &err), err);
    SUPPORT_OK(gather(path, &out, &err), err);
    assert_string_equal(out.data, expected);
    buffer_free(&out);
}

static const struct {
    const char *text, *lines;
} texts[] = {
    {"", ""},
    {"\n", "|0\n"},
    {"a", "a|1<end>"},
    {"a\nb\n", "a|1\nb|1\n"},
    {"a\n\nb", "a|1\n|0\nb|1<end>"},
    {"cr\r\nvt\vff\f\x85\n", "cr\r|3\nvt\vff\f\x85|7\n"}, /* only 0x0A ends a line */
};

static void lines_of_plain_and_gzip_files_are_the_same(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        check_lines(support_write("plain.gz", texts[i].text), texts[i].lines);
        check_lines(support_write_gzip("packed.txt", texts[i].text, 0), texts[i].lines);
    }
}

static void a_nul_stays_in_its_line(void **state) {
    (void)state;
    struct reader *r;
    struct error err;
    char *line;
    size_t length;
    SUPPORT_OK(reader_open(&r, support_write_bytes("nul", "a\0b\nc", 5), &err), err);
    SUPPORT_OK(reader_line(r, &line, &length, &err), err);
    assert_int_equal(length, 3);
    assert_memory_equal(line, "a\0b", 4);
    assert_int_equal(reader_line_number(r), 1);
    SUPPORT_OK(reader_line(r, &line, &length, &err), err);
    assert_string_equal(line, "c");
    assert_int_equal(reader_line_number(r), 2);
    for (int i = 0; i < 2; i++) { /* the end stays the end */
        SUPPORT_OK(reader_line(r, &line, &length, &err), err);
        assert_null(line);
        assert_int_equal(reader_line_number(r), 2);
    }
    reader_close(r);
}

static void members_of_a_gzip_file_follow_each_other(void **state) {
    (void)state;
    support_write_gzip("members.gz", "first\nsec", 0);
    support_write_gzip("members.gz", "", 1);
    const char *path = support_write_gzip("members.gz", "ond\nthird\n", 1);
    check_lines(path, "first|5\nsecond|6\nthird|5\n");
}

/* gzip(1) pads to blocks of tape with zeros. */
static void zeros_behind_the_last_member_are_ignored(void **state) {
    (void)state;
    struct buffer b = support_read(support_write_gzip("padded", "text\n", 0));
    struct error err;
    static const char zeros[512];
    SUPPORT_OK(buffer_add(&b, zeros, sizeof zeros, &err), err);
    check_lines(support_write_bytes("padded", b.data, b.length), "text|4\n");
    buffer_free(&b);
}

static void every_cut_of_a_gzip_file_is_an_error(void **state) {
    (void)state;
    struct buffer b =
        support_read(support_write_gzip("whole.gz", "some text\nof lines\n", 0));
    for (size_t size = 2; size < b.length; size++) {
        struct buffer out = {0};
        struct error err;
        const char *path = support_write_bytes("cut.gz", b.data, size);
        assert_int_equal(gather(path, &out, &err), ERR_INPUT);
        support_assert_error(&err, ERR_INPUT,
                             "*/cut.gz: damaged gzip file near byte *: expected more "
                             "data, found the end of the file");
        buffer_free(&out);
    }
    buffer_free(&b);
}

static void no_damage_of_a_gzip_file_goes_unseen(void **state) {
    (void)state;
    const char *text = "some text\nof lines\n";
    struct buffer b = support_read(support_write_gzip("whole.gz", text, 0));
    size_t num_seen = 0;
    for (size_t i = 10; i < b.length; i++) { /* the header has bits without meaning */
        struct buffer out = {0};
        struct error err = {0};
        b.data[i] ^= 0x20;
        const char *path = support_write_bytes("bad.gz", b.data, b.length);
        if (gather(path, &out, &err) == OK) /* a bit of padding */
            assert_string_equal(out.data, "some text|9\nof lines|8\n");
        else
            support_assert_error(&err, ERR_INPUT,
                                 "*/bad.gz: damaged gzip file near byte *");
        num_seen += err.status == ERR_INPUT;
        b.data[i] ^= 0x20;
        buffer_free(&out);
    }
    assert_true(num_seen >= b.length - 11);
    support_write_gzip("tail.gz", text, 0);
    struct buffer c = support_read(support_path("tail.gz")), out = {0};
    struct error err;
    SUPPORT_OK(buffer_add(&c, "rubbish", 7, &err), err);
    const char *path = support_write_bytes("tail.gz", c.data, c.length);
    assert_int_equal(gather(path, &out, &err), ERR_INPUT);
    support_assert_error(
        &err, ERR_INPUT,
        "*/tail.gz: damaged gzip file near byte *: incorrect header check");
    buffer_free(&b);
    buffer_free(&c);
    buffer_free(&out);
}

/* Longer than the chunks of the reader, so that lines and reads cross their borders. */
static struct buffer big_text(void) {
    struct buffer b = {0};
    struct error err;
    for (int i = 0; b.length < 1000000; i++)
        SUPPORT_OK(
            buffer_print(&b, &err, "%d %.*s\n", i * 7919, i % 200,
                         "the quick brown fox jumps over the lazy dog and the "
                         "quick brown fox jumps over the lazy dog once more, and "
                         "again, and again, until it has jumped two hundred times"),
            err);
    return b;
}

static void check_reads(const char *path, const struct buffer *text, size_t size) {
    struct reader *r;
    struct error err;
    size_t at = 0, got;
    char *bytes = malloc(size);
    SUPPORT_OK(reader_open(&r, path, &err), err);
    do {
        SUPPORT_OK(reader_read(r, bytes, size, &got, &err), err);
        assert_true(got <= text->length - at);
        assert_memory_equal(bytes, text->data + at, got);
        at += got;
    } while (got == size);
    assert_int_equal(at, text->length);
    assert_int_equal(reader_bytes(r), reader_total(r));
    reader_close(r);
    free(bytes);
}

static void reads_of_any_size_give_the_file(void **state) {
    (void)state;
    struct buffer text = big_text();
    support_write_gzip("big.gz", text.data, 0);
    support_write("big.txt", text.data);
    static const size_t sizes[] = {1000, 131072, 131073, 999999, 5000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_reads(support_path("big.gz"), &text, sizes[i]);
        check_reads(support_path("big.txt"), &text, sizes[i]);
    }
    buffer_free(&text);
}

static void lines_cross_the_borders_of_chunks(void **state) {
    (void)state;
    struct buffer text = big_text(), again = {0};
    struct error err;
    struct reader *r;
    char *line;
    size_t length;
    SUPPORT_OK(reader_open(&r, support_write_gzip("big.gz", text.data, 0), &err), err);
    for (;;) {
        SUPPORT_OK(reader_line(r, &line, &length, &err), err);
        if (!line)
            break;
        SUPPORT_OK(buffer_print(&again, &err, "%s\n", line), err);
    }
    reader_close(r);
    assert_string_equal(again.data, text.data);
    buffer_free(&text);
    buffer_free(&again);
}

/* Stdin is a pipe whose other end is ours to write. */
static int pipe_to_stdin(int *saved) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    *saved = dup(STDIN_FILENO);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    return ends[1];
}

static void stdin_is_read_as_lines_come(void **state) {
    (void)state;
    int saved;
    const int end = pipe_to_stdin(&saved);
    struct reader *r;
    struct error err;
    char *line;
    size_t length;
    alarm(20);
    assert_int_equal(write(end, "one\ntwo\n", 8), 8);
    SUPPORT_OK(reader_open(&r, "-", &err), err);
    assert_int_equal(reader_total(r), 0);
    SUPPORT_OK(reader_line(r, &line, &length, &err), err);
    assert_string_equal(line, "one"); /* though the pipe is still open */
    assert_true(reader_line_ready(r));
    SUPPORT_OK(reader_line(r, &line, &length, &err), err);
    assert_string_equal(line, "two");
    assert_false(reader_line_ready(r));
    assert_int_equal(write(end, "three", 5), 5);
    close(end);
    assert_true(reader_line_ready(r));
    SUPPORT_OK(reader_line(r, &line, &length, &err), err);
    assert_string_equal(line, "three");
    assert_false(reader_line_was_ended(r));
    reader_close(r);
    alarm(0);
    dup2(saved, STDIN_FILENO);
    close(saved);
}

static void gzip_on_stdin_is_unpacked(void **state) {
    (void)state;
    int saved;
    const int end = pipe_to_stdin(&saved);
    struct buffer b = support_read(support_write_gzip("in.gz", "packed\n", 0));
    assert_int_equal(write(end, b.data, b.length), b.length);
    close(end);
    check_lines("-", "packed|6\n");
    buffer_free(&b);
    dup2(saved, STDIN_FILENO);
    close(saved);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_plain_and_gzip_files_are_the_same),
        cmocka_unit_test(a_nul_stays_in_its_line),
        cmocka_unit_test(members_of_a_gzip_file_follow_each_other),
        cmocka_unit_test(zeros_behind_the_last_member_are_ignored),
        cmocka_unit_test(every_cut_of_a_gzip_file_is_an_error),
        cmocka_unit_test(no_damage_of_a_gzip_file_goes_unseen),
        cmocka_unit_test(reads_of_any_size_give_the_file),
        cmocka_unit_test(lines_cross_the_borders_of_chunks),
        cmocka_unit_test(stdin_is_read_as_lines_come),
        cmocka_unit_test(gzip_on_stdin_is_unpacked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
