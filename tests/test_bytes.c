/* test_bytes - the byte alphabet. */
#include "tokenizer/bytes.h"

#include <string.h>

#include "tests/support.h"

static void known_bytes_have_their_characters(void **state) {
    (void)state;
    static const struct {
        unsigned char byte;
        uint32_t character;
    } rows[] = {{0x00, 0x100}, {0x09, 0x109}, {0x0A, 0x10A}, {0x0D, 0x10D}, {0x20, 0x120},
                {0x21, 0x21},  {0x7E, 0x7E},  {0x7F, 0x121}, {0xA0, 0x142}, {0xA1, 0xA1},
                {0xAC, 0xAC},  {0xAD, 0x143}, {0xAE, 0xAE},  {0xFF, 0xFF}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(bytes_to_character(rows[i].byte), rows[i].character);
}

static void all_bytes_survive_the_alphabet(void **state) {
    (void)state;
    unsigned char bytes[256], back[512];
    char text[512];
    for (int i = 0; i < 256; i++)
        bytes[i] = (unsigned char)i;
    size_t length = bytes_to_text(text, bytes, 256);
    assert_int_equal(length, 94 + 2 * 162);
    assert_int_equal(bytes_from_text(back, text, length), 256);
    assert_memory_equal(bytes, back, 256);
}

static void characters_outside_the_alphabet_are_refused(void **state) {
    (void)state;
    static const char *const texts[] = {
        "a b", "\n", "\xC4\x80\xC2\xAD", "\xE4\xB8\xAD", "\xC5\x84", "\x7F", "\xFF"};
    unsigned char out[8];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(bytes_from_text(out, texts[i], strlen(texts[i])), SIZE_MAX);
}

static void the_order_is_that_of_the_characters(void **state) {
    (void)state;
    for (int rank = 1; rank < 256; rank++)
        assert_true(bytes_to_character(bytes_in_order(rank)) >
                    bytes_to_character(bytes_in_order(rank - 1)));
    assert_int_equal(bytes_in_order(220), ' '); /* GPT-2's id of a space */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_bytes_have_their_characters),
        cmocka_unit_test(all_bytes_survive_the_alphabet),
        cmocka_unit_test(characters_outside_the_alphabet_are_refused),
        cmocka_unit_test(the_order_is_that_of_the_characters),
    };
    return cmocka_run_group_tests_name("bytes", tests, NULL, NULL);
}
