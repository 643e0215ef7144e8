/* test_config - config.json, switches and named arrangements. */
#include "encoder/config.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "encoder/norm.h"
#include "tests/support.h"

static struct error err;

static const char *folder_with(const char *text) {
    support_write("config.json", text);
    return support_folder();
}

static void every_preset_is_valid_and_reads_back_exactly(void **state) {
    (void)state;
    for (const struct preset *p = config_presets; p->name; p++) {
        struct config a, b;
        config_default(&a);
        SUPPORT_OK(config_set_size(&a, "mini", &err), err);
        SUPPORT_OK(config_set_arch(&a, p->name, &err), err);
        if (a.arrangement.norm->implies_channel)
            a.hidden_dropout_prob = 0; /* all others train with dropout */
        SUPPORT_OK(config_check(&a, &err), err);
        SUPPORT_OK(config_write(&a, support_folder(), "MaskedLM", &err), err);
        SUPPORT_OK(config_read(&b, support_folder(), &err), err);
        a.classifier_dropout = b.classifier_dropout = 0; /* NaN differs from itself */
        assert_memory_equal(&a, &b, sizeof a);
    }
}

static void the_model_type_follows_from_the_switches(void **state) {
    (void)state;
    static const struct {
        const char *arch, *key, *value, *type;
    } rows[] = {
        {"postln", "init", "xavier_normal", "roberta"},
        {"postln", "norm_eps", "1e-6", "roberta"},
        {"postln", "final_eps", "1e-7", "roberta"}, /* it has no final norm */
        {"postln", "norm", "rms", "normglue"},
        {"preln", "init_gain", "2", "roberta-prelayernorm"},
        {"preln", "norm_eps", "1e-6", "roberta-prelayernorm"},
        {"preln", "final_eps", "1e-7", "normglue"},
        {"preln", "embed-norm", "0", "normglue"},
        {"preln", "resid_alpha", "1.5", "normglue"},
        {"normformer", "head_scale", "none", "normglue"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct config c;
        config_default(&c);
        SUPPORT_OK(config_set_arch(&c, rows[i].arch, &err), err);
        SUPPORT_OK(config_set_switch(&c, rows[i].key, rows[i].value, &err), err);
        SUPPORT_OK(config_check(&c, &err), err);
        assert_string_equal(c.model_type, rows[i].type);
    }
}

/* norms.md: alpha = (2L)^(1/4), (8L)^(-1/4), sqrt(ln 2L), L^(-1/2) at L = 12. */
static void names_of_depth_rules_become_numbers(void **state) {
    (void)state;
    static const struct {
        const char *key, *value;
        double expected;
    } rows[] = {
        {"resid_alpha", "auto", 2.213363839400643},
        {"init_gain", "deepnorm", 0.31947155212313627},
        {"init_gain", "subln", 1.782709687623856},
        {"init_gain", "depth", 0.2886751345948129},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct config c;
        config_default(&c);
        SUPPORT_OK(config_set_switch(&c, rows[i].key, rows[i].value, &err), err);
        double found = i ? c.arrangement.init_gain : c.arrangement.resid_alpha;
        assert_true(fabs(found - rows[i].expected) < 1e-12);
    }
}

static void final_eps_follows_norm_eps_until_it_is_set(void **state) {
    (void)state;
    struct config c;
    config_default(&c);
    SUPPORT_OK(config_set_switch(&c, "norm_eps", "1e-6", &err), err);
    assert_true(c.arrangement.final_eps == 1e-6);
    SUPPORT_OK(config_set_switch(&c, "final_eps", "1e-7", &err), err);
    SUPPORT_OK(config_set_switch(&c, "layer_norm_eps", "1e-4", &err), err);
    assert_true(c.arrangement.final_eps == 1e-7);
}

static void wrong_names_and_values_are_explained(void **state) {
    (void)state;
    struct config c;
    config_default(&c);
    assert_int_equal(config_set_arch(&c, "normformr", &err), ERR_USAGE);
    support_assert_error(&err, ERR_USAGE, "arch: *did you mean \"normformer\"?");
    assert_int_equal(config_set_size(&c, "huge", &err), ERR_USAGE);
    support_assert_error(&err, ERR_USAGE,
                         "size: expected tiny|mini|small|medium|base|large, found "
                         "\"huge\"");
    static const struct {
        const char *key, *value, *sentence;
    } rows[] = {
        {"head_scale", "middle",
         "head_scale: expected none|pre_proj|post_proj, found \"middle\""},
        {"resid_alpha", "deep",
         "resid_alpha: expected a number in [0, 1e+06] or auto, found \"deep\""},
        {"resid_alpha", "nan", "resid_alpha: *"},
        {"init_gain", "-1", "init_gain: *"},
        {"pre_norm", "2", "pre_norm: *"},
        {"norm", "bm", "norm: expected ln|rms*, found \"bm\""},
        {"norm_stat", "windows=4", "norm_stat: expected NAME=X,... of momentum|*"},
        {"norm_stat", "window=4x", "norm_stat: expected*"},
        {"norm_stat", "window=-1", "norm_stat: expected*"},
        {"norm_penalty", "1,2,3", "norm_penalty: expected NAME=X,... of mean|var, *"},
        {"hidden_size", "8", "hidden_size: no such switch of an arrangement"},
        {"heads", "8", "heads: no such switch of an arrangement"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(config_set_switch(&c, rows[i].key, rows[i].value, &err),
                         ERR_USAGE);
        support_assert_error(&err, ERR_USAGE, rows[i].sentence);
    }
}

static void a_list_sets_what_it_names(void **state) {
    (void)state;
    struct config c;
    config_default(&c);
    SUPPORT_OK(config_set_switch(&c, "norm", "un", &err), err);
    SUPPORT_OK(config_set_switch(&c, "norm-stat", "window=8,momentum=0.5", &err), err);
    SUPPORT_OK(config_set_switch(&c, "norm_stat", "warmup=20", &err), err);
    SUPPORT_OK(config_set_switch(&c, "norm_penalty", "0,0", &err), err);
    SUPPORT_OK(config_check(&c, &err), err);
    const double *stat = c.arrangement.norm_stat;
    assert_true(stat[NORM_WINDOW] == 8 && stat[NORM_MOMENTUM] == 0.5);
    assert_true(stat[NORM_WARMUP] == 20 && stat[NORM_COMPENSATION_AFTER] == 1000);
    assert_true(stat[NORM_FILTER] == 0 && isnan(stat[NORM_GROUPS]));
    SUPPORT_OK(config_set_switch(&c, "norm", "pn", &err), err); /* starts with its own */
    SUPPORT_OK(config_check(&c, &err), err);
    assert_true(isnan(stat[NORM_WINDOW]) && stat[NORM_MOMENTUM] == 0.9);
    assert_true(stat[NORM_GROUPS] == (double)c.num_attention_heads);
    SUPPORT_OK(config_set_arch(&c, "rbn", &err), err);
    SUPPORT_OK(config_set_switch(&c, "norm_penalty", "var=3", &err), err);
    assert_true(c.arrangement.norm_penalty[0] == 2.5e-5);
    assert_true(c.arrangement.norm_penalty[1] == 3);
}

static void the_center_of_the_stream_follows_dropout(void **state) {
    (void)state;
    struct config c;
    config_default(&c);
    SUPPORT_OK(config_set_arch(&c, "prerms", &err), err);
    SUPPORT_OK(config_check(&c, &err), err);
    assert_int_equal(c.arrangement.stream_center, STREAM_CENTER_AFTER_DROPOUT);
    assert_int_equal(config_stream_size(&c), 768);
    SUPPORT_OK(config_set_arch(&c, "precrms", &err), err);
    c.hidden_dropout_prob = 0;
    SUPPORT_OK(config_check(&c, &err), err);
    assert_int_equal(c.arrangement.stream_center, STREAM_CENTER_WRITERS);
    assert_int_equal(config_stream_size(&c), 767);
    assert_int_equal(config_centered_stream(&c), 768);
}

static void a_description_names_what_differs_from_the_preset(void **state) {
    (void)state;
    static const struct {
        const char *arch, *key, *value, *text;
    } rows[] = {
        {"postln", NULL, NULL, "postln"},
        {"postln", "head-scale", "post_proj", "postln head_scale=post_proj"},
        {"deepnorm", "resid_alpha", "auto", "deepnorm"},
        {"deepnorm", "resid_alpha", "1.5", "deepnorm resid_alpha=1.5"},
        {"preln", "norm", "rms", "preln norm=rms"},
        {"un", "norm_stat", "warmup=9", "un norm_stat={\"momentum*\"warmup\": 9.0,*}"},
        {"prerms", "stream_center", "auto", "prerms"},
        {"mine", "embed_norm", "0", "mine"},
        {"", "embed_norm", "0", "postln embed_norm=0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct config c;
        struct buffer text = {0};
        config_default(&c);
        if (config_set_arch(&c, rows[i].arch, &err) != OK)
            strcpy(c.arch, rows[i].arch);
        if (rows[i].key)
            SUPPORT_OK(config_set_switch(&c, rows[i].key, rows[i].value, &err), err);
        SUPPORT_OK(config_check(&c, &err), err);
        SUPPORT_OK(config_describe(&c, &text, &err), err);
        if (fnmatch(rows[i].text, text.data, 0))
            assert_string_equal(text.data, rows[i].text);
        buffer_free(&text);
    }
}

static void text_of_several_switches_is_read_or_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *sentence;
    } rows[] = {
        {"head_scale", "expected key=value, found \"head_scale\""},
        {"norm=rms head_scale=post", "*head_scale*"},
    };
    struct config c;
    char longest[600];
    config_default(&c);
    SUPPORT_OK(config_set_switches(&c, " norm=rms  norm_eps=1e-6 ", &err), err);
    assert_true(c.arrangement.norm_eps == 1e-6);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(config_set_switches(&c, rows[i].text, &err), ERR_USAGE);
        support_assert_error(&err, ERR_USAGE, rows[i].sentence);
    }
    memset(longest, ' ', sizeof longest);
    longest[sizeof longest - 1] = 0;
    assert_int_equal(config_set_switches(&c, longest, &err), ERR_USAGE);
    support_assert_error(&err, ERR_USAGE, "switches of 599 characters, at most 511");
}

