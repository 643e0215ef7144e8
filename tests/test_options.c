/* test_options - a command line, a config file and --help over one table. */
#include "base/options.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support.h"

struct values {
    struct options_state *state;
    int64_t steps, seed;
    double rate, ratio;
    bool shuffle, overwrite;
    const char *output, *dtype;
    struct option_list train;
};

#define FIELD(name) offsetof(struct values, name)
static const struct option rows[] = {
    {"train", OPTION_LIST, FIELD(train), NULL, 0, 0, "FILE", "Data", "text to learn from",
     false},
    {"shuffle", OPTION_FLAG, FIELD(shuffle), "true", 0, 0, NULL, "Data",
     "another order each epoch", false},
    {"max-steps", OPTION_INTEGER, FIELD(steps), "1000", 1, 1e12, NULL, "Training",
     "optimizer steps", false},
    {"seed", OPTION_INTEGER, FIELD(seed), NULL, 0, 0, NULL, "Training",
     "of all random numbers", false},
    {"learning-rate", OPTION_NUMBER, FIELD(rate), "1e-4", 0, 1, NULL, "Training",
     "peak learning rate, which is reached after the warm-up and then falls as the "
     "schedule says",
     false},
    {"warmup-ratio", OPTION_NUMBER, FIELD(ratio), NULL, 0, INFINITY, NULL, "Training",
     "share of steps to warm up in", false},
    {"dtype", OPTION_CHOICE, FIELD(dtype), "auto", 0, 0, "auto|f32|bf16", "Training",
     "number format", false},
    {"output", OPTION_STRING, FIELD(output), NULL, 0, 0, "DIR", "Output",
     "folder to write to", true},
    {"overwrite", OPTION_FLAG, FIELD(overwrite), NULL, 0, 0, NULL, "Output",
     "write into a folder that is not empty", false},
    {0},
};
static const struct command command = {
    "normglue try", "--output DIR [OPTION]...", "Tries the options.", NULL, rows, NULL};
static const struct command with_operands = {
    "normglue try", "--output DIR FILE...", "Tries the options.", NULL, rows, "FILE"};

/* Splits `line` at blanks, into words that live until the next call. */
static int split(const char *line, char *argv[64]) {
    static char copy[4096];
    snprintf(copy, sizeof copy, "%s", line);
    int argc = 0;
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    return argc;
}

static enum status try_parse(const char *line, struct values *v, struct error *err) {
    char *argv[64];
    bool help;
    const int argc = split(line, argv);
    return options_parse(&command, v, argc, argv, NULL, &help, err);
}

static struct values parsed(const char *line) {
    struct values v;
    struct error err;
    SUPPORT_OK(try_parse(line, &v, &err), err);
    return v;
}

static void check_error(const char *line, enum status status, const char *sentence) {
    struct values v;
    struct error err;
    const enum status found = try_parse(line, &v, &err);
    if (found == OK)
        fail_msg("accepted: %s", line);
    support_assert_error(&err, status, sentence);
    assert_null(v.state); /* nothing is kept */
}

static void defaults_fill_what_is_not_given(void **state) {
    (void)state;
    struct values v = parsed("--output run");
    assert_string_equal(v.output, "run");
    assert_int_equal(v.steps, 1000);
    assert_int_equal(v.seed, OPTION_UNSET_INTEGER);
    assert_true(v.rate == 1e-4);
    assert_true(isnan(v.ratio));
    assert_true(v.shuffle);
    assert_false(v.overwrite);
    assert_string_equal(v.dtype, "auto");
    assert_int_equal(v.train.count, 0);
    assert_true(options_given(&command, &v, "output"));
    assert_false(options_given(&command, &v, "max-steps"));
    options_free(&command, &v);
    struct error err;
    SUPPORT_OK(options_defaults(&command, &v, &err), err);
    assert_null(v.output);
    assert_int_equal(v.steps, 1000);
    options_free(&command, &v);
    options_free(&command, &v);
}

