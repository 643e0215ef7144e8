/* test_masking - which tokens are hidden, how often, and that it is always the same. */
#include "pretrain/masking.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pretrain/batch.h"
#include "tests/pretrain_data.h"

enum { LENGTH = 512, SEQUENCES = 14500 };

static struct masking open_masking(struct masking_rates rates) {
    struct error err;
    struct masking m;
    struct tokenizer *t = pretrain_data_tokenizer();
    SUPPORT_OK(masking_open(&m, t, rates, &err), err);
    tokenizer_free(t);
    return m;
}

static struct rng stream_of(uint64_t seed, uint64_t epoch) {
    return rng_stream(seed, RNG_MASK, 0, epoch);
}

/* <s>, then tokens of which every 16th is </s> or <pad>. */
static void fill(int32_t *ids, int64_t count, uint32_t salt) {
    for (int64_t i = 0; i < count; i++)
        ids[i] = 5 + (int32_t)(((uint32_t)i * 131 + salt * 17) % 1995);
    for (int64_t i = 0; i < count; i += 16)
        ids[i] = i % 32 ? 1 : 2;
    ids[0] = 0;
}

/* Case D02: shares over more than a million chosen tokens; D01: special tokens are never
 * chosen nor drawn. */
static void shares_are_those_asked_for(void **state) {
    (void)state;
    struct masking m = open_masking(masking_standard);
    int32_t ids[LENGTH], before[LENGTH], positions[LENGTH], labels[LENGTH];
    double ordinary = 0, chosen = 0, masked = 0, kept = 0, other = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        fill(before, LENGTH, s);
        memcpy(ids, before, sizeof ids);
        const int64_t n =
            masking_apply(&m, stream_of(1, 0), s, ids, LENGTH, positions, labels);
        assert_true(n <= masking_limit(&m, LENGTH));
        chosen += (double)n;
        int64_t at = 0;
        for (int i = 0; i < LENGTH; i++) {
            ordinary += before[i] > 4;
            if (at == n || positions[at] != i) {
                assert_int_equal(ids[i], before[i]);
                continue;
            }
            assert_int_equal(labels[at++], before[i]);
            assert_true(before[i] > 4 && ids[i] >= 4);
            masked += ids[i] == 4;
            kept += ids[i] == before[i];
            other += ids[i] != 4 && ids[i] != before[i];
        }
        assert_int_equal(at, n);
    }
    assert_true(chosen > 1e6);
    assert_true(fabs(chosen / ordinary - 0.15) < 1e-5); /* exact but for the rounding */
    assert_true(fabs(masked / chosen - 0.8) < 0.002);
    assert_true(fabs(kept / chosen - 0.1) < 0.002);
    assert_true(fabs(other / chosen - 0.1) < 0.002);
    masking_close(&m);
}

/* Each place and each replacement has the same chance (chi-squared, 5 sigma). */
static void places_and_replacements_are_uniform(void **state) {
    (void)state;
    enum { PLACES = 20, ROUNDS = 200000 };
    struct masking m = open_masking((struct masking_rates){0.15, 0, 1});
    double places[PLACES] = {0}, drawn[2000] = {0}, total = 0, chi = 0;
    for (uint64_t s = 0; s < ROUNDS; s++) {
        int32_t ids[PLACES], positions[PLACES], labels[PLACES];
        for (int i = 0; i < PLACES; i++)
            ids[i] = 7;
        const int64_t n =
            masking_apply(&m, stream_of(2, 5), s, ids, PLACES, positions, labels);
        assert_int_equal(n, 3); /* 0.15 of 20 */
        for (int64_t k = 0; k < n; k++) {
            places[positions[k]]++;
            drawn[ids[positions[k]]]++;
            total++;
        }
    }
    for (int i = 0; i < PLACES; i++)
        assert_true(fabs(places[i] - total / PLACES) < 5 * sqrt(total / PLACES));
    for (int i = 5; i < 2000; i++)
        chi += (drawn[i] - total / 1995) * (drawn[i] - total / 1995) / (total / 1995);
    assert_true(fabs(chi - 1994) < 5 * sqrt(2 * 1994.0));
    masking_close(&m);
}

static void the_number_is_rounded_at_random(void **state) {
    (void)state;
    struct masking m = open_masking(masking_standard);
    double sum = 0;
    for (uint64_t s = 0; s < 100000; s++) {
        int32_t ids[9], positions[9], labels[9];
        for (int i = 0; i < 9; i++)
            ids[i] = 7;
        const int64_t n =
            masking_apply(&m, stream_of(3, 1), s, ids, 9, positions, labels);
        assert_in_range(n, 1, 2); /* 1.35 */
        sum += (double)n;
    }
    assert_true(fabs(sum / 100000 - 1.35) < 0.01);
    masking_close(&m);
}

