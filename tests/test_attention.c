/* test_attention - long and short sequences against plain loops in double precision, and
 * scores at the ends of the range. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "encoder/attention.h"
#include "encoder/rows.h"
#include "tests/processor.h"
#include "tests/support.h"

enum { HEADS = 2, SIZE = 24, WIDTH = HEADS * SIZE, ROWS = 600 };
static const int32_t starts[] = {0, 1, 34, 546, 546, 600};
static const float *head_scale; /* of the next run */
static float dscale[HEADS];
static float qkv[ROWS * 3 * WIDTH], dqkv[ROWS * 3 * WIDTH], context[ROWS * WIDTH],
    dcontext[ROWS * WIDTH], lse[ROWS * HEADS];
static uint32_t sequence[ROWS], token[ROWS];
static const struct rng stream = {{3, 5}};

static const struct attention_rows rows = {5, starts, starts, {sequence, token}};

static int fill(void **state) {
    (void)state;
    const struct rng r = rng_stream(1, RNG_TEST, 0, 0);
    for (uint32_t i = 0; i < ROWS * 3 * WIDTH; i++) {
        qkv[i] = 4 * rng_uniform(rng_draw(r, i, 0, 0, 0).word[0]) - 2;
        if (i < ROWS * WIDTH)
            dcontext[i] = rng_uniform(rng_draw(r, i, 1, 0, 0).word[0]) - 0.5f;
    }
    for (uint32_t b = 0; b < 5; b++)
        for (int32_t i = starts[b]; i < starts[b + 1]; i++)
            sequence[i] = 40 + b, token[i] = (uint32_t)(i - starts[b]);
    return 0;
}

static struct heads heads_of(struct tensor t) {
    return (struct heads){heads_view(t, 0), heads_view(t, WIDTH),
                          heads_view(t, 2 * WIDTH)};
}

/* All operands pass through tensors of `dtype`; results come back as floats. */
static void run_in(enum dtype dtype, float rate, int threads) {
    static float room[5][ROWS * 3 * WIDTH];
    struct error err;
    struct arena measure = {0}, arena;
    struct attention a = {dtype, HEADS, SIZE, threads, NULL, 0};
    const int64_t wide = 3 * WIDTH;
    const struct tensor x = {room[0], dtype, ROWS, wide},
                        dx = {room[1], dtype, ROWS, wide},
                        o = {room[2], dtype, ROWS, WIDTH},
                        d_o = {room[3], dtype, ROWS, WIDTH};
    rows_copy(x, tensor_f32(qkv, ROWS, wide), ROWS);
    rows_copy(d_o, tensor_f32(dcontext, ROWS, WIDTH), ROWS);
    attention_layout(&a, &measure, 512);
    SUPPORT_OK(arena_open(&arena, measure.used, &err), err);
    attention_layout(&a, &arena, 512);
    memset(dscale, 0, sizeof dscale);
    attention_forward(&a, rows, heads_of(x), rate, stream, head_scale, o, lse);
    attention_backward(&a, rows, heads_of(x), rate, stream, head_scale, lse, d_o,
                       heads_of(dx), dscale);
    rows_copy(tensor_f32(context, ROWS, WIDTH), o, ROWS);
    rows_copy(tensor_f32(dqkv, ROWS, wide), dx, ROWS);
    arena_close(&arena);
}

static void run(float rate, int threads) { run_in(DTYPE_F32, rate, threads); }

/* ---- The same in plain loops. ---- */

static double value(int32_t row, int which, int column) {
    return (double)qkv[row * 3 * WIDTH + which * WIDTH + column];
}

static double mask(float rate, int32_t row, int head, int32_t key) {
    const struct rng_block b =
        rng_draw(stream, sequence[row], token[row], (uint32_t)head, (uint32_t)key / 8);
    const uint32_t draw = b.word[key % 8 / 2] >> (16 * (key % 2)) & 0xffff;
    return draw >= dropout_threshold(rate) ? 1 / (1 - (double)rate) : 0;
}

static double expected[ROWS * WIDTH], dexpected[ROWS * 3 * WIDTH];

/* One query: its output, and its part of all gradients. */
static void plain_query(float rate, int32_t row, int head, int32_t first, int32_t last) {
    static double p[512], dp[512];
    const int column = head * SIZE;
    double sum = 0, max = -INFINITY, delta = 0;
    for (int32_t j = first; j < last; j++) {
        p[j - first] = dp[j - first] = 0;
        for (int c = column; c < column + SIZE; c++) {
            p[j - first] += value(row, 0, c) * value(j, 1, c) / sqrt(SIZE);
            dp[j - first] += (double)dcontext[row * WIDTH + c] * value(j, 2, c);
        }
        max = fmax(max, p[j - first]);
    }
    for (int32_t j = first; j < last; j++)
        sum += p[j - first] = exp(p[j - first] - max);
    for (int32_t j = first; j < last; j++) {
        p[j - first] /= sum;
        dp[j - first] *= mask(rate, row, head, j - first);
        delta += p[j - first] * dp[j - first];
    }
    for (int32_t j = first; j < last; j++) {
        const double dropped = p[j - first] * mask(rate, row, head, j - first);
        const double ds = p[j - first] * (dp[j - first] - delta) / sqrt(SIZE);
        for (int c = column; c < column + SIZE; c++) {
            expected[row * WIDTH + c] += dropped * value(j, 2, c);
            dexpected[row * 3 * WIDTH + c] += ds * value(j, 1, c);
            dexpected[(j * 3 + 1) * WIDTH + c] += ds * value(row, 0, c);
            dexpected[(j * 3 + 2) * WIDTH + c] +=
                dropped * (double)dcontext[row * WIDTH + c];
        }
    }
}

