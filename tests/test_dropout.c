/* test_dropout - masks that depend on what a row is, not on where it stands. */
#include <math.h>
#include <string.h>

#include "encoder/dropout.h"
#include "tests/support.h"

enum { COLUMNS = 2500 }; /* more than two pieces, not a multiple of 8 */

static const struct rng stream = {{17, 4}};

static void fill(float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        x[i] = 1;
}

static void each_channel_has_its_own_16_bits_of_a_draw(void **state) {
    (void)state;
    static float x[COLUMNS];
    fill(x, COLUMNS);
    dropout_row(x, COLUMNS, 0.25f, stream, 5, 6, 7);
    for (uint32_t j = 0; j < COLUMNS; j++) {
        const uint32_t word = rng_draw(stream, 5, 6, 7, j / 8).word[j % 8 / 2];
        const uint32_t draw = word >> (16 * (j % 2)) & 0xffff;
        assert_true(x[j] == (draw >= 16384 ? 1 / 0.75f : 0));
    }
}

static void a_row_keeps_its_mask_at_another_place(void **state) {
    (void)state;
    static float big[3 * COLUMNS], small[COLUMNS];
    const uint32_t sequences[] = {4, 9, 9}, tokens[] = {0, 1, 2};
    fill(big, 3 * COLUMNS), fill(small, COLUMNS);
    dropout_apply(tensor_f32(big, 3, COLUMNS), 0.1f, stream,
                  (struct row_names){sequences, tokens}, 2);
    dropout_apply(tensor_f32(small, 1, COLUMNS), 0.1f, stream,
                  (struct row_names){sequences + 2, tokens + 2}, 1);
    assert_memory_equal(small, big + 2 * COLUMNS, sizeof small);
    assert_memory_not_equal(big, big + 2 * COLUMNS, sizeof small);
    assert_memory_not_equal(big + COLUMNS, big + 2 * COLUMNS, sizeof small);
}

static void the_share_and_the_mean_are_right(void **state) {
    (void)state;
    static float x[COLUMNS];
    double sum = 0;
    int dropped = 0;
    const int rows = 200;
    for (uint32_t row = 0; row < (uint32_t)rows; row++) {
        fill(x, COLUMNS);
        dropout_row(x, COLUMNS, 0.1f, stream, row, 0, 0);
        for (int i = 0; i < COLUMNS; i++) {
            dropped += x[i] == 0;
            sum += (double)x[i];
        }
    }
    const double n = (double)rows * COLUMNS; /* deviation of a share: 0.3 / sqrt(n) */
    assert_true(fabs(dropped / n - 0.1) < 5 * 0.3 / sqrt(n));
    assert_true(fabs(sum / n - 1) < 5 * 0.34 / sqrt(n));
}

static void rate_zero_changes_nothing(void **state) {
    (void)state;
    float x[] = {1, NAN, -3}, before[3];
    const uint32_t zero[] = {0};
    memcpy(before, x, sizeof x);
    dropout_apply(tensor_f32(x, 1, 3), 0, stream, (struct row_names){zero, zero}, 1);
    assert_memory_equal(x, before, sizeof x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_channel_has_its_own_16_bits_of_a_draw),
        cmocka_unit_test(a_row_keeps_its_mask_at_another_place),
        cmocka_unit_test(the_share_and_the_mean_are_right),
        cmocka_unit_test(rate_zero_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
