/* test_bf16 - rounding to bfloat16 against its definition, one by one and in rows. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "encoder/bf16.h"
#include "tests/support.h"

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void values_survive_the_way_there_and_back(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits <= 0xffff; bits++) {
        const float x = bf16_float((uint16_t)bits);
        if (isnan(x))
            assert_true(isnan(bf16_float(bf16_of(x))));
        else
            assert_int_equal(bf16_of(x), bits);
    }
}

/* The nearer neighbour, and of two equally near the even one. */
static void rounding_is_to_the_nearest_and_ties_to_even(void **state) {
    (void)state;
    for (uint32_t upper = 0x3f00; upper < 0x4100; upper++)
        for (uint32_t lower = 0; lower < 0x10000; lower += 0x7ff) {
            const uint16_t found = bf16_of(float_of(upper << 16 | lower));
            assert_int_equal(found, upper + (lower > 0x8000));
        }
    assert_int_equal(bf16_of(float_of(0x3f808000)), 0x3f80);
    assert_int_equal(bf16_of(float_of(0x3f818000)), 0x3f82);
    assert_int_equal(bf16_of(3.4e38f), 0x7f80); /* beyond the largest: infinite */
    assert_int_equal(bf16_of(-INFINITY), 0xff80);
    assert_true(isnan(bf16_float(bf16_of(float_of(0x7f800001)))));
    assert_true(isnan(bf16_float(bf16_of(float_of(0xffffffff)))));
}

/* Rows of any length; nothing beyond the end is written. */
static void rows_are_rounded_like_single_values(void **state) {
    (void)state;
    enum { MOST = 100 };
    const struct rng r = rng_stream(1, RNG_TEST, 0, 0);
    for (int64_t count = 0; count < MOST; count++) {
        float x[MOST], back[MOST + 1];
        uint16_t y[MOST + 1];
        for (uint32_t i = 0; i < MOST; i++) {
            const struct rng_block b = rng_draw(r, i, (uint32_t)count, 0, 0);
            x[i] = (rng_uniform(b.word[0]) - 0.5f) * exp2f((float)(b.word[1] % 80) - 40);
        }
        x[count / 2] = count % 3 ? x[count / 2] : NAN;
        y[count] = 0xabcd, back[count] = 42;
        bf16_from_floats(y, x, count);
        bf16_to_floats(back, y, count);
        for (int64_t i = 0; i < count; i++)
            if (isnan(x[i]))
                assert_true(isnan(back[i]));
            else
                assert_true(y[i] == bf16_of(x[i]) && back[i] == bf16_float(y[i]));
        assert_true(y[count] == 0xabcd && back[count] == 42);
    }
}

static void rows_are_put_side_by_side(void **state) {
    (void)state;
    enum { MOST = 70 };
    float low[MOST], high[MOST];
    uint16_t low16[MOST], high16[MOST];
    for (int i = 0; i < MOST; i++) {
        low[i] = 0.01f * (float)(i * i) - 3, high[i] = 1 / (float)(i + 1);
        low16[i] = bf16_of(low[i]), high16[i] = bf16_of(high[i]);
    }
    for (int64_t count = 0; count < MOST; count++)
        for (int one = 0; one < 2; one++) {
            uint32_t a[MOST + 1], b[MOST + 1];
            a[count] = b[count] = 7;
            bf16_pair_floats(a, low, one ? NULL : high, count);
            bf16_pair(b, low16, one ? NULL : high16, count);
            for (int64_t i = 0; i < count; i++) {
                assert_int_equal(a[i], low16[i] | (one ? 0 : (uint32_t)high16[i] << 16));
                assert_int_equal(b[i], a[i]);
            }
            assert_true(a[count] == 7 && b[count] == 7);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_survive_the_way_there_and_back),
        cmocka_unit_test(rounding_is_to_the_nearest_and_ties_to_even),
        cmocka_unit_test(rows_are_rounded_like_single_values),
        cmocka_unit_test(rows_are_put_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
