/* test_input - texts to token sequences, epochs' orders, batches. */
#include <string.h>

#include "finetune/input.h"
#include "tests/support.h"
#include "tests/tiny_model.h"

static struct tokenizer *load(void) {
    struct tokenizer *t;
    struct error err;
    if (tokenizer_load(&t, tiny_tokenizer("tokenizer"), NULL, &err) != OK)
        fail_msg("%s", err.text);
    return t;
}

/* Ids as text: specials as < > (bos, eos), characters as themselves. */
static const char *spell(const struct input *in, int64_t i) {
    static char text[64];
    char *out = text;
    for (int64_t k = in->starts[i]; k < in->starts[i + 1]; k++) {
        int32_t id = in->ids.items[k];
        *out++ = id == TINY_BOS   ? '<'
                 : id == TINY_EOS ? '>'
                                  : (char)(id - TINY_BYTES + '!');
    }
    *out = '\0';
    return text;
}

static struct text_pair pair(const char *a, const char *b) {
    return (struct text_pair){a, b, strlen(a), b ? strlen(b) : 0};
}

static void texts_get_their_template_and_are_cut_longest_first(void **state) {
    (void)state;
    /* Cuts as truncate_encodings of Hugging Face tokenizers computes them. */
    static const struct {
        const char *a, *b;
        int64_t max_seq_length;
        const char *expected;
    } cases[] = {
        {"abc", NULL, 128, "<abc>"},      {"", NULL, 128, "<>"},
        {"abc", "xy", 128, "<abc>>xy>"},  {"", "", 128, "<>>>"},
        {"abcdef", NULL, 5, "<abc>"},     {"abcdef", "xyz", 9, "<abc>>xy>"},
        {"ab", "uvwxyz", 9, "<ab>>uvw>"}, {"abcdef", "x", 8, "<abc>>x>"},
        {"abcd", "wxyz", 8, "<ab>>wx>"},
    };
    struct tokenizer *t = load();
    struct input in = {0};
    struct error err;
    for (int64_t i = 0; i < (int64_t)(sizeof cases / sizeof *cases); i++) {
        assert_int_equal(input_add(&in, t, NULL, pair(cases[i].a, cases[i].b), 0,
                                   cases[i].max_seq_length, &err),
                         OK);
        assert_string_equal(spell(&in, i), cases[i].expected);
    }
    assert_int_equal(in.longest, 9);
    input_free(&in);
    tokenizer_free(t);
}

static void examples_keep_their_order_on_any_number_of_threads(void **state) {
    (void)state;
    struct tokenizer *t = load();
    struct example items[] = {
        {"a", NULL, 0, 1},  {"bb", "x", 1, 2},  {"ccc", NULL, 2, 3}, {"d", "yy", 3, 4},
        {"ee", NULL, 4, 5}, {"fff", "z", 5, 6}, {"g", NULL, 6, 7},
    };
    const struct examples examples = {.items = items, .count = 7, .labelled = true};
    static const char *const expected[] = {"<a>",  "<bb>>x>",  "<ccc>", "<d>>yy>",
                                           "<ee>", "<fff>>z>", "<g>"};
    for (int threads = 1; threads <= 9; threads += 2) {
        struct input in = {0};
        struct error err;
        assert_int_equal(input_read(&in, t, &examples, 128, threads, &err), OK);
        assert_int_equal(in.count, 7);
        for (int i = 0; i < 7; i++) {
            assert_string_equal(spell(&in, i), expected[i]);
            assert_true(in.labels[i] == (float)i);
        }
        input_free(&in);
    }
    tokenizer_free(t);
}

static void bad_bytes_name_the_file_and_line_of_the_first(void **state) {
    (void)state;
    struct tokenizer *t = load();
    struct example items[] = {
        {"good", NULL, 0, 2}, {"b\xff", NULL, 0, 3}, {"b\xfe", NULL, 0, 4}};
    char path[] = "GLUE/dev.tsv";
    const struct examples examples = {.items = items, .count = 3, .path = path};
    for (int threads = 1; threads <= 3; threads++) {
        struct input in = {0};
        struct error err;
        assert_int_equal(input_read(&in, t, &examples, 128, threads, &err), ERR_INPUT);
        assert_non_null(strstr(err.text, "GLUE/dev.tsv:3: "));
        input_free(&in);
    }
    tokenizer_free(t);
}

