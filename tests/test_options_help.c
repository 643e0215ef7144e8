/* test_options_help - --help, "did you mean", and the last line of a command. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/options_example.h"
#include "tests/support.h"

/* -- help and the end of a command ----------------------------------------------------
 */

static struct buffer captured_help(void) {
    const char *path = support_path("help");
    fflush(stdout);
    const int saved = dup(STDOUT_FILENO);
    const int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    dup2(file, STDOUT_FILENO);
    options_print_help(&command);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(file);
    return support_read(path);
}

static void help_is_asked_before_anything_is_checked(void **state) {
    (void)state;
    static char *lines[][4] = {{"--help"},
                               {"--seed", "x", "--help"},
                               {"-h", "--nonsense"},
                               {"--config", "no", "-h"}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct values v;
        struct error err;
        bool help;
        int argc = 0;
        while (lines[i][argc])
            argc++;
        SUPPORT_OK(options_parse(&command, &v, argc, lines[i], NULL, &help, &err), err);
        assert_true(help);
        options_free(&command, &v);
    }
}

static void help_shows_every_row_in_90_columns(void **state) {
    (void)state;
    unsetenv("COLUMNS");
    struct buffer help = captured_help();
    assert_ptr_equal(strstr(help.data,
                            "Usage: normglue try --output DIR [OPTION]...\n\n"
                            "Tries the options.\n\nData:\n"),
                     help.data);
    static const char *const lines[] = {
        "\n  --train FILE...                 text to learn from\n",
        "\n  --[no-]shuffle                  another order each epoch\n",
        "\nTraining:\n  --max-steps N                   optimizer steps (at least 1; "
        "default 1000)\n",
        "\n  --learning-rate X               peak learning rate, which is reached after "
        "the "
        "warm-up\n                                  and then falls as the schedule says "
        "(0 "
        "to 1; default\n                                  1e-4)\n",
        "\n  --dtype auto|f32|bf16           number format (default auto)\n",
        "\n  --output DIR                    folder to write to (required)\n",
        "\nGeneral:\n  --config FILE  ",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(help.data, lines[i]))
            fail_msg("expected %s in\n%s", lines[i], help.data);
    for (char *line = strtok(help.data, "\n"); line; line = strtok(NULL, "\n"))
        assert_true(strlen(line) <= 90);
    buffer_free(&help);
}

static void help_is_markdown_for_the_manual(void **state) {
    (void)state;
    setenv("NORMGLUE_HELP", "markdown", 1);
    struct buffer help = captured_help();
    unsetenv("NORMGLUE_HELP");
    assert_non_null(strstr(help.data, "### normglue try\n"));
    assert_non_null(
        strstr(help.data, "| `--dtype auto\\|f32\\|bf16` | `auto` | number format"));
    assert_non_null(
        strstr(help.data, "| `--output DIR` | required | folder to write to |"));
    buffer_free(&help);
}

static void the_nearest_name_is_suggested_only_when_near(void **state) {
    (void)state;
    static const char *const names[] = {"tokenizer", "pretrain", "finetune", "glue"};
    static const char *const cases[][2] = {
        {"tokeniser", "tokenizer"},
        {"pre-train", "pretrain"},
        {"fine_tune", "finetune"},
        {"gleu", "glue"},
        {"GLUE", "glue"},
        {"token", "tokenizer"},
        {"evaluate", NULL},
        {"", NULL},
        {"x", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *near = options_nearest(cases[i][0], names, 4);
        if (!cases[i][1])
            assert_null(near);
        else
            assert_string_equal(near ? near : "nothing", cases[i][1]);
    }
    char longest[300];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_null(options_nearest(longest, names, 4));
}

/* The whole of a command's end, in a child whose streams are files. */
static int finish_in_child(const char *standard_output, enum status status) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        struct values v = {0};
        struct error err;
        freopen(standard_output, "w", stdout);
        freopen(support_path("err"), "w", stderr);
        error_set(&err, status, "what was wrong");
        printf("result\n");
        const int code = options_finish(&command, &v, status, &err);
        fflush(stderr);
        _exit(code);
    }
    int code;
    waitpid(child, &code, 0);
    return WEXITSTATUS(code);
}

static void a_command_ends_with_its_status_and_sentence(void **state) {
    (void)state;
    static const struct {
        const char *to;
        enum status status;
        int code;
        const char *text;
    } cases[] = {
        {"/dev/null", OK, 0, ""},
        {"/dev/null", ERR_INPUT, 3, "normglue try: what was wrong\n"},
        {"/dev/null", ERR_USAGE, 2,
         "normglue try: what was wrong\nTry 'normglue try --help'.\n"},
        {"/dev/null", STOPPED_SIGINT, 130, ""},
        {"/dev/full", OK, 4,
         "normglue try: stdout: cannot write: No space left on device\n"},
        {"/dev/full", ERR_INPUT, 3, "normglue try: what was wrong\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(finish_in_child(cases[i].to, cases[i].status), cases[i].code);
        struct buffer text = support_read(support_path("err"));
        assert_string_equal(text.data, cases[i].text);
        buffer_free(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_is_asked_before_anything_is_checked),
        cmocka_unit_test(help_shows_every_row_in_90_columns),
        cmocka_unit_test(help_is_markdown_for_the_manual),
        cmocka_unit_test(the_nearest_name_is_suggested_only_when_near),
        cmocka_unit_test(a_command_ends_with_its_status_and_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
