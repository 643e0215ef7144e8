/* test_json_scan - values pulled one by one, and where they stop. */
#include "tokenizer/json_scan.h"

#include <stdio.h>
#include <string.h>

#include "tests/support.h"

static struct error err;

static struct json_scan scan(const char *text) {
    return (struct json_scan){.path = "x", .text = text, .length = strlen(text)};
}

static void strings_are_resolved(void **state) {
    (void)state;
    static const struct {
        const char *json, *expected;
    } rows[] = {{" \"plain\"", "plain"},
                {"\"\"", ""},
                {"\"a\\n\\\"\\\\\\/\\u0041\"", "a\n\"\\/A"},
                {"\"\\u0120\\ud83d\\ude00z\"", "\xC4\xA0\xF0\x9F\x98\x80z"},
                {"\"\xC3\xA9\\t\xC3\xA9\"", "\xC3\xA9\t\xC3\xA9"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct json_scan s = scan(rows[i].json);
        struct json_text text;
        SUPPORT_OK(json_scan_string(&s, &text, &err), err);
        assert_int_equal(text.length, strlen(rows[i].expected));
        assert_memory_equal(text.data ? text.data : "", rows[i].expected, text.length);
        SUPPORT_OK(json_scan_end(&s, &err), err);
        json_scan_close(&s);
    }
}

static void broken_strings_are_refused(void **state) {
    (void)state;
    static const char *const texts[] = {"",
                                        "x",
                                        "\"",
                                        "\"a",
                                        "\"\\",
                                        "\"\\u12\"",
                                        "\"\\ud800\"",
                                        "\"\\udc00\"",
                                        "\"\\ud800\\u0041\"",
                                        "\"\n\"",
                                        "\"\x80\"",
                                        "\"\\v\""};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct json_scan s = scan(texts[i]);
        struct json_text text;
        assert_int_equal(json_scan_string(&s, &text, &err), ERR_INPUT);
        json_scan_close(&s);
    }
}

static void whole_numbers_are_read_whole(void **state) {
    (void)state;
    static const struct {
        const char *json;
        int64_t value;
    } good[] = {
        {"0", 0}, {" 12,", 12}, {"-7}", -7}, {"999999999999999999", 999999999999999999}};
    static const char *const bad[] = {"",  "-", "01", "1.5", "1e3", "1000000000000000000",
                                      "+1"};
    int64_t value;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct json_scan s = scan(good[i].json);
        SUPPORT_OK(json_scan_integer(&s, &value, &err), err);
        assert_int_equal(value, good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct json_scan s = scan(bad[i]);
        assert_int_equal(json_scan_integer(&s, &value, &err), ERR_INPUT);
    }
}

static void values_are_passed_over(void **state) {
    (void)state;
    static const char *const values[] = {"null", "-1.5e3", "\"a\\\"]\"",
                                         "[]",   "{}",     "[1, {\"a\": [\"}\"]}, null]"};
    char text[256];
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        snprintf(text, sizeof text, "  %s , 2", values[i]);
        struct json_scan s = scan(text);
        size_t start;
        SUPPORT_OK(json_scan_skip(&s, &start, &err), err);
        assert_int_equal(start, 2);
        assert_int_equal(s.at - start, strlen(values[i]));
    }
    static const char *const bad[] = {"", "[", "{\"a\":[1}", "]", ",", "\"a"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct json_scan s = scan(bad[i]);
        size_t start;
        enum status status = json_scan_skip(&s, &start, &err);
        if (i != 2) /* kinds of brackets are for who reads the value */
            assert_int_equal(status, ERR_INPUT);
    }
    char deep[200];
    memset(deep, '[', sizeof deep);
    struct json_scan s = {.path = "x", .text = deep, .length = sizeof deep};
    size_t start;
    support_assert_error(&err, json_scan_skip(&s, &start, &err),
                         "*nested at most 64 deep*");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_resolved),
        cmocka_unit_test(broken_strings_are_refused),
        cmocka_unit_test(whole_numbers_are_read_whole),
        cmocka_unit_test(values_are_passed_over),
    };
    return cmocka_run_group_tests_name("json_scan", tests, NULL, NULL);
}