static void plain(float rate) {
    memset(expected, 0, sizeof expected), memset(dexpected, 0, sizeof dexpected);
    for (int b = 0; b < 5; b++)
        for (int32_t row = starts[b]; row < starts[b + 1]; row++)
            for (int head = 0; head < HEADS; head++)
                plain_query(rate, row, head, starts[b], starts[b + 1]);
}

static void check_against_plain_loops(float rate) {
    run(rate, 2);
    plain(rate);
    for (int i = 0; i < ROWS * WIDTH; i++)
        assert_true(fabs((double)context[i] - expected[i]) < 5e-6);
    for (int i = 0; i < ROWS * 3 * WIDTH; i++)
        assert_true(fabs((double)dqkv[i] - dexpected[i]) < 2e-5);
}

static void sequences_of_1_to_512_equal_plain_loops(void **state) {
    (void)state;
    check_against_plain_loops(0);
}

static void dropout_of_probabilities_equals_plain_loops(void **state) {
    (void)state;
    check_against_plain_loops(0.2f);
}

/* Relative to the largest entry, as rounding is. */
static void check_bf16(const float *found, const double *wanted, int count) {
    double largest = 0, most = 0;
    for (int i = 0; i < count; i++) {
        largest = fmax(largest, fabs(wanted[i]));
        most = support_worse(most, fabs((double)found[i] - wanted[i]));
    }
    assert_true(most < 0.02 * largest);
}

static void operands_in_bf16_come_close_to_plain_loops(void **state) {
    (void)state;
    processor_need_bf16();
    for (int i = 0; i < 2; i++) {
        const float rate = i ? 0.2f : 0;
        run_in(DTYPE_BF16, rate, 2);
        plain(rate);
        check_bf16(context, expected, ROWS * WIDTH);
        check_bf16(dqkv, dexpected, ROWS * 3 * WIDTH);
    }
}

static void the_threads_do_not_change_a_bit(void **state) {
    (void)state;
    static float first[ROWS * 3 * WIDTH];
    run(0.1f, 1);
    memcpy(first, dqkv, sizeof first);
    run(0.1f, 3);
    assert_memory_equal(first, dqkv, sizeof first);
}

/* A scale is linear in the output: context and gradients of x are those without it, times
 * it, and its own gradient is the sum of dO O. */
static void head_scales_are_part_of_the_output(void **state) {
    (void)state;
    static const float scales[HEADS] = {-0.5f, 3};
    double expected_dscale[HEADS] = {0};
    plain(0.2f);
    for (int i = 0; i < ROWS * WIDTH; i++)
        expected_dscale[i % WIDTH / SIZE] += (double)dcontext[i] * expected[i];
    head_scale = scales;
    run(0.2f, 2);
    head_scale = NULL;
    for (int i = 0; i < ROWS * WIDTH; i++) {
        const double s = (double)scales[i % WIDTH / SIZE];
        assert_true(fabs((double)context[i] - s * expected[i]) < 2e-5);
        for (int part = 0; part < 3; part++) {
            const int at = i / WIDTH * 3 * WIDTH + part * WIDTH + i % WIDTH;
            assert_true(fabs((double)dqkv[at] - s * dexpected[at]) < 6e-5);
        }
    }
    for (int h = 0; h < HEADS; h++)
        assert_true(fabs((double)dscale[h] - expected_dscale[h]) < 1e-3);
}

/* Scores of +-10^6: one key takes all, nothing becomes NaN. */
static void extreme_scores_pick_one_key(void **state) {
    (void)state;
    for (int i = 0; i < ROWS * 3 * WIDTH; i++)
        if (i % (3 * WIDTH) < 2 * WIDTH)
            qkv[i] *= 300;
    run(0, 2);
    plain(0);
    for (int i = 0; i < ROWS * WIDTH; i++)
        assert_true(fabs((double)context[i] - expected[i]) < 0.02);
    for (int i = 0; i < ROWS * 3 * WIDTH; i++)
        assert_true(isfinite(dqkv[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(sequences_of_1_to_512_equal_plain_loops, fill),
        cmocka_unit_test_setup(dropout_of_probabilities_equals_plain_loops, fill),
        cmocka_unit_test_setup(operands_in_bf16_come_close_to_plain_loops, fill),
        cmocka_unit_test_setup(the_threads_do_not_change_a_bit, fill),
        cmocka_unit_test_setup(head_scales_are_part_of_the_output, fill),
        cmocka_unit_test_setup(extreme_scores_pick_one_key, fill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
