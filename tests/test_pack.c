/* test_pack - every element of a matrix in blocks is where the layout says, and the
 * edges are zero. */
#include <stdlib.h>
#include <string.h>

#include "encoder/bf16.h"
#include "encoder/pack.h"
#include "encoder/rows.h"
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
            pack_transposed(packed, dtype, tensor_f32(w, n, k), 2);
        else
            pack_plain(packed, dtype, tensor_f32(w, k, n), 2);
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

/* A matrix of activations as operands: in blocks, and its columns as rows. */
static void check_activations(enum dtype dtype, int64_t k, int64_t n) {
    const int64_t first = n / 3, count = n - first, ld = pack_even(k);
    const size_t bytes = pack_bytes(dtype, k, n);
    unsigned char *packed = aligned_alloc(64, bytes);
    float *plain = malloc((size_t)(k * n) * 4),
          *turned = malloc((size_t)(count * ld) * 4);
    void *data = malloc((size_t)(k * n) * 4);
    assert_true(packed && plain && turned && data);
    for (int64_t i = 0; i < k * n; i++)
        plain[i] = value_at(i / n, i % n);
    const struct tensor x = {data, dtype, k, n};
    rows_copy(x, tensor_f32(plain, k, n), k);
    pack_plain(packed, dtype, x, 2);
    pack_columns(turned, x, first, count, 2);
    const struct tensor rows = {turned, dtype, count, ld};
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < n; j++)
            assert_true(packed_at(packed, dtype, k, i, j) ==
                        rounded(dtype, value_at(i, j)));
    for (int64_t j = 0; j < count; j++) {
        float *room = malloc((size_t)ld * 4);
        const float *row = rows_read(rows, j, room);
        for (int64_t i = 0; i < ld; i++)
            assert_true(row[i] == (i < k ? rounded(dtype, value_at(i, first + j)) : 0));
        free(room);
    }
    free(packed), free(plain), free(turned), free(data);
}

static void activations_are_operands_of_either_side(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 15, 33, 64, 65, 96, 130};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    for (int k = 0; k < COUNT; k++)
        for (int n = 0; n < COUNT; n++) {
            check_activations(DTYPE_F32, sizes[k], sizes[n]);
            check_activations(DTYPE_BF16, sizes[k], sizes[n]);
        }
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
        cmocka_unit_test(activations_are_operands_of_either_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
