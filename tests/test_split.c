/* test_split - the pre-tokenizer against the reference's ends. */
#include "tokenizer/split.h"

#include <stdlib.h>
#include <string.h>

#include "tests/tokenizer_data.h"

/* The lines of gpt2_lines by their id. */
struct lines {
    char *texts[4096];
    size_t lengths[4096];
};

static void keep_line(void *self, const json_t *row) {
    struct lines *lines = self;
    json_int_t id = json_integer_value(json_object_get(row, "id"));
    const json_t *text = json_object_get(row, "text");
    lines->lengths[id] = json_string_length(text);
    lines->texts[id] = malloc(lines->lengths[id] + 1);
    assert_non_null(lines->texts[id]);
    memcpy(lines->texts[id], json_string_value(text), lines->lengths[id] + 1);
}

static void check_ends(void *self, const json_t *row) {
    const struct lines *lines = self;
    json_int_t id = json_integer_value(json_object_get(row, "id"));
    const json_t *ends = json_object_get(row, "ends");
    const unsigned char *text = (const unsigned char *)lines->texts[id];
    size_t at = 0, count = json_array_size(ends), spans[700];
    for (size_t i = 0; i < count; i++) {
        at = split_next(text, at, lines->lengths[id]);
        if (at != (size_t)json_integer_value(json_array_get(ends, i)))
            fail_msg("line %d: end %zu: found %zu", (int)id, i, at);
    }
    assert_int_equal(at, lines->lengths[id]);
    /* In batches of three and at once it is the same. */
    size_t found = 0;
    for (size_t from = 0, n; from < lines->lengths[id]; found += n) {
        n = split_spans(text, from, lines->lengths[id], spans + found, 3);
        assert_in_range(n, 1, 3);
        from = spans[found + n - 1];
    }
    assert_int_equal(found, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(spans[i], json_integer_value(json_array_get(ends, i)));
    assert_int_equal(split_spans(text, 0, lines->lengths[id], spans, 700), count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(spans[i], json_integer_value(json_array_get(ends, i)));
}

static void ends_follow_the_reference(void **state) {
    (void)state;
    static struct lines lines;
    assert_int_equal(tokenizer_data_rows("gpt2_lines", keep_line, &lines), 3322);
    assert_int_equal(tokenizer_data_rows("pretok_ends", check_ends, &lines), 3298);
    for (size_t i = 0; i < 4096; i++)
        free(lines.texts[i]);
}

static void check_pieces(const char *text, const char *const *pieces) {
    size_t length = strlen(text), at = 0;
    for (; *pieces; pieces++) {
        size_t end = split_next((const unsigned char *)text, at, length);
        if (end - at != strlen(*pieces) || memcmp(text + at, *pieces, end - at))
            fail_msg("'%s': expected '%s' at %zu", text, *pieces, at);
        at = end;
    }
    assert_int_equal(at, length);
}

static void spaces_and_apostrophes_split_as_the_pattern_says(void **state) {
    (void)state;
    static const struct {
        const char *text, *pieces[8];
    } rows[] = {
        {"\n\nx", {"\n", "\n", "x"}},
        {"  \n x", {"  \n", " x"}},
        {"x  ", {"x", "  "}},
        {"a's", {"a", "'s"}},
        {"!'s", {"!'", "s"}},
        {" 's", {" '", "s"}},
        {"'S", {"'", "S"}},
        {"we'll've", {"we", "'ll", "'ve"}},
        {"'l", {"'", "l"}},
        {"a\xC2\xA0\xC2\xA0z", {"a", "\xC2\xA0", "\xC2\xA0", "z"}},
        {"12ab \xE4\xB8\xAD\xE6\x96\x87", {"12", "ab", " \xE4\xB8\xAD\xE6\x96\x87"}},
        {"e\xCC\x81", {"e", "\xCC\x81"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_pieces(rows[i].text, rows[i].pieces);
}

static void bytes_that_are_no_text_are_a_run_of_their_own(void **state) {
    (void)state;
    static const char *const pieces[] = {"ab", "\xFF\xE2\x82", "c", " \x80!", " d", NULL};
    check_pieces(
        "ab\xFF\xE2\x82"
        "c \x80! d",
        pieces);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_follow_the_reference),
        cmocka_unit_test(spaces_and_apostrophes_split_as_the_pattern_says),
        cmocka_unit_test(bytes_that_are_no_text_are_a_run_of_their_own),
    };
    return cmocka_run_group_tests_name("split", tests, NULL, NULL);
}
