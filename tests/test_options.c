/* test_options - a command line and a config file over one table. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/capture.h"
#include "tests/options_example.h"
#include "tests/support.h"

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

/* -- whole commands ------------------------------------------------------------------ */

static enum status print_call(const struct call *call, struct error *err) {
    const struct values *v = call->values;
    printf("%s: %s, %d operands\n", call->command->name, v->output, call->operands.count);
    return call->operands.count < 3 ? OK : error_set(err, ERR_INPUT, "too many");
}

static int try_command(int argc, char **argv) {
    struct values v;
    return options_run(&with_operands, &v, argc, argv, print_call);
}

static void a_command_works_helps_or_says_what_is_wrong(void **state) {
    (void)state;
    static const struct {
        const char *words[8];
        int code;
        const char *out, *err; /* beginnings */
    } cases[] = {
        {{"--output", "x", "a", "b"}, OK, "normglue try: x, 2 operands\n", ""},
        {{"--help", "a"}, OK, "Usage: normglue try --output DIR FILE...", ""},
        {{"--output", "x", "a", "b", "c"}, ERR_INPUT, "", "normglue try: too many\n"},
        {{"--outptu", "x"}, ERR_USAGE, "", "normglue try: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct captured c = capture(try_command, "", cases[i].words);
        assert_int_equal(c.code, cases[i].code);
        assert_memory_equal(c.out.data, cases[i].out, strlen(cases[i].out));
        assert_memory_equal(c.err.data, cases[i].err, strlen(cases[i].err));
        captured_free(&c);
    }
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_fill_what_is_not_given),
        cmocka_unit_test(every_kind_is_read),
        cmocka_unit_test(the_last_one_wins),
        cmocka_unit_test(whole_numbers_may_be_written_in_many_ways),
        cmocka_unit_test(wrong_values_say_what_was_expected),
        cmocka_unit_test(unknown_names_get_a_suggestion),
        cmocka_unit_test(operands_are_the_words_that_are_no_options),
        cmocka_unit_test(a_command_works_helps_or_says_what_is_wrong),
        cmocka_unit_test(a_config_file_has_lines),
        cmocka_unit_test(the_command_line_wins_over_the_file_wherever_it_stands),
        cmocka_unit_test(a_config_file_may_be_json),
        cmocka_unit_test(errors_in_a_config_file_name_the_line),
        cmocka_unit_test(resolved_values_read_back_as_a_config_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
