/* test_small_product - products and transposes of odd sizes against plain loops. */
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "encoder/bf16.h"
#include "encoder/small_product.h"
#include "tests/processor.h"
#include "tests/support.h"

enum { MOST = 100 };
static float a[MOST * MOST], b[MOST * MOST], c[MOST * MOST], before[MOST * MOST];

static void fill(float *x, uint32_t site) {
    const struct rng r = rng_stream(1, RNG_TEST, site, 0);
    for (uint32_t i = 0; i < MOST * MOST; i++)
        x[i] = rng_uniform(rng_draw(r, i, 0, 0, 0).word[0]) - 0.5f;
}

static void check(int64_t m, int64_t n, int64_t k, struct operand x, int add) {
    fill(c, 2), fill(before, 2);
    const float *left = x.data;
    small_product(DTYPE_F32, m, n, k, x, b, MOST, c, MOST, add);
    for (int64_t i = 0; i < MOST; i++)
        for (int64_t j = 0; j < MOST; j++) {
            const int64_t at = i * MOST + j;
            double sum = add ? (double)before[at] : 0;
            for (int64_t t = 0; t < k; t++)
                sum += (double)left[i * x.row + t * x.column] * (double)b[t * MOST + j];
            if (i < m && j < n)
                assert_true(fabs((double)c[at] - sum) < 2e-6);
            else
                assert_true(c[at] == before[at]); /* nothing beyond is written */
        }
}

static void products_of_every_height_equal_plain_loops(void **state) {
    (void)state;
    fill(a, 0), fill(b, 1);
    for (int64_t m = 1; m <= 19; m++)
        for (int64_t n = 16; n <= 96; n += 16)
            for (int64_t k = 1; k <= 33; k += 8) {
                check(m, n, k, (struct operand){a, MOST, 1}, n % 32 == 0);
                check(m, n, k, (struct operand){a, 1, MOST}, n % 32 != 0);
            }
}

/* A (m, 2 k - odd) of bf16, row-major, B from rows in pairs. */
static void check_pairs(int64_t m, int64_t n, int64_t elements) {
    static uint16_t left[MOST * MOST], right[MOST * MOST];
    static uint32_t pairs[MOST * MOST];
    const int64_t k = small_product_words(DTYPE_BF16, elements);
    bf16_from_floats(left, a, MOST * MOST);
    bf16_from_floats(right, b, MOST * MOST);
    for (int64_t i = 0; i < m; i++)
        if (elements % 2)
            left[i * MOST + elements] = 0;
    small_product_pair(DTYPE_BF16, pairs, MOST, right, MOST, elements, n);
    small_product(DTYPE_BF16, m, n, k, (struct operand){left, MOST / 2, 1}, pairs, MOST,
                  c, MOST, 0);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t t = 0; t < elements; t++)
                sum += (double)bf16_float(left[i * MOST + t]) *
                       (double)bf16_float(right[t * MOST + j]);
            assert_true(fabs((double)c[i * MOST + j] - sum) < 2e-6);
        }
}

static void products_of_bf16_equal_plain_loops(void **state) {
    (void)state;
    processor_need_bf16();
    fill(a, 0), fill(b, 1);
    for (int64_t m = 1; m <= 19; m++)
        for (int64_t n = 16; n <= 96; n += 16)
            for (int64_t k = 1; k <= 60; k += 7)
                check_pairs(m, n, k);
}

static void transposes_pad_with_zeros(void **state) {
    (void)state;
    fill(a, 0);
    for (int64_t rows = 1; rows < 40; rows += 3)
        for (int64_t columns = 1; columns < 40; columns += 5) {
            fill(c, 2);
            const int64_t ld = small_product_round(rows);
            small_product_transpose(c, ld, a, MOST, rows, columns);
            for (int64_t i = 0; i < columns; i++)
                for (int64_t j = 0; j < ld; j++)
                    assert_true(c[i * ld + j] == (j < rows ? a[j * MOST + i] : 0));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_every_height_equal_plain_loops),
        cmocka_unit_test(products_of_bf16_equal_plain_loops),
        cmocka_unit_test(transposes_pad_with_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