/* Sequences of 4, 6, 3, 5 and 4 tokens. */
static void fill(struct input *in) {
    static const char *const texts[] = {"ab", "abcd", "a", "abc", "xy"};
    struct tokenizer *t = load();
    struct error err;
    for (int i = 0; i < 5; i++)
        assert_int_equal(
            input_add(in, t, NULL, pair(texts[i], NULL), (float)i, 128, &err), OK);
    input_sort(in);
    tokenizer_free(t);
}

static void sorting_tells_lengths_and_the_most_tokens(void **state) {
    (void)state;
    struct input in = {0};
    fill(&in);
    static const uint64_t order[] = {2, 0, 4, 3, 1};
    for (int i = 0; i < 5; i++)
        assert_int_equal(in.by_length[i] & UINT32_MAX, order[i]);
    static const int64_t tokens[] = {0, 6, 11, 15, 19, 22, 22};
    for (int n = 0; n < 7; n++)
        assert_int_equal(input_most_tokens(&in, n), tokens[n]);
    input_free(&in);
}

static void every_epoch_is_another_permutation(void **state) {
    (void)state;
    struct input in = {0};
    fill(&in);
    int64_t order[8][5];
    int differing = 0;
    for (int64_t epoch = 0; epoch < 8; epoch++) {
        unsigned seen = 0;
        for (int64_t i = 0; i < 5; i++) {
            order[epoch][i] = input_shuffled(&in, 42, epoch, i);
            seen |= 1U << order[epoch][i];
        }
        assert_int_equal(seen, 31);
        differing += memcmp(order[epoch], order[0], sizeof order[0]) != 0;
        for (int64_t i = 0; i < 5; i++)
            assert_int_equal(input_shuffled(&in, 42, epoch, i), order[epoch][i]);
    }
    assert_true(differing >= 6);
    input_free(&in);
}

static void a_batch_is_rows_in_a_row_until_it_is_full(void **state) {
    (void)state;
    struct input in = {0};
    struct input_batch b;
    struct arena arena = {0};
    struct error err;
    const struct limits limits = {.tokens = 14, .sequences = 3};
    fill(&in);
    input_batch_layout(&b, &arena, limits);
    size_t bytes = arena.used;
    assert_int_equal(arena_open(&arena, bytes, &err), OK);
    input_batch_layout(&b, &arena, limits);
    for (int round = 0; round < 2; round++) {
        input_batch_clear(&b);
        assert_true(input_batch_add(&b, &in, 3, 17));  /* 5 tokens */
        assert_true(input_batch_add(&b, &in, 1, 18));  /* 6 */
        assert_false(input_batch_add(&b, &in, 0, 19)); /* 4 are too many */
        assert_true(input_batch_add(&b, &in, 2, 19));  /* 3 */
        assert_false(input_batch_add(&b, &in, 2, 20)); /* a fourth sequence */
    }
    static const int32_t starts[] = {0, 5, 11, 14};
    assert_int_equal(b.batch.num_sequences, 3);
    assert_int_equal(b.batch.num_output_rows, 3);
    assert_int_equal(b.batch.num_tokens, 14);
    assert_memory_equal(b.batch.starts, starts, sizeof starts);
    assert_memory_equal(b.batch.output_rows, starts, 3 * sizeof *starts);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(b.batch.sequence_numbers[i], 17 + i);
        assert_int_equal(b.batch.input_ids[starts[i]], TINY_BOS);
        assert_int_equal(b.batch.input_ids[starts[i + 1] - 1], TINY_EOS);
    }
    assert_true(b.labels[0] == 3 && b.labels[1] == 1 && b.labels[2] == 2);
    input_free(&in);
    arena_close(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_get_their_template_and_are_cut_longest_first),
        cmocka_unit_test(examples_keep_their_order_on_any_number_of_threads),
        cmocka_unit_test(bad_bytes_name_the_file_and_line_of_the_first),
        cmocka_unit_test(sorting_tells_lengths_and_the_most_tokens),
        cmocka_unit_test(every_epoch_is_another_permutation),
        cmocka_unit_test(a_batch_is_rows_in_a_row_until_it_is_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
