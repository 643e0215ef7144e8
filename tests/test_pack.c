/* test_pack - every element of a matrix in blocks is where the layout says, and the
 * edges are zero. */
#include <stdlib.h>
#include <string.h>

#include "encoder/bf16.h"
#include "encoder/pack.h"
#include "tests/support.h"

static float value_at(int64_t i, int64_t j) { return (float)(1 + i * 1000 + j) / 8; }

/* Element (k, n) of B in blocks of 64 columns and 16 words. */
static float packed_at(const void *packed, enum dtype dtype, int64_t rows, int64_t k,
                       int64_t n) {
    const int64_t depth = dtype == DTYPE_F32 ? 16 : 32, pair = depth / 16;
    const int64_t block = n / 64 * ((rows + depth - 1) / depth) + k / depth;
    const int64_t word = block * 1024 + k % depth / pair * 64 + n % 64;
    if (dtype == DTYPE_F32)
        return ((const float *)packed)[word];
    return bf16_float(((const uint16_t *)packed)[2 * word + k % 2]);
}

static float rounded(enum dtype dtype, float x) {
    return dtype == DTYPE_F32 ? x : bf16_float(bf16_of(x));
}

static void check(enum dtype dtype, int64_t k, int64_t n) {
    const size_t bytes = pack_bytes(dtype, k, n);
    unsigned char *packed = aligned_alloc(64, bytes);
    float *w = malloc((size_t)(k * n) * sizeof *w);
    assert_true(packed && w);
    for (int transposed = 0; transposed < 2; transposed++) {
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < n; j++)
                w[transposed ? j * k + i : i * n + j] = value_at(i, j);
        memset(packed, 0xff, bytes);
        if (transposed)
            pack_transposed(packed, dtype, w, k, n, 2);
        else
            pack_plain(packed, dtype, w, k, n, 2);
        const int64_t depth = dtype == DTYPE_F32 ? 16 : 32;
        for (int64_t i = 0; i < (k + depth - 1) / depth * depth; i++)
            for (int64_t j = 0; j < (n + 63) / 64 * 64; j++) {
                const bool is_inside = i < k && j < n;
                const float expected = is_inside ? rounded(dtype, value_at(i, j)) : 0;
                assert_true(packed_at(packed, dtype, k, i, j) == expected);
            }
    }
    free(packed);
    free(w);
}

static void every_element_is_in_its_place(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 15, 31, 33, 64, 65, 100, 192};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    for (int k = 0; k < COUNT; k++)
        for (int n = 0; n < COUNT; n++) {
            check(DTYPE_F32, sizes[k], sizes[n]);
            check(DTYPE_BF16, sizes[k], sizes[n]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_in_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