static void switches_that_exclude_each_other_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *key, *value, *sentence;
    } rows[] = {
        {"post_norm", "0", "pre_norm and post_norm are both 0*"},
        {"dual_out", "0.5", "dual_out 0.5 needs dual_stream above 0"},
        {"dual_stream", "1", "dual_stream 1 needs post_norm=1 and final_norm=1"},
        {"norm_aux", "bn", "norm_aux=bn: this norm stands at the pre, post and final *"},
        {"norm_aux", "crms", "norm_aux=crms: this norm stands at *"},
        {"norm_aux", "none", "norm_aux=none: this norm stands at *"},
        {"stream_center", "writers", "stream_center needs post_norm=0*"},
        {"norm", "crms", "norm=crms needs post_norm=0, embed_norm=0, out_norm=none *"},
        {"norm_penalty", "1", "norm_penalty needs norm=bn, found norm=ln"},
        {"norm_stat", "window=4", "norm_stat: norm=ln has no setting window"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct config c;
        config_default(&c);
        SUPPORT_OK(config_set_switch(&c, rows[i].key, rows[i].value, &err), err);
        assert_int_equal(config_check(&c, &err), ERR_USAGE);
        support_assert_error(&err, ERR_USAGE, rows[i].sentence);
    }
    struct config c;
    config_default(&c);
    SUPPORT_OK(config_set_arch(&c, "precrms", &err), err);
    assert_int_equal(config_check(&c, &err), ERR_USAGE);
    support_assert_error(
        &err, ERR_USAGE,
        "norm=crms needs stream_center=writers and hidden_dropout_prob 0");
    SUPPORT_OK(config_set_arch(&c, "prerms", &err), err);
    SUPPORT_OK(config_set_switch(&c, "stream_center", "writers", &err), err);
    assert_int_equal(config_check(&c, &err), ERR_USAGE);
    support_assert_error(&err, ERR_USAGE,
                         "stream_center=writers needs hidden_dropout_prob 0, found 0.1*");
    config_default(&c);
    SUPPORT_OK(config_set_switch(&c, "norm", "pn", &err), err);
    SUPPORT_OK(config_set_switch(&c, "norm_stat", "groups=5", &err), err);
    assert_int_equal(config_check(&c, &err), ERR_USAGE);
    support_assert_error(&err, ERR_USAGE,
                         "norm_stat: groups 5 do not divide hidden_size 768");
    SUPPORT_OK(config_set_switch(&c, "norm", "un", &err), err);
    SUPPORT_OK(config_set_switch(&c, "norm_stat", "window=0.5", &err), err);
    assert_int_equal(config_check(&c, &err), ERR_USAGE);
    support_assert_error(&err, ERR_USAGE, "norm_stat: window: expected a whole number *");
    config_default(&c);
    c.num_attention_heads = 7;
    assert_int_equal(config_check(&c, &err), ERR_USAGE);
    support_assert_error(&err, ERR_USAGE, "hidden_size 768 is not a multiple of *");
}

