/* test_json_file - strict reading with places in errors; typed members. */
#include "base/json_file.h"

#include <math.h>
#include <string.h>

#include "tests/support.h"

static json_t *parse(const char *text) {
    json_t *value;
    struct error err;
    SUPPORT_OK(json_file_parse(&value, "p", text, strlen(text), &err), err);
    return value;
}

static void bad_documents_name_line_and_column(void **state) {
    (void)state;
    static const struct {
        const char *text, *sentence;
    } rows[] = {
        {"{\"a\": 1,\n \"a\": 2}", "p:2:4: duplicate object key near '\"a\"'"},
        {"{\"a\": 1}\nx", "p:2:1: end of file expected near 'x'"},
        {"", "p:1:0: '[[]' or '{' expected near end of file"},
        {"[1,\n2", "p:2:1: ']' expected near end of file"},
        {"{\"a\": \"\xff\"}", "p:1:7: unable to decode byte 0xff*"},
        {"{\"a\": NaN}", "p:1:9: invalid token near 'NaN'"},
        {"[1e999]", "p:1:6: real number overflow near '1e999'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *value;
        struct error err;
        assert_int_equal(
            json_file_parse(&value, "p", rows[i].text, strlen(rows[i].text), &err),
            ERR_INPUT);
        assert_null(value);
        support_assert_error(&err, ERR_INPUT, rows[i].sentence);
    }
}

static void depth_is_bounded_outside_strings(void **state) {
    (void)state;
    char text[200] = "";
    json_t *value;
    struct error err;
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    json_decref(parse(text));
    memset(text, '[', 65);
    assert_int_equal(json_file_parse(&value, "p", text, 128, &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "p:1: more than 64 levels of brackets");
    json_decref(
        parse("[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
              "[[[[[[[[[[[[[[[[[[\\\"[\"]"));
}

static void members_come_as_their_type(void **state) {
    (void)state;
    json_t *o = parse(
        "{\"i\": 7, \"w\": 2.0, \"x\": 0.5, \"t\": true, \"one\": 1,"
        " \"s\": \"text\", \"none\": null}");
    int64_t i;
    double x;
    bool b;
    const char *s;
    struct error err;
    SUPPORT_OK(json_file_integer(o, "p", "i", 0, 9, 5, &i, &err), err);
    assert_int_equal(i, 7);
    SUPPORT_OK(json_file_integer(o, "p", "w", 0, 9, 5, &i, &err), err);
    assert_int_equal(i, 2);
    SUPPORT_OK(json_file_integer(o, "p", "none", 0, 9, -5, &i, &err), err);
    assert_int_equal(i, -5);
    SUPPORT_OK(json_file_number(o, "p", "x", 0, 1, 9, &x, &err), err);
    assert_true(x == 0.5);
    SUPPORT_OK(json_file_number(o, "p", "i", 0, 9, 9, &x, &err), err);
    assert_true(x == 7);
    SUPPORT_OK(json_file_number(o, "p", "absent", 0, 1, 9, &x, &err), err);
    assert_true(x == 9);
    SUPPORT_OK(json_file_boolean(o, "p", "t", false, &b, &err), err);
    assert_true(b);
    SUPPORT_OK(json_file_boolean(o, "p", "one", false, &b, &err), err);
    assert_true(b);
    SUPPORT_OK(json_file_boolean(o, "p", "absent", true, &b, &err), err);
    assert_true(b);
    SUPPORT_OK(json_file_string(o, "p", "s", NULL, &s, &err), err);
    assert_string_equal(s, "text");
    SUPPORT_OK(json_file_string(o, "p", "none", "other", &s, &err), err);
    assert_string_equal(s, "other");
    json_decref(o);
}

static void wrong_members_say_what_was_expected_and_found(void **state) {
    (void)state;
    json_t *o = parse(
        "{\"i\": 70, \"h\": 0.5, \"s\": \"a\", \"l\": [1, 2], \"n\": \"a\\u0000b\","
        "\"big\": [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}");
    int64_t i;
    double x;
    bool b;
    const char *s;
    struct error err;
    assert_int_equal(json_file_integer(o, "p", "i", 1, 9, 5, &i, &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "p: i: expected an integer in 1..9, found 70");
    assert_int_equal(json_file_integer(o, "p", "h", 0, 9, 5, &i, &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "p: h: expected an integer in 0..9, found 0.5");
    assert_int_equal(json_file_number(o, "p", "s", 0, 1, 0, &x, &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "p: s: expected a number in 0..1, found \"a\"");
    assert_int_equal(json_file_boolean(o, "p", "i", true, &b, &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "p: i: expected true or false, found 70");
    assert_int_equal(json_file_string(o, "p", "l", "", &s, &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "p: l: expected a string, found [[]1, 2]");
    assert_int_equal(json_file_string(o, "p", "n", "", &s, &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "p: n: expected a string, found *");
    assert_int_equal(json_file_string(o, "p", "big", "", &s, &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "p: big: expected a string, found a long list");
    json_decref(o);
}

/* tokenizer_config.json of many models on the hub. */
static void an_integer_beyond_64_bits_does_not_spoil_the_others(void **state) {
    (void)state;
    json_t *o =
        parse("{\"model_max_length\": 1000000000000000019884624838656, \"n\": 12}");
    int64_t n;
    struct error err;
    SUPPORT_OK(json_file_integer(o, "p", "n", 0, 100, 0, &n, &err), err);
    assert_int_equal(n, 12);
    assert_int_equal(
        json_file_integer(o, "p", "model_max_length", 0, INT64_MAX, 0, &n, &err),
        ERR_INPUT);
    json_decref(o);
}

static void a_written_document_reads_back(void **state) {
    (void)state;
    json_t *o = parse("{\"b\": [1, 0.1], \"a\": {\"\xc4\xa0\": null}}"), *again;
    struct error err;
    const char *path = support_path("out.json");
    SUPPORT_OK(json_file_write(o, path, &err), err);
    struct buffer text = support_read(path);
    assert_int_equal(text.data[text.length - 1], '\n');
    assert_non_null(strstr(text.data, "{\n  \"b\": [\n    1,\n    0.1"));
    assert_true(strstr(text.data, "\"b\"") < strstr(text.data, "\"a\""));
    SUPPORT_OK(json_file_read(&again, path, &err), err);
    assert_true(json_equal(o, again));
    buffer_free(&text);
    json_decref(o);
    json_decref(again);
    assert_int_equal(json_file_read(&again, support_path("absent.json"), &err),
                     ERR_INPUT);
    support_assert_error(&err, ERR_INPUT,
                         "*/absent.json: cannot open: No such file or directory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_documents_name_line_and_column),
        cmocka_unit_test(depth_is_bounded_outside_strings),
        cmocka_unit_test(members_come_as_their_type),
        cmocka_unit_test(wrong_members_say_what_was_expected_and_found),
        cmocka_unit_test(an_integer_beyond_64_bits_does_not_spoil_the_others),
        cmocka_unit_test(a_written_document_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
