/* test_fill_mask - candidates for <mask> equal to those of transformers' fill-mask
 * pipeline (tests/make_fill_mask.py), and bad lines. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json_file.h"
#include "encoder/checkpoint.h"
#include "encoder/encoder.h"
#include "pretrain/pretrain.h"
#include "tests/capture.h"
#include "tests/pretrain_data.h"

/* A directory as a user has it: the saved model with a tokenizer. */
static char *model_directory(const char *name) {
    char command[1024];
    char *directory = strdup(support_path(name));
    snprintf(command, sizeof command,
             "mkdir -p %s && cp tests/data/pretrain/%s/* " PRETRAIN_DATA_TOKENIZER
             "/* %s",
             directory, name, directory);
    assert_int_equal(support_run(command, NULL, NULL), 0);
    return directory;
}

static struct captured fill(const char *directory, const char *top_k, const char *texts) {
    const char *const words[] = {"--model",   directory, "--top-k", top_k,
                                 "--threads", "1",       NULL};
    return capture(fill_mask_command, texts, words);
}

/* The same keys, tokens and texts; scores to 1e-5. */
static void assert_equal(const json_t *found, const json_t *expected, int line) {
    if (json_is_array(expected)) {
        assert_int_equal(json_array_size(found), json_array_size(expected));
        for (size_t i = 0; i < json_array_size(expected); i++)
            assert_equal(json_array_get(found, i), json_array_get(expected, i), line);
        return;
    }
    assert_int_equal(json_object_size(found), 4);
    const double a = json_number_value(json_object_get(found, "score"));
    const double b = json_number_value(json_object_get(expected, "score"));
    if (!(fabs(a - b) < 1e-5))
        fail_msg("line %d: score %.9g, expected %.9g", line, a, b);
    static const char *const keys[] = {"token", "token_str", "sequence"};
    for (int i = 0; i < 3; i++) {
        const json_t *x = json_object_get(found, keys[i]),
                     *y = json_object_get(expected, keys[i]);
        if (!json_equal(x, y))
            fail_msg("line %d: %s is %s, expected %s", line, keys[i],
                     json_dumps(x, JSON_ENCODE_ANY), json_dumps(y, JSON_ENCODE_ANY));
    }
}

static void compare(const char *name) {
    char path[256];
    struct error err;
    char *directory = model_directory(name);
    struct buffer texts = support_read("tests/data/pretrain/fill-mask.txt");
    snprintf(path, sizeof path, "tests/data/pretrain/%s/expected.jsonl", name);
    struct buffer expected = support_read(path);
    struct captured c = fill(directory, "5", texts.data);
    if (c.code != 0)
        fail_msg("exit code %d: %s", c.code, c.err.data);
    char *a = c.out.data, *b = expected.data;
    int line = 1;
    for (; *b; line++) {
        char *a_end = strchr(a, '\n'), *b_end = strchr(b, '\n');
        assert_non_null(a_end);
        json_t *found, *wanted;
        SUPPORT_OK(json_file_parse(&found, "found", a, (size_t)(a_end - a), &err), err);
        SUPPORT_OK(json_file_parse(&wanted, "expected", b, (size_t)(b_end - b), &err),
                   err);
        assert_equal(found, wanted, line);
        json_decref(found);
        json_decref(wanted);
        a = a_end + 1;
        b = b_end + 1;
    }
    assert_int_equal(line, 10);
    assert_int_equal(*a, 0);
    captured_free(&c);
    buffer_free(&texts);
    buffer_free(&expected);
    free(directory);
}

static void post_ln_models_equal_transformers(void **state) {
    (void)state;
    compare("fill-mask-postln");
}

static void pre_ln_models_equal_transformers(void **state) {
    (void)state;
    compare("fill-mask-preln");
}

/* More masks than are worked on at once, and a top-k of the whole vocabulary: the scores
 * of each mask add up to 1 and fall. */
static void all_candidates_of_many_masks_add_up(void **state) {
    (void)state;
    struct error err;
    char *directory = model_directory("fill-mask-postln");
    char text[256] = "";
    for (int i = 0; i < 20; i++)
        strcat(text, "<mask> .");
    struct captured c = fill(directory, "1000000", text);
    assert_int_equal(c.code, 0);
    json_t *found;
    SUPPORT_OK(json_file_parse(&found, "found", c.out.data, c.out.length, &err), err);
    assert_int_equal(json_array_size(found), 20);
    for (size_t m = 0; m < 20; m++) {
        const json_t *mask = json_array_get(found, m);
        double sum = 0, last = 1;
        assert_int_equal(json_array_size(mask), 2000);
        for (size_t k = 0; k < 2000; k++) {
            const double score =
                json_number_value(json_object_get(json_array_get(mask, k), "score"));
            assert_true(score <= last);
            sum += last = score;
        }
        assert_true(fabs(sum - 1) < 1e-4);
    }
    json_decref(found);
    captured_free(&c);
    free(directory);
}