/* roberta-base's own file: 481 bytes of the hub. */
static void a_published_config_is_read(void **state) {
    (void)state;
    struct config c;
    const char *folder = folder_with(
        "{\"architectures\": [\"RobertaForMaskedLM\"], "
        "\"attention_probs_dropout_prob\": 0.1, \"bos_token_id\": 0, "
        "\"eos_token_id\": 2, \"hidden_act\": \"gelu\", \"hidden_dropout_prob\": 0.1, "
        "\"hidden_size\": 768, \"initializer_range\": 0.02, \"intermediate_size\": 3072, "
        "\"layer_norm_eps\": 1e-05, \"max_position_embeddings\": 514, "
        "\"model_type\": \"roberta\", \"num_attention_heads\": 12, "
        "\"num_hidden_layers\": 12, \"pad_token_id\": 1, \"type_vocab_size\": 1, "
        "\"vocab_size\": 50265}");
    SUPPORT_OK(config_read(&c, folder, &err), err);
    struct config expected;
    config_default(&expected);
    c.classifier_dropout = expected.classifier_dropout = 0;
    assert_memory_equal(&c, &expected, sizeof c);
    assert_int_equal(config_max_tokens(&c), 512);
    assert_string_equal(config_prefix(&c), "roberta");
}

/* What RobertaConfig of transformers takes for keys that are absent. */
static void absent_keys_have_the_defaults_of_transformers(void **state) {
    (void)state;
    struct config c;
    SUPPORT_OK(
        config_read(&c, folder_with("{\"model_type\": \"roberta-prelayernorm\"}"), &err),
        err);
    assert_int_equal(c.max_position_embeddings, 512);
    assert_int_equal(c.type_vocab_size, 2);
    assert_true(c.arrangement.norm_eps == 1e-12 && c.arrangement.final_eps == 1e-12);
    assert_true(c.arrangement.pre_norm && !c.arrangement.post_norm);
    assert_string_equal(config_prefix(&c), "roberta_prelayernorm");
    assert_int_equal(c.num_labels, 0);
}