/* Case D03: a sequence of special tokens or a short one may get no target. */
static void nothing_to_mask_gives_no_target(void **state) {
    (void)state;
    struct masking m = open_masking(masking_standard);
    int32_t ids[] = {0, 2, 2, 1}, positions[4], labels[4];
    const int32_t before[] = {0, 2, 2, 1};
    assert_int_equal(masking_apply(&m, stream_of(1, 0), 3, ids, 4, positions, labels), 0);
    assert_int_equal(masking_apply(&m, stream_of(1, 0), 3, ids, 0, positions, labels), 0);
    assert_memory_equal(ids, before, sizeof ids);
    masking_close(&m);
}

static void all_can_be_masked(void **state) {
    (void)state;
    struct masking m = open_masking((struct masking_rates){1, 1, 0});
    int32_t ids[] = {0, 9, 8, 2}, positions[4], labels[4];
    assert_int_equal(masking_apply(&m, stream_of(1, 0), 3, ids, 4, positions, labels), 2);
    assert_int_equal(ids[1], 4);
    assert_int_equal(ids[2], 4);
    assert_int_equal(labels[0], 9);
    assert_int_equal(labels[1], 8);
    masking_close(&m);
}

/* Case D08: the same sequence in batches of another size, at another place and in another
 * order has the same mask; another epoch, seed or sequence another one. */
static void masks_are_a_function_of_seed_epoch_and_sequence(void **state) {
    (void)state;
    struct error err;
    struct tokenizer *t = pretrain_data_tokenizer();
    struct masking m = open_masking(masking_standard);
    struct corpus c;
    struct packing p;
    char *text = pretrain_data_text(200, 1);
    pretrain_data_corpus(&c, "masks", text, t);
    SUPPORT_OK(packing_open(&p, &c, "train", PACKING_FULL_SENTENCES, 64, &err), err);
    const struct limits limits = batch_limits(4, 64, &m);
    struct mlm_batch b;
    struct arena arena = {0};
    batch_layout(&b, &arena, limits);
    SUPPORT_OK(arena_open(&arena, arena.used, &err), err);
    batch_layout(&b, &arena, limits);

    int32_t alone[64];
    batch_clear(&b);
    SUPPORT_OK(batch_add(&b, &p, &m, stream_of(1, 0), 7, 0, &err), err);
    const int64_t count = b.batch.num_tokens, targets = b.batch.num_output_rows;
    memcpy(alone, b.input_ids, (size_t)count * sizeof *alone);
    batch_clear(&b);
    SUPPORT_OK(batch_add(&b, &p, &m, stream_of(1, 0), 2, 5, &err), err);
    const int64_t first = b.batch.num_tokens, before = b.batch.num_output_rows;
    SUPPORT_OK(batch_add(&b, &p, &m, stream_of(1, 0), 7, 6, &err), err);
    assert_memory_equal(b.input_ids + first, alone, (size_t)count * sizeof *alone);
    assert_int_equal(b.batch.num_output_rows - before, targets);
    assert_int_equal(b.batch.starts[1], first);
    assert_int_equal(b.batch.starts[2], first + count);
    assert_int_equal(b.sequence_numbers[1], 6);
    for (int64_t i = before; i < b.batch.num_output_rows; i++)
        assert_in_range(b.output_rows[i], first, first + count - 1);

    const struct rng others[] = {stream_of(1, 1), stream_of(2, 0)};
    for (int i = 0; i < 2; i++) {
        batch_clear(&b);
        SUPPORT_OK(batch_add(&b, &p, &m, others[i], 7, 0, &err), err);
        assert_memory_not_equal(b.input_ids, alone, (size_t)count * sizeof *alone);
    }
    arena_close(&arena);
    packing_close(&p);
    corpus_close(&c);
    masking_close(&m);
    tokenizer_free(t);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_those_asked_for),
        cmocka_unit_test(places_and_replacements_are_uniform),
        cmocka_unit_test(the_number_is_rounded_at_random),
        cmocka_unit_test(nothing_to_mask_gives_no_target),
        cmocka_unit_test(all_can_be_masked),
        cmocka_unit_test(masks_are_a_function_of_seed_epoch_and_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
