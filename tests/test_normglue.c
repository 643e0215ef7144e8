/* test_normglue - the program itself: subcommands, help, version, exit codes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support.h"

/* Runs "normglue <words>"; `make test` says where the program is. */
static int run(const char *words, struct buffer *out, struct buffer *errors) {
    const char *program = getenv("NORMGLUE");
    char line[512];
    snprintf(line, sizeof line, "'%s' %s", program ? program : "build/normglue", words);
    return support_run(line, out, errors);
}

static void check(const char *words, int code, const char *out, const char *errors) {
    struct buffer o = {0}, e = {0};
    struct error err;
    SUPPORT_OK(buffer_add(&o, "", 0, &err), err);
    SUPPORT_OK(buffer_add(&e, "", 0, &err), err);
    assert_int_equal(run(words, &o, &e), code);
    if (!strstr(o.data, out) || (!*out && o.length))
        fail_msg("%s: expected '%s' on stdout, found '%s'", words, out, o.data);
    if (!strstr(e.data, errors) || (!*errors && e.length))
        fail_msg("%s: expected '%s' on stderr, found '%s'", words, errors, e.data);
    buffer_free(&o);
    buffer_free(&e);
}

static void help_and_version_go_to_stdout(void **state) {
    (void)state;
    check("--help", 0, "Usage: normglue SUBCOMMAND", "");
    check("-h", 0, "\n  fill-mask    ", "");
    check("--version", 0, "normglue 0.1.0\n", "");
}

static void wrong_usage_is_told_on_stderr(void **state) {
    (void)state;
    check("", 2, "", "normglue: expected a subcommand, found nothing\n");
    check("tokeniser", 2, "",
          "normglue: unknown subcommand 'tokeniser'; did you mean 'tokenizer'?\n"
          "Try 'normglue --help'.\n");
    check("frobnicate", 2, "", "normglue: unknown subcommand 'frobnicate'\n");
}

static void a_full_disk_behind_stdout_is_an_error(void **state) {
    (void)state;
    check("--help >/dev/full", 4, "", "normglue: stdout: cannot write");
    check("--version >/dev/full", 4, "", "No space left on device");
}

static void every_subcommand_has_help_and_suggests_options(void **state) {
    (void)state;
    static const char *const commands[] = {
        "tokenizer train", "tokenizer encode", "pretrain", "finetune",
        "glue run",        "predict",          "fill-mask"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char words[100], expected[100];
        snprintf(words, sizeof words, "%s --help", commands[i]);
        snprintf(expected, sizeof expected, "Usage: normglue %s ", commands[i]);
        check(words, 0, expected, "");
        snprintf(words, sizeof words, "%s --confg x", commands[i]);
        check(words, 2, "", "unknown option '--confg'; did you mean '--config'?\n");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_and_version_go_to_stdout),
        cmocka_unit_test(wrong_usage_is_told_on_stderr),
        cmocka_unit_test(a_full_disk_behind_stdout_is_an_error),
        cmocka_unit_test(every_subcommand_has_help_and_suggests_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
