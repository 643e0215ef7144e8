/* test_onednn - products against plain loops, the cache of shapes, and teams smaller than
 * asked for. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "encoder/onednn.h"
#include "encoder/rows.h"
#include "tests/processor.h"
#include "tests/support.h"

struct shape {
    int64_t rows, in, out;
};

static const struct shape shapes[] = {{1, 1, 1},    {3, 5, 7},      {16, 32, 96},
                                      {37, 64, 33}, {128, 48, 200}, {160, 128, 384},
                                      {16, 768, 2}};

static void fill(float *x, int64_t count, uint32_t site) {
    const struct rng r = rng_stream(1, RNG_TEST, site, 0);
    for (int64_t i = 0; i < count; i++)
        x[i] = rng_uniform(rng_draw(r, (uint32_t)i, 0, 0, 0).word[0]) - 0.5f;
}

static struct tensor take(int64_t rows, int64_t columns, uint32_t site) {
    float *data = malloc((size_t)(rows * columns) * sizeof *data);
    assert_non_null(data);
    fill(data, rows * columns, site);
    return tensor_f32(data, rows, columns);
}

/* Largest difference between c and the plain triple loop; a and b are read through their
 * strides; `start` is what c held before. */
static double worst(struct tensor c, const float *a, int64_t a_row, int64_t a_column,
                    const float *b, int64_t b_row, int64_t b_column, int64_t k,
                    const float *bias, const float *start) {
    double most = 0;
    for (int64_t i = 0; i < c.rows; i++)
        for (int64_t j = 0; j < c.columns; j++) {
            double sum = start ? (double)start[i * c.columns + j] : 0;
            sum += bias ? (double)bias[j] : 0;
            for (int64_t t = 0; t < k; t++)
                sum += (double)a[i * a_row + t * a_column] *
                       (double)b[t * b_row + j * b_column];
            most = support_worse(most,
                                 fabs(sum - (double)tensor_floats(c)[i * c.columns + j]));
        }
    return most;
}

static void check_shape(struct device *d, struct shape s) {
    struct tensor x = take(s.rows, s.in, 0), w = take(s.out, s.in, 1);
    struct tensor bias = take(1, s.out, 2), y = take(s.rows, s.out, 3);
    struct tensor dx = take(s.rows, s.in, 4), dw = take(s.out, s.in, 5);
    struct tensor before = take(s.out, s.in, 5);
    const float *xs = x.data, *ws = w.data, *ys = y.data;
    device_product(d, y, x, w, bias.data);
    assert_true(worst(y, xs, s.in, 1, ws, 1, s.in, s.in, bias.data, NULL) < 1e-4);
    device_product(d, y, x, w, NULL);
    assert_true(worst(y, xs, s.in, 1, ws, 1, s.in, s.in, NULL, NULL) < 1e-4);
    device_product_input(d, dx, y, w);
    assert_true(worst(dx, ys, s.out, 1, ws, s.in, 1, s.out, NULL, NULL) < 1e-3);
    device_product_weight(d, dw, y, x, true);
    assert_true(worst(dw, ys, 1, s.out, xs, s.in, 1, s.rows, NULL, before.data) < 1e-3);
    struct tensor all[] = {x, w, bias, y, dx, dw, before};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i].data);
}

/* The same through operands in bf16: exact for small integers. */
static void check_bf16(struct device *d, struct shape s) {
    struct tensor x = take(s.rows, s.in, 0), w = take(s.out, s.in, 1);
    struct tensor y = take(s.rows, s.out, 3), dx = take(s.rows, s.in, 4);
    struct tensor dw = take(s.out, s.in, 5), before = take(s.out, s.in, 5);
    struct tensor bx = take(s.rows, s.in, 0), by = take(s.rows, s.out, 0);
    struct tensor all[] = {x, w, y, dx, dw, before, bx, by};
    for (size_t i = 0; i < 3; i++)
        for (int64_t j = 0; j < all[i].rows * all[i].columns; j++)
            tensor_floats(all[i])[j] = (float)((j * 5 + (int64_t)i) % 7 - 3);
    bx.dtype = by.dtype = DTYPE_BF16;
    const float *xs = x.data, *ws = w.data, *ys = y.data;
    rows_copy(bx, x, s.rows);
    rows_copy(by, y, s.rows);
    device_reserve(d, s.out, s.in);
    if (s.rows % 2) /* operands as they are, or in blocks */
        device_reserve_rows(d, s.rows, s.out, s.in);
    device_product_input(d, dx, by, w);
    assert_true(worst(dx, ys, s.out, 1, ws, s.in, 1, s.out, NULL, NULL) == 0);
    device_product_input_add(d, dx, by, w);
    for (int64_t i = 0; i < s.rows * s.in; i++)
        tensor_floats(dx)[i] /= 2;
    assert_true(worst(dx, ys, s.out, 1, ws, s.in, 1, s.out, NULL, NULL) == 0);
    device_product_weight(d, dw, by, bx, true);
    assert_true(worst(dw, ys, 1, s.out, xs, s.in, 1, s.rows, NULL, before.data) <
                1e-6 * (double)s.rows + 1e-5);
    device_product_weight(d, dw, by, bx, false);
    assert_true(worst(dw, ys, 1, s.out, xs, s.in, 1, s.rows, NULL, NULL) == 0);
    device_product(d, y, bx, w, NULL);
    assert_true(worst(y, xs, s.in, 1, ws, 1, s.in, s.in, NULL, NULL) == 0);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i].data);
}

