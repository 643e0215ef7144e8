/* test_activation - GELU and its slope over the whole range of floats, tanh. */
#include <math.h>

#include "encoder/activation.h"
#include "tests/support.h"

static double cdf(double x) { return 0.5 * erfc(-x / sqrt(2)); }
static double gelu(double x) { return isinf(x) && x < 0 ? 0 : x * cdf(x); }
static double slope(double x) {
    return isinf(x) ? x > 0 : cdf(x) + x * exp(-0.5 * x * x) / sqrt(2 * M_PI);
}

static float forward(float x) {
    activation_gelu_row(&x, &x, 1);
    return x;
}

static float slope_at(float x) {
    float y, dy;
    activation_gelu_slope_row(&y, &dy, &x, 1);
    return dy;
}

static void gelu_follows_the_error_function(void **state) {
    (void)state;
    for (double x = -20; x < 20; x += 0.00317) {
        const double at = (double)(float)x, tolerance = 2.5e-7 * fmax(1, fabs(at));
        assert_true(fabs((double)forward((float)x) - gelu(at)) <= tolerance);
        assert_true(fabs((double)slope_at((float)x) - slope(at)) <= 5e-7);
    }
}

static void gelu_is_right_at_extremes(void **state) {
    (void)state;
    static const float points[] = {0,    1,     -1,    10,     -10,      50,       -50,
                                   1e4f, -1e4f, 1e30f, -1e30f, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        const float x = points[i], y = forward(x), d = slope_at(x);
        assert_true(y == (float)gelu((double)x) ||
                    fabs((double)y - gelu((double)x)) < 2e-7);
        assert_true(isfinite(d) && fabs((double)d - slope((double)x)) < 5e-7);
    }
    assert_true(isnan(forward(NAN)));
    assert_true(isnan(slope_at(NAN)));
}

static void the_slope_comes_with_the_same_value(void **state) {
    (void)state;
    enum { COUNT = 1003 };
    static float x[COUNT], y[COUNT], again[COUNT], slopes[COUNT];
    for (int i = 0; i < COUNT; i++)
        x[i] = 0.02f * (float)(i - COUNT / 2);
    activation_gelu_row(y, x, COUNT);
    activation_gelu_slope_row(again, slopes, x, COUNT);
    assert_memory_equal(again, y, sizeof y);
    for (int i = 0; i < COUNT; i++)
        assert_true(fabs((double)slopes[i] - slope((double)x[i])) <= 5e-7);
}

static void tanh_and_its_slope(void **state) {
    (void)state;
    float x[] = {0, 0.5f, -3, 40, -INFINITY}, y[5], dx[] = {1, 1, 1, 1, 1};
    activation_tanh_forward(tensor_f32(y, 1, 5), tensor_f32(x, 1, 5));
    activation_tanh_backward(tensor_f32(dx, 1, 5), tensor_f32(dx, 1, 5),
                             tensor_f32(y, 1, 5));
    for (int i = 0; i < 5; i++) {
        const double t = tanh((double)x[i]);
        assert_true(fabs((double)y[i] - t) < 1e-7);
        assert_true(fabs((double)dx[i] - (1 - t * t)) < 2e-7);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gelu_follows_the_error_function),
        cmocka_unit_test(gelu_is_right_at_extremes),
        cmocka_unit_test(the_slope_comes_with_the_same_value),
        cmocka_unit_test(tanh_and_its_slope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