static void every_kind_is_read(void **state) {
    (void)state;
    struct values v = parsed(
        "--output=a=b --max_steps 1e6 --seed -3 --learning-rate .5 --warmup-ratio=2 "
        "--no-shuffle --overwrite --dtype bf16 --train a b - --train c");
    assert_string_equal(v.output, "a=b");
    assert_int_equal(v.steps, 1000000);
    assert_int_equal(v.seed, -3);
    assert_true(v.rate == 0.5);
    assert_true(v.ratio == 2);
    assert_false(v.shuffle);
    assert_true(v.overwrite);
    assert_string_equal(v.dtype, "bf16");
    assert_int_equal(v.train.count, 4);
    assert_string_equal(v.train.items[0], "a");
    assert_string_equal(v.train.items[2], "-");
    assert_string_equal(v.train.items[3], "c");
    assert_true(options_given(&command, &v, "max-steps"));
    assert_true(options_given(&command, &v, "max_steps"));
    assert_false(options_given(&command, &v, "no-such"));
    options_free(&command, &v);
}

static void the_last_one_wins(void **state) {
    (void)state;
    struct values v = parsed(
        "--output a --output b --seed 1 --seed 2 --overwrite=false "
        "--no_shuffle --shuffle=true --overwrite --no-overwrite");
    assert_string_equal(v.output, "b");
    assert_int_equal(v.seed, 2);
    assert_true(v.shuffle);
    assert_false(v.overwrite);
    options_free(&command, &v);
}

static void whole_numbers_may_be_written_in_many_ways(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        {"10_000", 10000},
        {"2.5e3", 2500},
        {"+7", 7},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775807", -INT64_MAX},
        {"0", 0},
        {"-0", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[100];
        snprintf(line, sizeof line, "--output x --seed %s", cases[i].text);
        struct values v = parsed(line);
        assert_int_equal(v.seed, cases[i].value);
        options_free(&command, &v);
    }
}

static void wrong_values_say_what_was_expected(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"--max-steps abc",
         "--max-steps: expected a whole number of at least 1, found 'abc'"},
        {"--max-steps 0",
         "--max-steps: expected a whole number of at least 1, found '0'"},
        {"--max-steps 1.5",
         "--max-steps: expected a whole number of at least 1, found '1.5'"},
        {"--max-steps=", "--max-steps: expected a whole number of at least 1, found ''"},
        {"--seed 9223372036854775808",
         "--seed: expected a whole number, found '9223372036854775808'"},
        {"--seed -9223372036854775808",
         "--seed: expected a whole number, found '-9223372036854775808'"},
        {"--seed 1e30", "--seed: expected a whole number, found '1e30'"},
        {"--seed 1__0", "--seed: expected a whole number, found '1__0'"},
        {"--seed _1", "--seed: expected a whole number, found '_1'"},
        {"--seed 5x", "--seed: expected a whole number, found '5x'"},
        {"--learning-rate 2",
         "--learning-rate: expected a number from 0 to 1, found '2'"},
        {"--learning-rate nan",
         "--learning-rate: expected a number from 0 to 1, found 'nan'"},
        {"--warmup-ratio -1",
         "--warmup-ratio: expected a number of at least 0, found '-1'"},
        {"--warmup-ratio inf",
         "--warmup-ratio: expected a number of at least 0, found 'inf'"},
        {"--dtype f64", "--dtype: expected auto|f32|bf16, found 'f64'"},
        {"--dtype f3", "--dtype: expected auto|f32|bf16, found 'f3'"},
        {"--dtype=", "--dtype: expected auto|f32|bf16, found ''"},
        {"--shuffle=yes", "--shuffle: expected true or false, found 'yes'"},
        {"--seed", "--seed: expected a value, found nothing"},
        {"--seed --overwrite",
         "--seed: expected a value, found '--overwrite' (a value that "
         "starts with - is written --seed=VALUE)"},
        {"--train", "--train: expected a value, found nothing"},
        {"word", "unexpected word 'word'"},
        {"-- --seed", "unexpected word '--seed'"},
        {"--config", "--config: expected a value, found nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[200];
        snprintf(line, sizeof line, "--output x %s", cases[i][0]);
        check_error(line, ERR_USAGE, cases[i][1]);
    }
    check_error("--seed 1", ERR_USAGE, "missing option --output DIR");
}

