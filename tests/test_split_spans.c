/* test_split_spans - the block-wise pre-tokenizer against split_next, on every path that
 * this processor has. */
#include <string.h>

#include "base/rng.h"
#include "tests/support.h"
#include "tokenizer/split.h"

enum { MOST_SPANS = 1 << 12, MOST_TEXT = 1 << 12 };

/* What random texts are made of: each class, contractions and almost contractions. */
static const char *const parts[] = {
    "a",
    "the",
    " ",
    "  ",
    "\n",
    "\t",
    "\r\n",
    "'",
    "'s",
    "'t",
    "'re",
    "'ve",
    "'m",
    "'ll",
    "'d",
    "'l",
    "'r",
    "1",
    "23",
    ".",
    "!!",
    "-",
    "\xc3\xa9",
    "\xc3\x97",
    "\xc3\xb7",
    "\xc4\x97",
    "\xd0\xb7",
    "\xd2\x82",
    "\xd0",
    "\xc2\xa0",
    "Z",
    "'S",
    "_",
    "@x",
    " b",
    "\v",
    "\xff",
    "\0",
    "\x7f",
    "\xe4\xb8\xad",
    "\xe2\x80\x99",
    "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz",
    "................................................................",
    " s",
    "[",
    "`",
    "{",
    "/",
    ":",
    "\x1c",
    "\x85",
    "\xe2\x80\x83",
    "\xf0\x9f\x98\x80"};
enum { PART_COUNT = sizeof parts / sizeof parts[0] };

/* `kinds` of the parts only, so that some texts are all ASCII or all letters. */
static size_t random_text(unsigned char *text, uint32_t number) {
    const struct rng r = rng_stream(11, RNG_TEST, 0, number);
    struct rng_block head = rng_draw(r, 0, 0, 0, 0);
    size_t wanted = head.word[0] % (number % 8 == 0 ? 2000 : 150), length = 0;
    uint32_t kinds = 1 + head.word[1] % PART_COUNT;
    for (uint32_t i = 1; length < wanted; i++) {
        const char *part = parts[rng_draw(r, i, 0, 0, 0).word[0] % kinds];
        size_t n = part[0] ? strlen(part) : 1;
        memcpy(text + length, part, n);
        length += n;
    }
    return length;
}

static size_t expected_spans(const unsigned char *text, size_t length, bool by_line,
                             size_t *ends) {
    size_t count = 0;
    for (size_t line = 0, line_end; line < length; line = line_end) {
        const unsigned char *newline =
            by_line ? memchr(text + line, '\n', length - line) : NULL;
        line_end = newline ? (size_t)(newline - text) + 1 : length;
        for (size_t at = line; at < line_end;)
            ends[count++] = at = split_next(text, at, line_end);
    }
    return count;
}

static void check(enum split_path path, const unsigned char *text, size_t length,
                  bool by_line, size_t max) {
    size_t expected[MOST_SPANS], found[MOST_SPANS], count = 0;
    size_t total = expected_spans(text, length, by_line, expected);
    for (size_t at = 0; at < length; at = found[count - 1]) {
        size_t more = split_spans_by(path, by_line, text, at, length, found + count, max);
        assert_in_range(more, 1, max);
        count += more;
    }
    assert_int_equal(count, total);
    assert_memory_equal(found, expected, total * sizeof found[0]);
}

static void every_path_cuts_as_split_next_does(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 63, 64, 100, MOST_SPANS / 2};
    for (int path = 0; path <= (int)split_best_path(); path++)
        for (uint32_t number = 0; number < 4000; number++) {
            unsigned char text[MOST_TEXT];
            size_t length = random_text(text, number);
            check((enum split_path)path, text, length, number & 1,
                  sizes[number % (sizeof sizes / sizeof sizes[0])]);
        }
}

/* Each string at each place in a block, and at its end. */
static void the_place_in_the_block_does_not_matter(void **state) {
    (void)state;
    static const char *const texts[] = {"it's",  "we'll go", "'sx", "x 'tis",
                                        "a\n b", "a  \nb",   "''s", "a'\nb",
                                        "  ",    "x\t\ty"};
    for (int path = 0; path <= (int)split_best_path(); path++)
        for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++)
            for (size_t before = 0; before < 140; before++) {
                unsigned char text[256];
                size_t n = strlen(texts[t]);
                for (size_t i = 0; i < before; i++)
                    text[i] = "ab c."[i % 5];
                memcpy(text + before, texts[t], n);
                check((enum split_path)path, text, before + n, before & 1, 512);
            }
}

/* All pairs of a byte beyond ASCII and any other, letters of two bytes among them, with
 * one of each class behind. */
static void every_two_bytes_are_cut_as_split_next_does(void **state) {
    (void)state;
    for (int path = 0; path <= (int)split_best_path(); path++)
        for (int first = 0x80; first <= 0xFF; first++)
            for (const char *behind = "a1. "; *behind; behind++) {
                unsigned char text[3 * 256];
                for (int second = 0; second <= 0xFF; second++) {
                    text[3 * second] = (unsigned char)first;
                    text[3 * second + 1] = (unsigned char)second;
                    text[3 * second + 2] = (unsigned char)*behind;
                }
                check((enum split_path)path, text, sizeof text, false, MOST_SPANS / 2);
                check((enum split_path)path, text + 1, sizeof text - 1, true, 64);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_path_cuts_as_split_next_does),
        cmocka_unit_test(the_place_in_the_block_does_not_matter),
        cmocka_unit_test(every_two_bytes_are_cut_as_split_next_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
