/* test_unicode - classes of all scalar values, UTF-8 in and out. */
#include "tokenizer/unicode.h"

#include <string.h>

#include "base/file.h"
#include "tests/tokenizer_data.h"

/* Every scalar value has the class that Hugging Face tokenizers 0.23.2 was seen to give
 * it: 831 ranges, all else is "other". */
static void classes_of_all_scalar_values_follow_the_reference(void **state) {
    (void)state;
    static unsigned char expected[0x110000];
    struct error err;
    struct reader *reader;
    char *line;
    size_t length;
    int ranges = 0;
    SUPPORT_OK(
        reader_open(&reader, TOKENIZER_DATA "unicode_classes_hf-0.23.2_unicode16.tsv.gz",
                    &err),
        err);
    for (;;) {
        unsigned first, last;
        char name;
        SUPPORT_OK(reader_line(reader, &line, &length, &err), err);
        if (!line)
            break;
        if (sscanf(line, "%x %x %c", &first, &last, &name) != 3)
            continue;
        memset(expected + first, (int)(strchr("OLNS", name) - "OLNS"), last - first + 1);
        ranges++;
    }
    reader_close(reader);
    assert_int_equal(ranges, 831);
    for (uint32_t code = 0; code < 0x110000; code++)
        if (unicode_class(code) != (enum unicode_class)expected[code])
            fail_msg("U+%04X: expected %d, found %d", code, expected[code],
                     unicode_class(code));
}

static void word_characters_are_letters_marks_digits_connectors(void **state) {
    (void)state;
    /* letter, digit, underscore, acute accent, join control, roman numeral, circled
     * letter, modern letter of Unicode 16 */
    static const uint32_t yes[] = {'a', '0', '_', 0x301, 0x200D, 0x2160, 0x24B6, 0x1C89};
    static const uint32_t no[] = {' ',    '-',    0xB2,    0x2460,
                                  0x200B, 0x20AC, 0x1F600, 0xFFFD};
    for (size_t i = 0; i < 8; i++) {
        assert_true(unicode_is_word(yes[i]));
        assert_false(unicode_is_word(no[i]));
    }
}

static void every_scalar_value_survives_encoding_and_decoding(void **state) {
    (void)state;
    for (uint32_t code = 0; code < 0x110000; code++) {
        char utf8[4];
        uint32_t back;
        if (code >= 0xD800 && code <= 0xDFFF)
            continue;
        size_t length = unicode_encode(code, utf8);
        assert_int_equal(unicode_decode((unsigned char *)utf8, length, &back), length);
        assert_int_equal(back, code);
    }
}

static void replace_row(void *self, const json_t *row) {
    (void)self;
    const char *hex = json_string_value(json_object_get(row, "hex"));
    unsigned char bytes[256];
    size_t length = strlen(hex) / 2;
    for (size_t i = 0; i < length; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        bytes[i] = (unsigned char)byte;
    }
    struct buffer out = {0};
    struct error err;
    SUPPORT_OK(unicode_add_lossy(&out, bytes, length, &err), err);
    const json_t *text = json_object_get(row, "text");
    assert_int_equal(out.length, json_string_length(text));
    assert_memory_equal(out.data, json_string_value(text), out.length);
    bool valid = unicode_valid_prefix(bytes, length) == length;
    assert_int_equal(valid, strstr(out.data, "\xEF\xBF\xBD") == NULL);
    buffer_free(&out);
}

static void maximal_subparts_become_one_replacement_each(void **state) {
    (void)state;
    assert_int_equal(tokenizer_data_rows("invalid_utf8_replace", replace_row, NULL), 174);
}

static void the_valid_prefix_ends_at_the_first_bad_byte(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t valid;
    } rows[] = {{"", 0},
                {"abcdefghijklmnopq", 17},
                {"abcdefgh\xFFqrstuvwx", 8},
                {"a\xC3\xA9", 3},
                {"a\xC3", 1},
                {"\xED\xA0\x80", 0},
                {"\xF4\x8F\xBF\xBF", 4},
                {"\xF4\x90\x80\x80", 0},
                {"abcdefghijklmno\xE2\x82", 15}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(unicode_valid_prefix((const unsigned char *)rows[i].text,
                                              strlen(rows[i].text)),
                         rows[i].valid);
}

/* The rule as it is written, character by character. */
static size_t valid_prefix_naively(const unsigned char *text, size_t length) {
    size_t at = 0;
    while (at < length) {
        uint32_t code;
        size_t bytes = unicode_decode(text + at, length - at, &code);
        if (code == UNICODE_BAD)
            break;
        at += bytes;
    }
    return at;
}

/* Text long enough for vectors, with a random byte at a random place. */
static void long_text_is_valid_up_to_its_first_bad_byte(void **state) {
    (void)state;
    static const uint32_t limits[] = {0x80, 0x800, 0x10000, 0x110000};
    unsigned seed = 1;
    int bad = 0;
    for (int run = 0; run < 200000; run++) {
        char text[300];
        size_t length = 0;
        unsigned mixture = (run >> 3) % 4 + 1;
        while (length < 64 + (size_t)run % 200) {
            seed = seed * 1103515245u + 12345;
            uint32_t code = (seed >> 8) % limits[(seed >> 28) % mixture];
            bool surrogate = code >= 0xD800 && code < 0xE000;
            length += unicode_encode(surrogate ? 0xE9 : code, text + length);
        }
        seed = seed * 1103515245u + 12345;
        if (run % 4)
            text[(seed >> 8) % length] = (char)(seed >> 24);
        const unsigned char *bytes = (const unsigned char *)text;
        size_t valid = valid_prefix_naively(bytes, length);
        assert_int_equal(unicode_valid_prefix(bytes, length), valid);
        bad += valid < length;
    }
    assert_in_range(bad, 20000, 180000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_of_all_scalar_values_follow_the_reference),
        cmocka_unit_test(word_characters_are_letters_marks_digits_connectors),
        cmocka_unit_test(every_scalar_value_survives_encoding_and_decoding),
        cmocka_unit_test(maximal_subparts_become_one_replacement_each),
        cmocka_unit_test(the_valid_prefix_ends_at_the_first_bad_byte),
        cmocka_unit_test(long_text_is_valid_up_to_its_first_bad_byte),
    };
    return cmocka_run_group_tests_name("unicode", tests, NULL, NULL);
}