static void labels_of_a_classifier_are_kept(void **state) {
    (void)state;
    struct config a, b;
    config_default(&a);
    a.num_labels = 3;
    strcpy(a.labels[0].name, "entailment");
    strcpy(a.labels[1].name, "not \"entailed\"");
    strcpy(a.labels[2].name, "\xC3\xA4");
    strcpy(a.finetuning_task, "rte");
    a.classifier_dropout = 0.25;
    SUPPORT_OK(config_write(&a, support_folder(), "SequenceClassification", &err), err);
    SUPPORT_OK(config_read(&b, support_folder(), &err), err);
    assert_memory_equal(&a, &b, sizeof a);
    struct buffer text = support_read(support_path("config.json"));
    assert_non_null(strstr(text.data, "\"RobertaForSequenceClassification\""));
    assert_non_null(
        strstr(text.data, "\"problem_type\": \"single_label_classification\""));
    buffer_free(&text);
}

/* transformers drops an id2label of LABEL_0 and LABEL_1. */
static void a_classifier_without_names_has_two_labels(void **state) {
    (void)state;
    struct config c;
    SUPPORT_OK(config_read(&c,
                           folder_with("{\"model_type\": \"roberta\", \"architectures\": "
                                       "[\"RobertaForSequenceClassification\"]}"),
                           &err),
               err);
    assert_int_equal(c.num_labels, 2);
    assert_string_equal(c.labels[1].name, "LABEL_1");
}

static void a_regression_says_so(void **state) {
    (void)state;
    struct config c;
    config_default(&c);
    c.num_labels = 1;
    strcpy(c.labels[0].name, "LABEL_0");
    SUPPORT_OK(config_write(&c, support_folder(), "SequenceClassification", &err), err);
    struct buffer text = support_read(support_path("config.json"));
    assert_non_null(strstr(text.data, "\"problem_type\": \"regression\""));
    buffer_free(&text);
}

