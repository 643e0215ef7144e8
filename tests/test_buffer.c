/* test_buffer - growing, printing, JSON strings. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "tests/support.h"

static void bytes_are_kept_and_a_nul_follows(void **state) {
    (void)state;
    struct buffer b = {0};
    struct error err;
    for (int i = 0; i < 10000; i++) {
        const char byte = (char)i;
        SUPPORT_OK(buffer_add(&b, &byte, 1, &err), err);
        assert_int_equal(b.data[b.length], 0);
    }
    assert_int_equal(b.length, 10000);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(b.data[i], (char)i);
    const size_t capacity = b.capacity;
    buffer_clear(&b);
    assert_int_equal(b.length, 0);
    assert_string_equal(b.data, "");
    assert_int_equal(b.capacity, capacity);
    buffer_free(&b);
    assert_null(b.data);
    buffer_free(&b);
}

static void nothing_may_be_added(void **state) {
    (void)state;
    struct buffer b = {0};
    struct error err;
    SUPPORT_OK(buffer_add(&b, NULL, 0, &err), err);
    assert_string_equal(b.data, "");
    buffer_free(&b);
}

static void printing_appends(void **state) {
    (void)state;
    struct buffer b = {0};
    struct error err;
    for (int i = 0; i < 100; i++)
        SUPPORT_OK(buffer_print(&b, &err, "%d,", i), err);
    assert_int_equal(b.length, 10 * 2 + 90 * 3);
    assert_memory_equal(b.data + b.length - 6, "98,99,", 7);
    buffer_free(&b);
}

static void integers_are_printed_as_printf_prints_them(void **state) {
    (void)state;
    static const long long rows[] = {0, 9, 10, -1, 50264, -1, -10, LLONG_MAX, LLONG_MIN};
    struct buffer ours = {0}, theirs = {0};
    struct error err;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        SUPPORT_OK(buffer_add_integer(&ours, rows[i], &err), err);
        SUPPORT_OK(buffer_print(&theirs, &err, "%lld", rows[i]), err);
    }
    assert_string_equal(ours.data, theirs.data);
    buffer_free(&ours);
    buffer_free(&theirs);
}

static void sizes_that_overflow_are_errors(void **state) {
    (void)state;
    struct buffer b = {0};
    struct error err;
    SUPPORT_OK(buffer_add(&b, "abc", 3, &err), err);
    assert_int_equal(buffer_reserve(&b, SIZE_MAX - 1, &err), ERR_MEMORY);
    support_assert_error(&err, ERR_MEMORY, "out of memory: a text of 3 + * bytes");
    assert_int_equal(buffer_reserve(&b, (size_t)1 << 60, &err), ERR_MEMORY);
    assert_string_equal(b.data, "abc");
    buffer_free(&b);
}

static void json_strings_are_escaped_as_python_writes_them_raw(void **state) {
    (void)state;
    /* json.dumps(text, ensure_ascii=False) of Python 3.11 */
    static const struct {
        const char *text;
        size_t length;
        const char *json;
    } rows[] = {
        {"", 0, "\"\""},
        {"a\"b\\c/", 6, "\"a\\\"b\\\\c/\""},
        {"\b\f\n\r\t", 5, "\"\\b\\f\\n\\r\\t\""},
        {"\0\x01\x1f ", 4, "\"\\u0000\\u0001\\u001f \""},
        {"\x7f\xc4\xa0\xf0\x9f\x98\x80", 7, "\"\x7f\xc4\xa0\xf0\x9f\x98\x80\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buffer b = {0};
        struct error err;
        SUPPORT_OK(buffer_add_json_string(&b, rows[i].text, rows[i].length, &err), err);
        assert_string_equal(b.data, rows[i].json);
        buffer_free(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_kept_and_a_nul_follows),
        cmocka_unit_test(nothing_may_be_added),
        cmocka_unit_test(printing_appends),
        cmocka_unit_test(integers_are_printed_as_printf_prints_them),
        cmocka_unit_test(sizes_that_overflow_are_errors),
        cmocka_unit_test(json_strings_are_escaped_as_python_writes_them_raw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
