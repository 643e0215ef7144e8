/* test_rng - Philox against the published answers, streams, fills, permutations. */
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support.h"

/* Random123 1.14, kat_vectors, lines "philox4x32 10". */
static void philox_gives_the_published_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], answer[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u},
         {~0u, ~0u},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct rng_block b = rng_philox(rows[i].key, rows[i].counter);
        assert_memory_equal(b.word, rows[i].answer, sizeof b.word);
    }
}

static void a_fill_gives_the_same_bits_as_single_draws(void **state) {
    (void)state;
    static const uint32_t sizes[] = {0, 1, 7, 8, 9, 16, 31, 100};
    const struct rng r = rng_stream(42, RNG_TEST, 3, 7);
    uint32_t out[4 * 100 + 1];
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const uint32_t n = sizes[s], first = s % 2 ? 0xfffffffa : 5; /* wraps around */
        out[4 * n] = 0xabad1dea;
        rng_fill(r, 1, 2, 3, first, n, out);
        for (uint32_t b = 0; b < n; b++) {
            const struct rng_block one = rng_draw(r, 1, 2, 3, first + b);
            assert_memory_equal(out + 4 * b, one.word, sizeof one.word);
        }
        assert_int_equal(out[4 * n], 0xabad1dea);
    }
}

static void every_part_of_the_address_names_another_stream(void **state) {
    (void)state;
    const struct rng streams[] = {
        rng_stream(1, RNG_TEST, 0, 0),
        rng_stream(2, RNG_TEST, 0, 0),
        rng_stream(UINT64_C(1) << 32 | 1, RNG_TEST, 0, 0),
        rng_stream(1, RNG_MASK, 0, 0),
        rng_stream(1, RNG_TEST, 1, 0),
        rng_stream(1, RNG_TEST, 0, 1),
        rng_stream(1, RNG_TEST, 0, UINT64_C(1) << 32),
    };
    const size_t n = sizeof streams / sizeof *streams;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(&streams[i], &streams[j], sizeof streams[i]);
    const struct rng again = rng_stream(1, RNG_TEST, 0, 1);
    assert_memory_equal(&again, &streams[5], sizeof again);
}

static void uniform_and_below_stay_inside(void **state) {
    (void)state;
    assert_true(rng_uniform(0) == 0);
    assert_true(rng_uniform(UINT32_MAX) < 1);
    assert_true(rng_uniform(UINT32_C(1) << 31) == 0.5F);
    assert_int_equal(rng_below(0, 10), 0);
    assert_int_equal(rng_below(UINT32_MAX, 10), 9);
    assert_int_equal(rng_below(UINT32_MAX, UINT32_MAX), UINT32_MAX - 1);
    assert_int_equal(rng_below(123, 1), 0);
}

static void normals_have_the_moments_of_a_normal(void **state) {
    (void)state;
    enum { N = 100000 };
    const struct rng r = rng_stream(7, RNG_TEST, 0, 0);
    double sum = 0, squares = 0, fourths = 0;
    for (uint32_t i = 0; i < N / 2; i++) {
        float out[2];
        const struct rng_block b = rng_draw(r, i, 0, 0, 0);
        rng_normal(b.word[0], b.word[1], out);
        for (int j = 0; j < 2; j++) {
            const double x = (double)out[j];
            sum += x;
            squares += x * x;
            fourths += x * x * x * x;
        }
    }
    assert_true(fabs(sum / N) < 4 / sqrt(N)); /* 4 standard deviations */
    assert_true(fabs(squares / N - 1) < 4 * sqrt(2.0 / N));
    assert_true(fabs(fourths / N - 3) < 4 * sqrt(96.0 / N));
}

static void normals_are_finite_at_the_edges(void **state) {
    (void)state;
    static const uint32_t edges[] = {0, 1, UINT32_MAX - 1, UINT32_MAX};
    float out[2];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            rng_normal(edges[i], edges[j], out);
            assert_true(isfinite(out[0]) && isfinite(out[1]));
        }
}

static void check_permutation(struct rng r, uint64_t n) {
    unsigned char *seen = calloc(n, 1);
    assert_non_null(seen);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t item = rng_permute(r, n, i);
        assert_true(item < n);
        assert_int_equal(seen[item], 0);
        seen[item] = 1;
    }
    free(seen);
}

static void every_permutation_hits_each_item_once(void **state) {
    (void)state;
    for (uint64_t n = 1; n <= 300; n++)
        check_permutation(rng_stream(n, RNG_SHUFFLE, 0, 0), n);
    static const uint64_t sizes[] = {1023, 1024, 1025, 4096, 4097, 65537, 100003};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_permutation(rng_stream(1, RNG_SHUFFLE, 0, i), sizes[i]);
}

static void permutations_of_huge_sets_stay_inside(void **state) {
    (void)state;
    static const uint64_t sizes[] = {UINT64_C(1) << 33, (UINT64_C(1) << 62) + 1,
                                     UINT64_MAX};
    for (size_t i = 0; i < 3; i++)
        for (uint64_t at = 0; at < 1000; at++) {
            const struct rng r = rng_stream(3, RNG_SHUFFLE, 0, 0);
            assert_true(rng_permute(r, sizes[i], sizes[i] - 1 - at) < sizes[i]);
        }
}

/* All 6 orders of 3 items, equally often: chi-square with 5 degrees of freedom below its
 * 99.9 % point. */
static void small_permutations_are_fair(void **state) {
    (void)state;
    enum { N = 12000 };
    int counts[27] = {0};
    for (uint64_t epoch = 0; epoch < N; epoch++) {
        const struct rng r = rng_stream(1, RNG_SHUFFLE, 0, epoch);
        counts[9 * rng_permute(r, 3, 0) + 3 * rng_permute(r, 3, 1) +
               rng_permute(r, 3, 2)]++;
    }
    static const int orders[] = {5, 7, 11, 15, 19, 21}; /* 012 021 102 120 201 210 */
    double chi_square = 0;
    int total = 0;
    for (int i = 0; i < 6; i++) {
        const double off = counts[orders[i]] - N / 6.0;
        chi_square += off * off / (N / 6.0);
        total += counts[orders[i]];
    }
    assert_int_equal(total, N);
    assert_true(chi_square < 20.5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_answers),
        cmocka_unit_test(a_fill_gives_the_same_bits_as_single_draws),
        cmocka_unit_test(every_part_of_the_address_names_another_stream),
        cmocka_unit_test(uniform_and_below_stay_inside),
        cmocka_unit_test(normals_have_the_moments_of_a_normal),
        cmocka_unit_test(normals_are_finite_at_the_edges),
        cmocka_unit_test(every_permutation_hits_each_item_once),
        cmocka_unit_test(permutations_of_huge_sets_stay_inside),
        cmocka_unit_test(small_permutations_are_fair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
