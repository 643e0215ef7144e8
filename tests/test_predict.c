/* test_predict - normglue predict: answers, streaming, errors. */
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "finetune/finetune.h"
#include "tests/capture.h"
#include "tests/support.h"
#include "tests/tiny_model.h"

#define DATA "tests/data/finetune/"

static struct captured predict(const char *input, const char *const *words) {
    return capture(predict_command, input, words);
}

/* Both are lines of JSON arrays of {label, score}. */
static void assert_same_answers(const char *found, const char *expected) {
    while (*expected) {
        json_error_t error;
        json_t *f = json_loads(found, JSON_DISABLE_EOF_CHECK, &error),
               *e = json_loads(expected, JSON_DISABLE_EOF_CHECK, &error);
        assert_non_null(f);
        assert_non_null(e);
        assert_int_equal(json_array_size(f), json_array_size(e));
        for (size_t i = 0; i < json_array_size(e); i++) {
            const json_t *x = json_array_get(f, i), *y = json_array_get(e, i);
            assert_string_equal(json_string_value(json_object_get(x, "label")),
                                json_string_value(json_object_get(y, "label")));
            assert_true(fabs(json_number_value(json_object_get(x, "score")) -
                             json_number_value(json_object_get(y, "score"))) < 1e-5);
        }
        json_decref(f);
        json_decref(e);
        found = strchr(found, '\n') + 1;
        expected = strchr(expected, '\n') + 1;
    }
    assert_string_equal(found, "");
}

static void answers_equal_the_pipeline_of_transformers(void **state) {
    (void)state;
    static const char *const models[] = {DATA "postln-3", DATA "postln-2", DATA "preln-2",
                                         DATA "score"};
    struct buffer texts = support_read(DATA "texts.tsv");
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const char *words[] = {"--model", models[i], NULL};
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s/expected.jsonl", models[i]);
        struct buffer expected = support_read(path);
        struct captured a = predict(texts.data, words);
        if (a.code != 0)
            fail_msg("%s", a.err.data);
        assert_same_answers(a.out.data, expected.data);
        buffer_free(&expected);
        captured_free(&a);
    }
    buffer_free(&texts);
}

/* More lines than one group holds, of all lengths: each is answered as if alone. */
static void answers_do_not_depend_on_neighbours(void **state) {
    (void)state;
    static const char *const words[] = {"--model", DATA "postln-3", NULL};
    enum { LINES = 600 };
    char *input = calloc(LINES, 64);
    struct buffer texts = support_read(DATA "texts.tsv");
    struct captured alone = predict(texts.data, words);
    size_t used = 0;
    struct buffer wanted = {0};
    struct error err;
    const char *text = texts.data, *line = alone.out.data;
    for (int i = 0; i < LINES; i++) {
        if (!*text)
            text = texts.data, line = alone.out.data;
        size_t length = strcspn(text, "\n") + 1, answer = strcspn(line, "\n") + 1;
        memcpy(input + used, text, length);
        used += length;
        assert_int_equal(buffer_add(&wanted, line, answer, &err), OK);
        text += length, line += answer;
    }
    struct captured all = predict(input, words);
    assert_same_answers(all.out.data, wanted.data);
    buffer_free(&wanted);
    captured_free(&all);
    captured_free(&alone);
    buffer_free(&texts);
    free(input);
}

static void top_k_and_carriage_returns(void **state) {
    (void)state;
    static const char *const all[] = {"--model", DATA "postln-3", NULL}, *const best[] = {
                                                                             "--model",
                                                                             DATA
                                                                             "postln-3",
                                                                             "--top-k",
                                                                             "1", NULL};
    struct captured plain = predict("Yes.\n", all), dos = predict("Yes.\r\n", all),
                    unended = predict("Yes.", all), top = predict("Yes.\n", best);
    assert_string_equal(plain.out.data, dos.out.data);
    assert_string_equal(plain.out.data, unended.out.data);
    size_t first = strcspn(plain.out.data, "}");
    assert_memory_equal(plain.out.data, top.out.data, first);
    assert_string_equal(top.out.data + first, "}]\n");
    captured_free(&plain);
    captured_free(&dos);
    captured_free(&unended);
    captured_free(&top);
}

static void files_are_read_one_after_the_other(void **state) {
    (void)state;
    static const char *const from_stdin[] = {"--model", DATA "preln-2", NULL};
    const char *a = support_write("a.tsv", "One.\n"),
               *b = support_write("b.tsv", "Two.\tThree.\n");
    const char *from_files[] = {"--model", DATA "preln-2", a, b, NULL};
    struct captured x = predict("One.\nTwo.\tThree.\n", from_stdin),
                    y = predict("", from_files);
    assert_same_answers(y.out.data, x.out.data);
    captured_free(&x);
    captured_free(&y);
}

