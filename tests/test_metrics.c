/* test_metrics - metrics against scikit-learn and SciPy, and the edge cases. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "glue/metrics.h"
#include "tests/support.h"

enum { MAX_VALUES = 64 };

static double spearman(const double *x, const double *y, size_t count) {
    struct error err;
    double value;
    assert_int_equal(metrics_spearman(x, y, count, &value, &err), OK);
    return value;
}

static double compute(const char *name, int classes, const double *x, const double *y,
                      size_t count) {
    if (strcmp(name, "accuracy") == 0)
        return metrics_accuracy(x, y, count);
    if (strcmp(name, "f1") == 0)
        return metrics_f1(x, y, count);
    if (strcmp(name, "matthews_correlation") == 0)
        return metrics_matthews(x, y, count, classes);
    if (strcmp(name, "pearson") == 0)
        return metrics_pearson(x, y, count);
    assert_string_equal(name, "spearmanr");
    return spearman(x, y, count);
}

static size_t parse_numbers(char *text, double out[MAX_VALUES]) {
    size_t count = 0;
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        assert_true(count < MAX_VALUES);
        out[count++] = strtod(word, NULL);
    }
    return count;
}

static void check_line(char *line) {
    double x[MAX_VALUES], y[MAX_VALUES];
    char *fields[5];
    for (int i = 0; i < 5; i++)
        fields[i] = strsep(&line, "\t");
    const double expected = strtod(fields[2], NULL);
    const size_t count = parse_numbers(fields[3], x);
    assert_int_equal(parse_numbers(fields[4], y), count);
    const double found = compute(fields[0], atoi(fields[1]), x, y, count);
    if (isnan(expected))
        assert_true(isnan(found));
    else
        assert_true(fabs(found - expected) <= 1e-12);
}

static void equal_scikit_learn_and_scipy(void **state) {
    (void)state;
    struct error err;
    struct reader *reader;
    char *line;
    size_t length;
    int rows = 0;
    assert_int_equal(reader_open(&reader, "tests/data/glue/metrics.tsv", &err), OK);
    while (reader_line(reader, &line, &length, &err) == OK && line) {
        check_line(line);
        rows++;
    }
    reader_close(reader);
    assert_true(rows >= 30);
}

static void matthews_of_one_class_is_zero(void **state) {
    (void)state;
    const double gold[] = {1, 0, 1, 1, 0}, zeros[5] = {0};
    assert_true(metrics_matthews(zeros, gold, 5, 2) == 0);
    assert_true(metrics_matthews(gold, zeros, 5, 2) == 0);
    assert_true(metrics_matthews(gold, gold, 5, 2) == 1);
}

static void spearman_ranks_ties_by_their_mean(void **state) {
    (void)state;
    static const struct {
        double x[5], y[5], expected;
        size_t count;
    } rows[] = {{{1, 1, 2, 3}, {1, 2, 2, 3}, 0.833333, 4},
                {{1, 1, 1, 2}, {1, 2, 3, 4}, 0.774597, 4},
                {{1, 1, 1, 1, 2}, {5, 4, 3, 2, 1}, -0.707107, 5}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_true(fabs(spearman(rows[i].x, rows[i].y, rows[i].count) -
                         rows[i].expected) < 1e-6);
}

static void correlations_of_a_constant_are_undefined(void **state) {
    (void)state;
    const double constant[] = {1, 1, 1}, y[] = {2, 3, 5}, broken[] = {1, (double)NAN, 2};
    assert_true(isnan(metrics_pearson(constant, y, 2)));
    assert_true(isnan(metrics_pearson(y, constant, 3)));
    assert_true(isnan(spearman(constant, y, 3)));
    assert_true(isnan(metrics_pearson(broken, y, 3)));
    assert_true(isnan(spearman(broken, y, 3)));
    assert_true(isnan(metrics_pearson(y, y, 1)));
    assert_true(isnan(metrics_accuracy(y, y, 0)));
}

static void pearson_keeps_tiny_and_huge_values(void **state) {
    (void)state;
    const double tiny[] = {1e-170, 2e-170, 3e-170}, huge[] = {1e200, 2e200, 3e200};
    const double same[] = {1, 2, 3}, swapped[] = {1, 3, 2};
    assert_true(fabs(metrics_pearson(tiny, same, 3) - 1) < 1e-15);
    assert_true(fabs(metrics_pearson(tiny, swapped, 3) - 0.5) < 1e-15);
    assert_true(fabs(metrics_pearson(huge, swapped, 3) - 0.5) < 1e-15);
}

static void f1_is_of_class_one_and_zero_without_it(void **state) {
    (void)state;
    const double gold[] = {0, 0, 1, 1}, none[4] = {0}, some[] = {0, 0, 0, 1};
    assert_true(metrics_f1(none, gold, 4) == 0);
    assert_true(metrics_f1(none, none, 4) == 0);
    assert_true(fabs(metrics_f1(some, gold, 4) - 2.0 / 3) < 1e-15);
}

static void a_prediction_that_is_no_class_is_wrong(void **state) {
    (void)state;
    const double gold[] = {0, 1, 1}, odd[] = {-1, 7, (double)NAN};
    assert_true(metrics_accuracy(odd, gold, 3) == 0);
    assert_true(metrics_f1(odd, gold, 3) == 0);
    assert_true(isfinite(metrics_matthews(odd, gold, 3, 2)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_scikit_learn_and_scipy),
        cmocka_unit_test(matthews_of_one_class_is_zero),
        cmocka_unit_test(spearman_ranks_ties_by_their_mean),
        cmocka_unit_test(correlations_of_a_constant_are_undefined),
        cmocka_unit_test(pearson_keeps_tiny_and_huge_values),
        cmocka_unit_test(f1_is_of_class_one_and_zero_without_it),
        cmocka_unit_test(a_prediction_that_is_no_class_is_wrong),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