static void unknown_names_get_a_suggestion(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"--sed 1", "unknown option '--sed'; did you mean '--seed'?"},
        {"--learning_rat=1",
         "unknown option '--learning_rat=1'; did you mean "
         "'--learning-rate'?"},
        {"--laerning-rate 1",
         "unknown option '--laerning-rate'; did you mean "
         "'--learning-rate'?"},
        {"--max 1", "unknown option '--max'; did you mean '--max-steps'?"},
        {"--max-step 1", "unknown option '--max-step'; did you mean '--max-steps'?"},
        {"--hlep", "unknown option '--hlep'; did you mean '--help'?"},
        {"--confg x", "unknown option '--confg'; did you mean '--config'?"},
        {"-seed 1", "unknown option '-seed'; did you mean '--seed'?"},
        {"--frobnicate", "unknown option '--frobnicate'"},
        {"-x", "unknown option '-x'"},
        {"--no-seed", "unknown option '--no-seed'"},
        {"--no-shuffle=true", "unknown option '--no-shuffle=true'*"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_error(cases[i][0], ERR_USAGE, cases[i][1]);
}

static void operands_are_the_words_that_are_no_options(void **state) {
    (void)state;
    char *argv[64];
    struct values v;
    struct option_list operands;
    struct error err;
    bool help;
    const int argc = split("a --output x b - -1 -- --seed", argv);
    SUPPORT_OK(options_parse(&with_operands, &v, argc, argv, &operands, &help, &err),
               err);
    static const char *const expected[] = {"a", "b", "-", "-1", "--seed"};
    assert_int_equal(operands.count, 5);
    for (int i = 0; i < 5; i++)
        assert_string_equal(operands.items[i], expected[i]);
    assert_int_equal(v.seed, OPTION_UNSET_INTEGER);
    options_free(&with_operands, &v);
}

/* -- config files ---------------------------------------------------------------------
 */

static struct values with_config(const char *text, const char *more) {
    char line[PATH_MAX];
    snprintf(line, sizeof line, "--config %s %s", support_write("config", text), more);
    return parsed(line);
}

static void check_config_error(const char *text, const char *sentence) {
    char line[PATH_MAX];
    snprintf(line, sizeof line, "--output x --config=%s", support_write("config", text));
    check_error(line, ERR_INPUT, sentence);
}

static void a_config_file_has_lines(void **state) {
    (void)state;
    struct values v = with_config(
        "# a run\n\n  max_steps = 5 # few\nmax-steps=6\r\n"
        "output = \"my run\"\nshuffle = false\n"
        "train = a.txt \"b c.txt\"\ntrain = d#1.txt",
        "");
    assert_int_equal(v.steps, 6);
    assert_string_equal(v.output, "my run");
    assert_false(v.shuffle);
    assert_int_equal(v.train.count, 3);
    assert_string_equal(v.train.items[0], "a.txt");
    assert_string_equal(v.train.items[1], "b c.txt");
    assert_string_equal(v.train.items[2], "d#1.txt");
    assert_true(options_given(&command, &v, "max-steps"));
    options_free(&command, &v);
}

static void the_command_line_wins_over_the_file_wherever_it_stands(void **state) {
    (void)state;
    const char *path =
        support_write("config", "seed = 1\nmax-steps = 2\noutput = f\ntrain = x y\n");
    char line[PATH_MAX];
    snprintf(line, sizeof line, "--seed 3 --train z --config %s", path);
    struct values v = parsed(line);
    assert_int_equal(v.seed, 3);
    assert_int_equal(v.steps, 2);
    assert_string_equal(v.output, "f");
    assert_int_equal(v.train.count, 1);
    assert_string_equal(v.train.items[0], "z");
    options_free(&command, &v);
}

