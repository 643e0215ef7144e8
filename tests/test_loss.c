/* test_loss - cross-entropy, squared error and softmax against double precision, and at
 * extreme scores. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "encoder/loss.h"
#include "tests/support.h"

enum { ROWS = 71, CLASSES = 333 };
static float logits[ROWS * CLASSES], copy[ROWS * CLASSES];
static int32_t labels[ROWS];

static struct tensor view(float *x) { return tensor_f32(x, ROWS, CLASSES); }

static int fill(void **state) {
    (void)state;
    const struct rng r = rng_stream(1, RNG_TEST, 0, 0);
    for (int i = 0; i < ROWS * CLASSES; i++)
        logits[i] = 20 * rng_uniform(rng_draw(r, (uint32_t)i, 0, 0, 0).word[0]) - 10;
    for (int i = 0; i < ROWS; i++)
        labels[i] = i * 37 % CLASSES;
    memcpy(copy, logits, sizeof copy);
    return 0;
}

/* log of the sum of exponentials of a row. */
static double log_sum(int row) {
    double sum = 0;
    for (int c = 0; c < CLASSES; c++)
        sum += exp((double)copy[row * CLASSES + c]);
    return log(sum);
}

static void cross_entropy_is_the_sum_of_log_probabilities(void **state) {
    (void)state;
    double expected = 0;
    for (int row = 0; row < ROWS; row++)
        expected += log_sum(row) - (double)copy[row * CLASSES + labels[row]];
    const double loss = loss_cross_entropy(view(logits), labels, false, 1);
    assert_true(fabs(loss - expected) < 1e-6 * expected);
    assert_memory_equal(logits, copy, sizeof copy);
    const double again = loss_cross_entropy(view(logits), labels, true, 2);
    assert_true(fabs(again - expected) < 1e-6 * expected);
    for (int i = 0; i < ROWS * CLASSES; i++) {
        const int row = i / CLASSES;
        const double p = exp((double)copy[i] - log_sum(row));
        const double d = p - (i % CLASSES == labels[row]);
        assert_true(fabs((double)logits[i] - d) < 1e-6);
    }
}

static void the_threads_do_not_change_a_bit(void **state) {
    (void)state;
    static float other[ROWS * CLASSES];
    memcpy(other, copy, sizeof other);
    const double one = loss_cross_entropy(view(logits), labels, true, 1);
    const double three = loss_cross_entropy(view(other), labels, true, 3);
    assert_true(one == three);
    assert_memory_equal(logits, other, sizeof other);
}

static void extreme_scores_stay_finite(void **state) {
    (void)state;
    float x[] = {1e4f, -1e4f, 0, -INFINITY, 1e4f, 3e38f};
    const int32_t first[] = {0, 0};
    float y[6];
    memcpy(y, x, sizeof y);
    const double loss = loss_cross_entropy(tensor_f32(x, 2, 3), first, true, 1);
    assert_true(loss == (double)INFINITY); /* the second row's label cannot be */
    assert_true(fabs((double)x[0]) < 1e-6 && x[1] == 0 && x[2] == 0);
    loss_softmax(tensor_f32(y, 2, 3), 1);
    const float expected[] = {1, 0, 0, 0, 0, 1};
    for (int i = 0; i < 6; i++)
        assert_true(y[i] == expected[i]);
}

static void nan_is_not_hidden(void **state) {
    (void)state;
    logits[3] = NAN;
    assert_true(isnan(loss_cross_entropy(view(logits), labels, false, 1)));
}

static void softmax_rows_sum_to_one(void **state) {
    (void)state;
    loss_softmax(view(logits), 2);
    for (int row = 0; row < ROWS; row++) {
        double sum = 0;
        for (int c = 0; c < CLASSES; c++)
            sum += (double)logits[row * CLASSES + c];
        assert_true(fabs(sum - 1) < 1e-5);
    }
}

static void squared_error_and_its_gradient(void **state) {
    (void)state;
    float x[] = {1, 2.5f, -3};
    const float y[] = {0, 2.5f, -1};
    assert_true(loss_squared_error(tensor_f32(x, 3, 1), y, false) == 5);
    assert_true(x[0] == 1);
    assert_true(loss_squared_error(tensor_f32(x, 3, 1), y, true) == 5);
    assert_true(x[0] == 2 && x[1] == 0 && x[2] == -4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(cross_entropy_is_the_sum_of_log_probabilities, fill),
        cmocka_unit_test_setup(the_threads_do_not_change_a_bit, fill),
        cmocka_unit_test(extreme_scores_stay_finite),
        cmocka_unit_test_setup(nan_is_not_hidden, fill),
        cmocka_unit_test_setup(softmax_rows_sum_to_one, fill),
        cmocka_unit_test(squared_error_and_its_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
