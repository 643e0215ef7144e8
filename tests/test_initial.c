/* test_initial - the weights that each arrangement starts from, measured on the drawn
 * matrices of a whole encoder, and the numbers of depth rules in its config.json. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json_file.h"
#include "encoder/encoder.h"
#include "tests/support.h"

static struct error err;

enum { LAYERS = 3, WIDTH = 64, INNER = 192 };

/* What the papers say, for LAYERS layers: gain of value, output and feed-forward
 * matrices, and of query and key; Xavier-normal or N(0, 0.02). Presets that are not here:
 * 1, 1, normal. */
static const struct rule {
    const char *arch;
    double gain, query_gain, alpha;
    bool is_xavier;
} rules[] = {
    {"deepnorm", 0.45180100180492244, 1, 1.5650845800732873, true}, /* 24^-1/4, 6^1/4 */
    {"magneto", 1.3385661990458504, 1, 1, true},                    /* sqrt(ln 6) */
    {"b2t", 0.5773502691896257, 0.5773502691896257, 1, false},      /* 3^-1/2 */
};

static struct rule rule_of(const char *arch) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!strcmp(rules[i].arch, arch))
            return rules[i];
    return (struct rule){arch, 1, 1, 1, false};
}

static double deviation_of(const struct parameter *row) {
    double mean = 0, square = 0;
    for (size_t i = 0; i < row->count; i++)
        mean += (double)row->value[i] / (double)row->count;
    for (size_t i = 0; i < row->count; i++)
        square += pow((double)row->value[i] - mean, 2) / (double)row->count;
    assert_true(fabs(mean) < 0.1 * sqrt(square));
    return sqrt(square);
}

/* 12288 entries or 4096: the deviation is known to 1 or 2 %. */
static void check_matrix(const struct rule *rule, const struct parameter *row) {
    const bool is_query =
        strstr(row->name, "self.query") || strstr(row->name, "self.key");
    const double gain = is_query ? rule->query_gain : rule->gain;
    const double sum = (double)(row->shape[0] + row->shape[1]);
    const double expected = gain * (rule->is_xavier ? sqrt(2 / sum) : 0.02);
    if (fabs(deviation_of(row) / expected - 1) > 0.05)
        fail_msg("%s: %s has deviation %g, expected %g", rule->arch, row->name,
                 deviation_of(row), expected);
}

static void check_row(const struct rule *rule, const struct parameter *row) {
    if (row->init == PARAMETER_EMBEDDING)
        assert_true(fabs(deviation_of(row) / 0.02 - 1) < 0.15);
    else if (row->init == PARAMETER_LINEAR && row->stream <= row->shape[1])
        check_matrix(rule, row);
    for (size_t i = 0; i < row->count && row->init == PARAMETER_ZERO; i++)
        assert_true(row->value[i] == 0);
    for (size_t i = 0; i < row->count && row->init == PARAMETER_ONE; i++)
        assert_true(row->value[i] == 1);
}

static void make_config(struct config *c, const char *arch) {
    config_default(c);
    c->num_hidden_layers = LAYERS;
    c->hidden_size = WIDTH;
    c->num_attention_heads = 4;
    c->intermediate_size = INNER;
    c->vocab_size = 50;
    c->hidden_dropout_prob = 0;
    SUPPORT_OK(config_set_arch(c, arch, &err), err);
    SUPPORT_OK(config_check(c, &err), err);
}

static void every_arrangement_draws_by_its_rule(void **state) {
    (void)state;
    int matrices = 0;
    for (const struct preset *p = config_presets; p->name; p++) {
        const struct rule rule = rule_of(p->name);
        struct device *device;
        struct encoder *encoder;
        struct parameters parameters = {0};
        struct config c;
        make_config(&c, p->name);
        SUPPORT_OK(device_open(&device, 1, NULL, &err), err);
        SUPPORT_OK(encoder_declare(&encoder, &c, device, &parameters, &err), err);
        SUPPORT_OK(parameters_allocate(&parameters, false, &err), err);
        parameters_initialise(&parameters, &c, 1);
        for (int i = 0; i < parameters.count; i++) {
            check_row(&rule, parameters.rows[i]);
            matrices += parameters.rows[i]->init == PARAMETER_LINEAR;
        }
        encoder_free(encoder);
        parameters_free(&parameters);
        device_close(device);
    }
    assert_true(matrices >= 11 * 6 * LAYERS);
}

/* Depth rules are numbers in the checkpoint, and stay when it has fewer layers. */
static void depth_rules_are_stored_as_numbers(void **state) {
    (void)state;
    for (const struct preset *p = config_presets; p->name; p++) {
        const struct rule rule = rule_of(p->name);
        struct config c, cut;
        json_t *file;
        make_config(&c, p->name);
        SUPPORT_OK(config_write(&c, support_folder(), "MaskedLM", &err), err);
        SUPPORT_OK(json_file_read(&file, support_path("config.json"), &err), err);
        const json_t *gain = json_object_get(file, "init_gain");
        const json_t *alpha = json_object_get(file, "resid_alpha");
        assert_true(fabs(json_number_value(gain) - rule.gain) < 1e-12);
        assert_true(fabs(json_number_value(alpha) - rule.alpha) < 1e-12);
        json_object_set_new(file, "num_hidden_layers", json_integer(1));
        SUPPORT_OK(json_file_write(file, support_path("config.json"), &err), err);
        json_decref(file);
        SUPPORT_OK(config_read(&cut, support_folder(), &err), err);
        assert_true(cut.arrangement.init_gain == c.arrangement.init_gain);
        assert_true(cut.arrangement.resid_alpha == c.arrangement.resid_alpha);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_arrangement_draws_by_its_rule),
        cmocka_unit_test(depth_rules_are_stored_as_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