static void bad_files_are_refused_with_the_key(void **state) {
    (void)state;
#define ROBERTA "{\"model_type\": \"roberta\", "
    static const struct {
        const char *text, *sentence;
    } rows[] = {
        {"", "*config.json*"},
        {"[]", "*config.json: expected a JSON object"},
        {"{}", "*config.json: model_type is missing"},
        {"{\"model_type\": \"bert\"}",
         "*model_type: expected roberta, roberta-prelayernorm or normglue, found "
         "\"bert\""},
        {"{\"model_type\": 3}", "*model_type*"},
        {ROBERTA "\"hidden_size\": 768,}", "*config.json:1:*"},
        {ROBERTA "\"hidden_size\": 768, \"hidden_size\": 768}", "*duplicate*"},
        {ROBERTA "\"num_hidden_layers\": -1}", "*num_hidden_layers*-1*"},
        {ROBERTA "\"num_hidden_layers\": 1001}", "*num_hidden_layers*1001*"},
        {ROBERTA "\"num_hidden_layers\": 9223372036854775808}", "*num_hidden_layers*"},
        {ROBERTA "\"num_hidden_layers\": 1e400}", "*"},
        {ROBERTA "\"num_hidden_layers\": \"12\"}", "*num_hidden_layers*"},
        {ROBERTA "\"num_attention_heads\": 7}", "*not a multiple*"},
        {ROBERTA "\"vocab_size\": 1000001}", "*vocab_size*"},
        {ROBERTA "\"vocab_size\": 2}", "*special token id 2 is outside the vocabulary*"},
        {ROBERTA "\"max_position_embeddings\": 2}", "*leaves no room*"},
        {ROBERTA "\"hidden_act\": \"gelu_new\"}",
         "*hidden_act: expected \"gelu\", found \"gelu_new\""},
        {ROBERTA "\"position_embedding_type\": \"relative_key\"}",
         "*position_embedding_type*"},
        {ROBERTA "\"is_decoder\": true}", "*is_decoder*"},
        {ROBERTA "\"hidden_dropout_prob\": 1.0}", "*hidden_dropout_prob*"},
        {ROBERTA "\"layer_norm_eps\": -1}", "*layer_norm_eps*"},
        {ROBERTA "\"pre_norm\": 1}", "*make a normglue model, but model_type is roberta"},
        {ROBERTA "\"mid_norm\": \"all\"}", "*mid_norm: expected none|attn|ffn|both*"},
        {ROBERTA "\"mid_norm\": 1}", "*mid_norm: expected a word, found 1"},
        {ROBERTA "\"id2label\": []}", "*id2label*"},
        {ROBERTA "\"id2label\": {\"1\": \"a\"}}", "*id2label*none for \"0\""},
        {ROBERTA "\"id2label\": {\"0\": 1}}", "*id2label*"},
        {ROBERTA "\"num_labels\": 65}", "*num_labels*"},
        {ROBERTA "\"num_labels\": 3, \"problem_type\": \"multi_label_classification\"}",
         "*problem_type: expected \"single_label_classification\" with 3 labels*"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct config c;
        if (config_read(&c, folder_with(rows[i].text), &err) != ERR_INPUT)
            fail_msg("accepted: %s", rows[i].text);
        support_assert_error(&err, ERR_INPUT, rows[i].sentence);
    }
}

/* The keys of golden files: every switch stands in its config.json under its own name. */
static void reference_configs_are_read(void **state) {
    (void)state;
    struct config c;
    SUPPORT_OK(config_read(&c, "tests/data/checkpoint/residual_dual", &err), err);
    assert_true(c.arrangement.dual_stream == 0.7 && c.arrangement.dual_out == 0.9 &&
                c.arrangement.final_eps == 1e-7);
    assert_string_equal(c.model_type, "normglue");
    assert_int_equal(c.num_labels, 3);
    SUPPORT_OK(config_read(&c, "tests/data/checkpoint/plain_rms", &err), err);
    assert_ptr_equal(c.arrangement.norm, &norm_rms);
    assert_int_equal(c.arrangement.norm_affine, AFFINE_GAIN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_preset_is_valid_and_reads_back_exactly),
        cmocka_unit_test(the_model_type_follows_from_the_switches),
        cmocka_unit_test(names_of_depth_rules_become_numbers),
        cmocka_unit_test(final_eps_follows_norm_eps_until_it_is_set),
        cmocka_unit_test(wrong_names_and_values_are_explained),
        cmocka_unit_test(the_center_of_the_stream_follows_dropout),
        cmocka_unit_test(a_list_sets_what_it_names),
        cmocka_unit_test(a_description_names_what_differs_from_the_preset),
        cmocka_unit_test(text_of_several_switches_is_read_or_refused),
        cmocka_unit_test(switches_that_exclude_each_other_are_refused),
        cmocka_unit_test(a_published_config_is_read),
        cmocka_unit_test(absent_keys_have_the_defaults_of_transformers),
        cmocka_unit_test(labels_of_a_classifier_are_kept),
        cmocka_unit_test(a_classifier_without_names_has_two_labels),
        cmocka_unit_test(a_regression_says_so),
        cmocka_unit_test(bad_files_are_refused_with_the_key),
        cmocka_unit_test(reference_configs_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
