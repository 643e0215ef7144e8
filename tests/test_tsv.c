/* test_tsv - lines and fields of tab-separated files. */
#include <stdlib.h>
#include <string.h>

#include "glue/tsv.h"
#include "tests/support.h"

/* All rows of `bytes`, fields joined by '|', rows ended by ';'; or the error's sentence
 * after the path. */
static const char *rows_of(const char *bytes, size_t length) {
    static char out[2048];
    struct error err;
    struct tsv *t;
    struct tsv_row row;
    enum status status;
    const char *path = support_write_bytes("t.tsv", bytes, length);
    out[0] = '\0';
    assert_int_equal(tsv_open(&t, path, &err), OK);
    while ((status = tsv_next(t, &row, &err)) == OK && row.num_fields > 0) {
        for (int i = 0; i < row.num_fields && i < TSV_MAX_FIELDS; i++) {
            strcat(out, i > 0 ? "|" : "");
            strcat(out, row.fields[i]);
        }
        strcat(out, ";");
    }
    if (status != OK) {
        assert_int_equal(status, ERR_INPUT);
        assert_memory_equal(err.text, path, strlen(path));
        strcpy(out, err.text + strlen(path));
    }
    tsv_close(t);
    return out;
}

static void lines_and_fields_are_found(void **state) {
    (void)state;
    static const struct {
        const char *text, *rows;
    } table[] = {
        {"", ""},
        {"a\tb\nc\td\n", "a|b;c|d;"},
        {"a\tb\nc\td", "a|b;c|d;"},                           /* CoLA: no last newline */
        {"\xef\xbb\xbfQuality\tx\n1\ty\n", "Quality|x;1|y;"}, /* MRPC: byte-order mark */
        {"a\tb\r\nc\td\r\r\n", "a|b;c|d\r;"},            /* one CR before the newline */
        {"a\rb\tc\r", "a\rb|c\r;"},                      /* no newline, nothing dropped */
        {"say \"x\ty\"\"\n\"z\n", "say \"x|y\"\";\"z;"}, /* no quoting */
        {"\t\t\n\n \t \n", "||;; | ;"},                  /* empty fields and lines */
        {"a\xe2\x80\xa8"
         "b\xe2\x80\xa9"
         "c\xc2\x85"
         "d\f\v\ne\n",
         "a\xe2\x80\xa8"
         "b\xe2\x80\xa9"
         "c\xc2\x85"
         "d\f\v;e;"},                               /* only \n ends a line */
        {"x\n\xef\xbb\xbfy\n", "x;\xef\xbb\xbfy;"}, /* a mark elsewhere is text */
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        assert_string_equal(rows_of(table[i].text, strlen(table[i].text)), table[i].rows);
}

static void bad_bytes_are_named(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        const char *sentence;
    } table[] = {
        {"ok\nab\xff\n", 7, ":2: byte 3 of the line: expected UTF-8 text, found 0xff"},
        {"\xc3\n", 2, ":1: byte 1 of the line: expected UTF-8 text, found 0xc3"},
        {"a\xed\xa0\x80\n", 5, ":1: byte 2 of the line: expected UTF-8 text, found 0xed"},
        {"a\tb\0c\n", 6,
         ":1: byte 4 of the line: expected UTF-8 text, found a NUL byte 0x00"},
        {"\xff\xfe"
         "a\0",
         4,
         ":1: byte 1 of the line: expected UTF-8 text, found 0xff (the file looks like "
         "UTF-16)"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        assert_string_equal(rows_of(table[i].bytes, table[i].length), table[i].sentence);
}

static void more_fields_than_kept_are_counted(void **state) {
    (void)state;
    struct error err;
    struct tsv *t;
    struct tsv_row row;
    char line[1001];
    memset(line, '\t', 1000);
    line[1000] = '\0';
    const char *path = support_write("t.tsv", line);
    assert_int_equal(tsv_open(&t, path, &err), OK);
    assert_int_equal(tsv_next(t, &row, &err), OK);
    assert_int_equal(row.num_fields, 1001);
    assert_int_equal(row.line, 1);
    tsv_close(t);
}

static void a_file_that_is_not_there_is_an_input_error(void **state) {
    (void)state;
    struct error err;
    struct tsv *t;
    assert_int_equal(tsv_open(&t, support_path("none.tsv"), &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "none.tsv"));
    assert_null(t);
    assert_int_equal(tsv_open(&t, support_folder(), &err), ERR_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_and_fields_are_found),
        cmocka_unit_test(bad_bytes_are_named),
        cmocka_unit_test(more_fields_than_kept_are_counted),
        cmocka_unit_test(a_file_that_is_not_there_is_an_input_error),
    };
    return cmocka_run_group_tests_name("tsv", tests, NULL, NULL);
}