static void long_texts_are_cut_with_a_line(void **state) {
    (void)state;
    static const char *const words[] = {"--model", DATA "postln-2", NULL};
    char text[400];
    memset(text, 'q', sizeof text);
    memcpy(text + sizeof text - 2, "\n", 2);
    struct captured a = predict(text, words);
    assert_int_equal(a.code, 0);
    assert_non_null(strstr(a.err.data,
                           "1 of 1 sequences fill max-seq-length 64; longer texts "
                           "are cut"));
    captured_free(&a);
}

struct talk {
    int to, from;
    char answers[2][256];
    bool failed;
};

/* Says a line, waits for its answer, says the next one: as a person would. */
static void *converse(void *self) {
    struct talk *talk = self;
    for (int i = 0; i < 2; i++) {
        struct pollfd file = {.fd = talk->from, .events = POLLIN};
        talk->failed |= write(talk->to, "Yes.\n", 5) != 5 || poll(&file, 1, 30000) <= 0 ||
                        read(talk->from, talk->answers[i], 255) <= 0;
    }
    close(talk->to);
    return NULL;
}

static void a_pausing_input_is_answered_at_once(void **state) {
    (void)state;
    const char *argv[] = {"--model", DATA "postln-3"};
    int in[2], out[2];
    pthread_t thread;
    assert_true(pipe(in) == 0 && pipe(out) == 0);
    struct talk talk = {.to = in[1], .from = out[0]};
    int saved_in = capture_redirect(0, in[0]), saved_out = capture_redirect(1, out[1]);
    int started = pthread_create(&thread, NULL, converse, &talk);
    int code = predict_command(2, (char **)argv);
    pthread_join(thread, NULL);
    capture_restore(0, saved_in);
    capture_restore(1, saved_out);
    close(in[0]), close(out[0]), close(out[1]);
    assert_int_equal(started, 0);
    assert_int_equal(code, 0);
    assert_false(talk.failed);
    assert_string_equal(talk.answers[0], talk.answers[1]);
}

static void bad_lines_are_named_after_the_good_are_answered(void **state) {
    (void)state;
    static const char *const words[] = {"--model", DATA "postln-3", NULL};
    static const struct {
        const char *input, *sentence;
    } cases[] = {
        {"fine\na\tb\tc\nfine\n",
         "normglue predict: standard input:2: expected one text or "
         "two separated by a tab, found 3 fields\n"},
        {"fine\nb\xff\nfine\n", "normglue predict: standard input:2: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct captured a = predict(cases[i].input, words);
        assert_int_equal(a.code, 3);
        assert_non_null(strstr(a.err.data, cases[i].sentence));
        assert_int_equal(strcspn(a.out.data, "\n") + 1,
                         strlen(a.out.data)); /* one answer */
        captured_free(&a);
    }
}

static void bad_models_and_options_get_one_sentence(void **state) {
    (void)state;
    const char *headless = tiny_model("headless", (struct tiny_model){.seed = 1});
    const char *missing = support_path("missing");
    const struct {
        const char *words[4];
        int code;
        const char *sentence;
    } cases[] = {
        {{"--model", headless, NULL}, 3, "the model has no classification head"},
        {{"--model", missing, NULL}, 3, missing},
        {{NULL}, 2, "--model"},
        {{"--modle", "x", NULL}, 2, "--model"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct captured a = predict("text\n", cases[i].words);
        assert_int_equal(a.code, cases[i].code);
        assert_string_equal(a.out.data, "");
        if (!strstr(a.err.data, cases[i].sentence))
            fail_msg("expected '%s', found '%s'", cases[i].sentence, a.err.data);
        captured_free(&a);
    }
}

static void an_unwritable_stdout_is_an_error(void **state) {
    (void)state;
    const char *argv[] = {"--model", DATA "postln-3", support_write("one.tsv", "Yes.\n")};
    int full = open("/dev/full", O_WRONLY), quiet = open("/dev/null", O_WRONLY);
    int saved_out = capture_redirect(1, full), saved_err = capture_redirect(2, quiet);
    int code = predict_command(3, (char **)argv);
    clearerr(stdout);
    capture_restore(1, saved_out);
    capture_restore(2, saved_err);
    close(full), close(quiet);
    assert_int_equal(code, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_equal_the_pipeline_of_transformers),
        cmocka_unit_test(answers_do_not_depend_on_neighbours),
        cmocka_unit_test(top_k_and_carriage_returns),
        cmocka_unit_test(files_are_read_one_after_the_other),
        cmocka_unit_test(long_texts_are_cut_with_a_line),
        cmocka_unit_test(a_pausing_input_is_answered_at_once),
        cmocka_unit_test(bad_lines_are_named_after_the_good_are_answered),
        cmocka_unit_test(bad_models_and_options_get_one_sentence),
        cmocka_unit_test(an_unwritable_stdout_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