static void a_config_file_may_be_json(void **state) {
    (void)state;
    struct values v = with_config(
        "{\"max_steps\": 7, \"learning-rate\": 0.25, \"seed\": null,"
        "\"shuffle\": false, \"dtype\": \"f32\", \"output\": \"o\","
        "\"train\": [\"a\", \"b c\"]}",
        "");
    assert_int_equal(v.steps, 7);
    assert_true(v.rate == 0.25);
    assert_int_equal(v.seed, OPTION_UNSET_INTEGER);
    assert_false(options_given(&command, &v, "seed"));
    assert_false(v.shuffle);
    assert_string_equal(v.dtype, "f32");
    assert_int_equal(v.train.count, 2);
    assert_string_equal(v.train.items[1], "b c");
    options_free(&command, &v);
}

static void errors_in_a_config_file_name_the_line(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"seed = 1\nsed = 2\n", "*/config:2: sed: no such option; did you mean 'seed'?"},
        {"\n\nseed = x\n", "*/config:3: seed: expected a whole number, found 'x'"},
        {"seed\n", "*/config:1: expected 'key = value', found 'seed'"},
        {"seed = 1\ntrain = \"a\n",
         "*/config:2: train: expected a closing \", found 'a'"},
        {"config = other\n", "*/config:1: config: no such option"},
        {"{\"seed\": \"x\"}", "*/config: seed: expected a whole number, found 'x'"},
        {"{\"seed\": {}}",
         "*/config: seed: expected a text, number or truth value, found an object"},
        {"{\"frobnicate\": 1}", "*/config: frobnicate: no such option"},
        {"{\"seed\": 1,\n\"seed\": 2}", "*/config:2:6: duplicate object key*"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_config_error(cases[i][0], cases[i][1]);
    check_error("--output x --config no/such/file", ERR_INPUT,
                "no/such/file: cannot open: No such file or directory");
}

static void resolved_values_read_back_as_a_config_file(void **state) {
    (void)state;
    struct values v =
        parsed("--output o --seed 12 --learning-rate 0.1 --train a b --no-shuffle");
    json_t *object = options_to_json(&command, &v);
    assert_non_null(object);
    assert_true(json_is_null(json_object_get(object, "warmup_ratio")));
    assert_int_equal(json_object_size(object), 9);
    char *text = json_dumps(object, 0);
    struct values again = with_config(text, "");
    json_t *same = options_to_json(&command, &again);
    assert_true(json_equal(object, same));
    free(text);
    json_decref(object);
    json_decref(same);
    options_free(&command, &v);
    options_free(&command, &again);
}

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
    static const char *const lines[] = {"--help", "--seed x --help", "-h --nonsense"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char *argv[64];
        struct values v;
        struct error err;
        bool help;
        const int argc = split(lines[i], argv);
        SUPPORT_OK(options_parse(&command, &v, argc, argv, NULL, &help, &err), err);
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
        strstr(help.data, "| `--dtype auto\\|f32\\|bf16` | auto | number format"));
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
        cmocka_unit_test(defaults_fill_what_is_not_given),
        cmocka_unit_test(every_kind_is_read),
        cmocka_unit_test(the_last_one_wins),
        cmocka_unit_test(whole_numbers_may_be_written_in_many_ways),
        cmocka_unit_test(wrong_values_say_what_was_expected),
        cmocka_unit_test(unknown_names_get_a_suggestion),
        cmocka_unit_test(operands_are_the_words_that_are_no_options),
        cmocka_unit_test(a_config_file_has_lines),
        cmocka_unit_test(the_command_line_wins_over_the_file_wherever_it_stands),
        cmocka_unit_test(a_config_file_may_be_json),
        cmocka_unit_test(errors_in_a_config_file_name_the_line),
        cmocka_unit_test(resolved_values_read_back_as_a_config_file),
        cmocka_unit_test(help_is_asked_before_anything_is_checked),
        cmocka_unit_test(help_shows_every_row_in_90_columns),
        cmocka_unit_test(help_is_markdown_for_the_manual),
        cmocka_unit_test(the_nearest_name_is_suggested_only_when_near),
        cmocka_unit_test(a_command_ends_with_its_status_and_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