static void an_answer_comes_before_the_next_line(void **state) {
    (void)state;
    char *directory = model_directory("fill-mask-postln");
    const char *const words[] = {"fill-mask", "--model", directory,
                                 "--threads", "1",       NULL};
    int in[2], out[2];
    char byte;
    assert_true(pipe(in) == 0 && pipe(out) == 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execv("/proc/self/exe", (char **)words);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    alarm(20); /* an answer that never comes is a failure, not a hang */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(write(in[1], "a <mask>\n", 9), 9);
        do
            assert_int_equal(read(out[0], &byte, 1), 1);
        while (byte != '\n');
    }
    close(in[1]);
    assert_int_equal(read(out[0], &byte, 1), 0);
    close(out[0]);
    int code;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    alarm(0);
    free(directory);
}

static const struct refusal {
    const char *texts;
    int lines; /* answered before */
    const char *sentence;
} refusals[] = {
    {"a <mask>\nno mask\n", 1, "*:2: expected a text with <mask>, found none*"},
    {"\n", 0, "*:1: expected a text with <mask>, found none*"},
    {"<mask>\n<mask>\n~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~<"
     "mask>\n",
     2, "*:3: expected at most 64 tokens, found 66*"},
    {"bad \xFF <mask>\n", 0, "*:1: *UTF-8*"},
};

static void bad_lines_are_named(void **state) {
    (void)state;
    char *directory = model_directory("fill-mask-postln");
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *r = &refusals[i];
        struct captured c = fill(directory, "1", r->texts);
        struct error err = {.status = (enum status)c.code};
        snprintf(err.text, sizeof err.text, "%s", c.err.data);
        support_assert_error(&err, ERR_INPUT, r->sentence);
        int lines = 0;
        for (size_t b = 0; b < c.out.length; b++)
            lines += c.out.data[b] == '\n';
        assert_int_equal(lines, r->lines);
        captured_free(&c);
    }
    free(directory);
}

static void assert_refused(const char *directory, const char *sentence) {
    struct captured c = fill(directory, "1", "<mask>\n");
    struct error err = {.status = (enum status)c.code};
    snprintf(err.text, sizeof err.text, "%s", c.err.data);
    support_assert_error(&err, ERR_INPUT, sentence);
    assert_int_equal(c.out.length, 0);
    captured_free(&c);
}

static void a_missing_model_is_refused(void **state) {
    (void)state;
    assert_refused(support_path("nowhere"), "*nowhere*");
}

/* The encoder alone, as a RobertaModel directory. */
static void a_model_without_head_is_refused(void **state) {
    (void)state;
    struct error err;
    struct config config;
    struct device *device;
    struct encoder *encoder;
    struct parameters parameters = {0};
    char *directory = model_directory("fill-mask-postln");
    SUPPORT_OK(config_read(&config, directory, &err), err);
    SUPPORT_OK(device_open(&device, 1, NULL, &err), err);
    SUPPORT_OK(encoder_declare(&encoder, &config, device, &parameters, &err), err);
    SUPPORT_OK(parameters_allocate(&parameters, false, &err), err);
    SUPPORT_OK(checkpoint_write_parameters(directory, &parameters, &err), err);
    encoder_free(encoder);
    parameters_free(&parameters);
    device_close(device);
    assert_refused(directory, "*: expected a model with an MLM head (lm_head.\\*)*");
    free(directory);
}

/* Case F08: the vocabulary is larger than the word table. */
static void a_larger_vocabulary_is_refused(void **state) {
    (void)state;
    char *directory = model_directory("fill-mask-postln");
    char command[1024];
    snprintf(command, sizeof command,
             "sed -i 's/\"vocab_size\": 2000/\"vocab_size\": 1990/' %s/config.json",
             directory);
    assert_int_equal(support_run(command, NULL, NULL), 0);
    assert_refused(directory,
                   "*: the tokenizer's largest id is 1999, but the model's "
                   "vocab_size is 1990*");
    free(directory);
}

int main(int argc, char **argv) {
    if (strcmp(argv[0], "fill-mask") == 0) /* the child of a test */
        return fill_mask_command(argc - 1, argv + 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(post_ln_models_equal_transformers),
        cmocka_unit_test(pre_ln_models_equal_transformers),
        cmocka_unit_test(all_candidates_of_many_masks_add_up),
        cmocka_unit_test(an_answer_comes_before_the_next_line),
        cmocka_unit_test(bad_lines_are_named),
        cmocka_unit_test(a_missing_model_is_refused),
        cmocka_unit_test(a_model_without_head_is_refused),
        cmocka_unit_test(a_larger_vocabulary_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