static void products_of_bf16_equal_plain_loops(void **state) {
    (void)state;
    struct error err;
    processor_need_bf16();
    for (int threads = 1; threads <= 2; threads++) {
        struct device *d;
        assert_int_equal(device_open(&d, threads, NULL, &err), OK);
        assert_int_equal(device_set_dtype(d, DTYPE_BF16, &err), OK);
        assert_non_null(strstr(device_description(d), "bf16, "));
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            check_bf16(d, shapes[i]);
        check_bf16(d, (struct shape){4111, 20, 6});
        assert_int_equal(device_check(d, &err), OK);
        device_close(d);
    }
}

/* In f32 weights are read where they lie, or in blocks once it pays. */
static void many_rows_give_the_same_as_few(void **state) {
    (void)state;
    struct error err;
    struct device *d;
    assert_int_equal(device_open(&d, 2, NULL, &err), OK);
    device_reserve(d, 70, 50);
    check_shape(d, (struct shape){300, 50, 70});
    device_reserve_rows(d, 301, 1100, 2100);
    check_shape(d, (struct shape){301, 2100, 70});
    check_shape(d, (struct shape){40, 2100, 1100});
    check_shape(d, (struct shape){2100, 50, 70});
    device_reserve_rows(d, 4111, 3, 2100); /* summed up in parts */
    check_shape(d, (struct shape){4111, 2100, 3});
    check_shape(d, (struct shape){2049, 2100, 3});
    assert_int_equal(device_check(d, &err), OK);
    device_close(d);
}

static void products_equal_plain_loops(void **state) {
    (void)state;
    struct error err;
    for (int threads = 1; threads <= 2; threads++) {
        struct device *d;
        assert_int_equal(device_open(&d, threads, NULL, &err), OK);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            check_shape(d, shapes[i]);
        assert_int_equal(device_check(d, &err), OK);
        device_close(d);
    }
}

static void more_shapes_than_the_cache_holds_still_work(void **state) {
    (void)state;
    struct error err;
    struct device *d;
    assert_int_equal(device_open(&d, 1, NULL, &err), OK);
    for (int round = 0; round < 2; round++)
        for (int64_t rows = 1; rows <= 700; rows += round ? 97 : 1) {
            const float x = 2, w = 3;
            float y[700];
            const struct tensor column = tensor_f32(y, rows, 1);
            float *xs = malloc((size_t)rows * sizeof *xs);
            assert_non_null(xs);
            for (int64_t i = 0; i < rows; i++)
                xs[i] = x + (float)i;
            device_product(d, column, tensor_f32(xs, rows, 1),
                           tensor_f32((float[]){w}, 1, 1), NULL);
            for (int64_t i = 0; i < rows; i++)
                assert_true(y[i] == w * (x + (float)i));
            free(xs);
        }
    assert_int_equal(device_check(d, &err), OK);
    device_close(d);
}

static void a_description_names_version_and_threads(void **state) {
    (void)state;
    struct error err;
    struct device *d;
    assert_int_equal(device_open(&d, 1, NULL, &err), OK);
    assert_non_null(strstr(device_description(d), "oneDNN "));
    assert_non_null(strstr(device_description(d), "1 thread"));
    assert_int_equal(device_threads(d), 1);
    device_close(d);
}

static void a_product_that_cannot_be_made_is_reported_once(void **state) {
    (void)state;
    struct error err;
    struct device *d;
    assert_int_equal(device_open(&d, 1, NULL, &err), OK);
    float data[4] = {0};
    device_product(d, tensor_f32(data, 1, -1), tensor_f32(data, 1, 1),
                   tensor_f32(data, -1, 1), NULL);
    assert_int_equal(device_check(d, &err), ERR_FAILED);
    assert_non_null(strstr(err.text, "oneDNN"));
    assert_int_equal(device_check(d, &err), OK);
    device_close(d);
}

/* OMP_THREAD_LIMIT is read at start, so this check runs in a child: see main(). */
static int open_with_a_limit_of_two(void) {
    struct error err;
    struct device *d;
    if (device_open(&d, 8, NULL, &err) != OK)
        return 1;
    const int threads = device_threads(d);
    check_shape(d, (struct shape){512, 768, 768});
    device_close(d);
    return threads == 2 ? 0 : 2;
}

static char **arguments;

static void a_short_team_lowers_the_threads_and_products_stay_whole(void **state) {
    (void)state;
    char command[4096];
    snprintf(command, sizeof command,
             "OMP_NUM_THREADS=8 OMP_THREAD_LIMIT=2 OMP_DYNAMIC=true '%s' --short-team",
             arguments[0]);
    assert_int_equal(system(command), 0);
}

int main(int argc, char **argv) {
    arguments = argv;
    if (argc > 1 && strcmp(argv[1], "--short-team") == 0)
        return open_with_a_limit_of_two();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_equal_plain_loops),
        cmocka_unit_test(products_of_bf16_equal_plain_loops),
        cmocka_unit_test(many_rows_give_the_same_as_few),
        cmocka_unit_test(more_shapes_than_the_cache_holds_still_work),
        cmocka_unit_test(a_description_names_version_and_threads),
        cmocka_unit_test(a_product_that_cannot_be_made_is_reported_once),
        cmocka_unit_test(a_short_team_lowers_the_threads_and_products_stay_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
