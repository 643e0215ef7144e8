/* test_pretrain - the command from text to model: it learns, it repeats itself to the
 * byte, it goes on after a kill, and bad input gets its sentence. */
#include "pretrain/pretrain.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_file.h"
#include "base/rng.h"
#include "tests/capture.h"
#include "tests/pretrain_data.h"

#define MOST_WORDS 64

/* A tiny NormFormer on made-up text, 60 steps with dropout; `output` below the folder. */
static const char *const small[] = {"--tokenizer",
                                    PRETRAIN_DATA_TOKENIZER,
                                    "--arch",
                                    "normformer",
                                    "--hidden-size",
                                    "32",
                                    "--num-hidden-layers",
                                    "2",
                                    "--num-attention-heads",
                                    "2",
                                    "--intermediate-size",
                                    "64",
                                    "--max-position-embeddings",
                                    "34",
                                    "--max-seq-length",
                                    "32",
                                    "--per-device-train-batch-size",
                                    "8",
                                    "--max-steps",
                                    "60",
                                    "--warmup-steps",
                                    "5",
                                    "--learning-rate",
                                    "3e-3",
                                    "--threads",
                                    "1",
                                    "--progress",
                                    "never",
                                    "--logging-steps",
                                    "2",
                                    "--eval-steps",
                                    "20",
                                    "--save-steps",
                                    "5",
                                    NULL};

static const char *train_path, *valid_path;

static int write_text(void **state) {
    (void)state;
    char *text = pretrain_data_text(3000, 1);
    train_path = strdup(support_write("train.txt", text));
    free(text);
    text = pretrain_data_text(200, 2);
    valid_path = strdup(support_write("valid.txt", text));
    free(text);
    return 0;
}

/* The words of `small` and the given ones up to NULL. */
static void collect_words(const char *words[MOST_WORDS], const char *output,
                          va_list more) {
    const char *const paths[] = {"--train",  train_path, "--valid",
                                 valid_path, "--output", output};
    int count = 0;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        words[count++] = paths[i];
    for (int i = 0; small[i]; i++)
        words[count++] = small[i];
    do
        words[count] = va_arg(more, const char *);
    while (words[count++]);
}

static struct captured run(const char *output, ...) {
    const char *words[MOST_WORDS];
    va_list more;
    va_start(more, output);
    collect_words(words, output, more);
    va_end(more);
    return capture(pretrain_command, "", words);
}

static void assert_run(struct captured c) {
    if (c.code != 0)
        fail_msg("exit code %d: %s", c.code, c.err.data);
    captured_free(&c);
}

static void assert_same_file(const char *a, const char *b, const char *name) {
    char one[PATH_BYTES], two[PATH_BYTES];
    struct error err;
    SUPPORT_OK(file_join(one, a, name, &err), err);
    SUPPORT_OK(file_join(two, b, name, &err), err);
    struct buffer x = support_read(one), y = support_read(two);
    assert_true(x.length > 0);
    if (x.length != y.length || memcmp(x.data, y.data, x.length) != 0)
        fail_msg("%s differs between %s and %s", name, a, b);
    buffer_free(&x);
    buffer_free(&y);
}

static double result_of(const char *output, const char *key) {
    char path[PATH_BYTES];
    struct error err;
    json_t *values;
    double value;
    SUPPORT_OK(file_join(path, output, "eval_results.json", &err), err);
    SUPPORT_OK(json_file_read(&values, path, &err), err);
    SUPPORT_OK(json_file_number(values, path, key, 0, 1e9, -1, &value, &err), err);
    json_decref(values);
    return value;
}

/* ---- tests ---- */

static char *reference; /* the output of the first test's run */

static void training_learns_and_leaves_a_model(void **state) {
    (void)state;
    reference = strdup(support_path("reference"));
    assert_run(run(reference, NULL));
    static const char *const files[] = {
        "config.json",    "model.safetensors",     "vocab.json",      "merges.txt",
        "tokenizer.json", "tokenizer_config.json", "run_config.json", "metrics.jsonl"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[PATH_BYTES];
        struct error err;
        SUPPORT_OK(file_join(path, reference, files[i], &err), err);
        if (!file_exists(path))
            fail_msg("%s is missing", files[i]);
    }
    const double loss = result_of(reference, "eval_loss");
    assert_true(loss < log(2000.0) - 1);
    assert_true(fabs(result_of(reference, "perplexity") - exp(loss)) < 1e-6 * exp(loss));
    assert_true(loss < log(result_of(reference, "unigram_perplexity")) + 0.5);
}

static void the_same_run_gives_the_same_bytes(void **state) {
    (void)state;
    char *again = strdup(support_path("again"));
    assert_run(run(again, NULL));
    assert_same_file(reference, again, "model.safetensors");
    assert_same_file(reference, again, "metrics.jsonl");
    free(again);
}

static void another_seed_gives_another_model(void **state) {
    (void)state;
    char *other = strdup(support_path("seed"));
    assert_run(run(other, "--seed", "7", "--max-steps", "3", NULL));
    free(other);
}

/* Validation masks do not depend on the seed, nor on the batch. */
static void accumulation_equals_the_large_batch(void **state) {
    (void)state;
    char *parts = strdup(support_path("parts")), *whole = strdup(support_path("whole"));
    assert_run(run(whole, "--max-steps", "5", NULL));
    assert_run(run(parts, "--max-steps", "5", "--per-device-train-batch-size", "2",
                   "--gradient-accumulation-steps", "4", NULL));
    assert_true(fabs(result_of(parts, "eval_loss") - result_of(whole, "eval_loss")) <
                1e-4);
    free(parts);
    free(whole);
}

/* Twice the longest sequence: a batch of 8 goes through in parts of 2. */
static void max_tokens_changes_no_more_than_rounding(void **state) {
    (void)state;
    char *parts = strdup(support_path("tokens")), *whole = strdup(support_path("all"));
    assert_run(run(whole, "--max-steps", "5", "--dtype", "f32", NULL));
    assert_run(
        run(parts, "--max-steps", "5", "--dtype", "f32", "--max-tokens", "64", NULL));
    assert_true(fabs(result_of(parts, "eval_loss") - result_of(whole, "eval_loss")) <
                1e-4);
    free(parts);
    free(whole);
}

static int lines_of_log(const char *output) {
    char path[PATH_BYTES];
    struct error err;
    SUPPORT_OK(file_join(path, output, "metrics.jsonl", &err), err);
    if (!file_exists(path))
        return 0;
    struct buffer log = support_read(path);
    int lines = 0;
    for (size_t i = 0; i < log.length; i++)
        lines += log.data[i] == '\n';
    buffer_free(&log);
    return lines;
}

static pid_t start_run(const char *output, ...) {
    const char *words[MOST_WORDS + 1] = {"pretrain"}; /* see main */
    va_list more;
    va_start(more, output);
    collect_words(words + 1, output, more);
    va_end(more);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0)
        return child;
    assert_true(freopen("/dev/null", "w", stdout) && freopen("/dev/null", "w", stderr));
    execv("/proc/self/exe", (char **)words);
    _exit(127);
}

/* Goes on with the run and sends `number` some time after its log has `lines` lines.
 * Returns what waitpid says, -1 when it had ended before. */
static int signal_run(const char *output, int lines, uint32_t microseconds, int number) {
    int code = 0;
    const pid_t child = start_run(output, "--resume", "auto", NULL);
    while (lines_of_log(output) < lines && waitpid(child, &code, WNOHANG) == 0)
        usleep(500);
    if (kill(child, 0) != 0)
        return -1;
    usleep(microseconds);
    kill(child, number);
    waitpid(child, &code, 0);
    return code;
}

/* Cases F04, F05. Kills at points of a run that are drawn anew each time and printed. */
static void a_killed_run_goes_on_with_the_same_bits(void **state) {
    (void)state;
    char *output = strdup(support_path("killed"));
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const struct rng stream = rng_stream((uint64_t)now.tv_nsec, RNG_TEST, 0, 0);
    static const int lines[] = {0, 1, 8, 15, 22, 28}; /* of 33 */
    int kills = 0;
    print_message("# kills of seed %ld:", now.tv_nsec);
    for (uint32_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const uint32_t wait = rng_below(rng_draw(stream, i, 0, 0, 0).word[0], 20000);
        kills += WIFSIGNALED(signal_run(output, lines[i], wait, SIGKILL));
        print_message(" at line %d + %u us", lines[i], wait);
    }
    print_message(", %d met a running process\n", kills);
    assert_true(kills >= 2);
    assert_run(run(output, "--resume", "auto", NULL));
    assert_same_file(reference, output, "model.safetensors");
    assert_same_file(reference, output, "metrics.jsonl");
    free(output);
}

static void a_stopped_run_has_saved_and_says_so(void **state) {
    (void)state;
    char *output = strdup(support_path("stopped"));
    const int code = signal_run(output, 4, 0, SIGTERM);
    assert_true(WIFEXITED(code) && WEXITSTATUS(code) == 143);
    assert_run(run(output, "--resume", "auto", NULL));
    assert_same_file(reference, output, "model.safetensors");
    assert_same_file(reference, output, "metrics.jsonl");
    free(output);
}

static void a_model_can_be_trained_further(void **state) {
    (void)state;
    char *output = strdup(support_path("further"));
    const char *words[] = {"--train",          train_path, "--output",    output,
                           "--model",          reference,  "--max-steps", "2",
                           "--max-seq-length", "32",       "--progress",  "never",
                           "--threads",        "1",        NULL};
    assert_run(capture(pretrain_command, "", words));
    assert_same_file(reference, output, "config.json");
    free(output);
}

/* ---- bad input: the command's code and sentence ---- */

static const struct refusal {
    const char *const words[4];
    int code;
    const char *sentence;
} refusals[] = {
    {{"--max-seq-length", "33"},
     2,
     "*--max-seq-length: expected 3 to 32 tokens (max_position_embeddings is 34), found "
     "33*"},
    {{"--packing", "sentences"}, 2, "*--packing: *full-sentences*"},
    {{"--arch", "normfromer"}, 2, "*normformer*"},
    {{"--head-scale", "both"}, 2, "*head_scale*pre_proj*"},
    {{"--num-attention-heads", "5"},
     2,
     "*hidden_size 32 is not a multiple of num_attention_heads 5*"},
    {{"--learning-rat", "1"}, 2, "*did you mean*--learning-rate*"},
    {{"--mask-token-probability", "0.95", "--random-token-probability", "0.1"},
     2,
     "*expected a sum of at most 1*"},
    {{"--tokenizer", "/nowhere"}, 3, "*/nowhere*"},
    {{"--train", "/nowhere.txt"}, 3, "*/nowhere.txt: *No such file*"},
    {{"--model", "/nowhere"}, 3, "*/nowhere*"},
    {{"--config", "/nowhere.conf"}, 3, "*/nowhere.conf*"},
};

static void bad_options_get_their_sentence(void **state) {
    (void)state;
    char *output = strdup(support_path("refused"));
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *r = &refusals[i];
        const char *const *w = r->words;
        struct captured c = run(output, w[0], w[1], w[2], w[3], NULL);
        struct error err = {.status = (enum status)c.code};
        snprintf(err.text, sizeof err.text, "%s", c.err.data);
        support_assert_error(&err, (enum status)r->code, r->sentence);
        captured_free(&c);
        struct error ignored;
        if (file_remove_tree(output, &ignored) != OK)
            continue; /* most are refused before the folder exists */
    }
    free(output);
}

/* Case G03. */
static void a_used_output_folder_is_refused_first(void **state) {
    (void)state;
    struct captured c = run(reference, NULL);
    assert_int_equal(c.code, 2);
    assert_non_null(strstr(c.err.data, "--overwrite"));
    assert_null(strstr(c.err.data, "tokens in"));
    captured_free(&c);
}

static void other_options_do_not_resume(void **state) {
    (void)state;
    struct captured c =
        run(reference, "--resume", "auto", "--learning-rate", "1e-3", NULL);
    assert_int_equal(c.code, 7);
    captured_free(&c);
}

int main(int argc, char **argv) {
    if (strcmp(argv[0], "pretrain") == 0) /* kill_run's child */
        return pretrain_command(argc - 1, argv + 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_learns_and_leaves_a_model),
        cmocka_unit_test(the_same_run_gives_the_same_bytes),
        cmocka_unit_test(another_seed_gives_another_model),
        cmocka_unit_test(accumulation_equals_the_large_batch),
        cmocka_unit_test(max_tokens_changes_no_more_than_rounding),
        cmocka_unit_test(a_killed_run_goes_on_with_the_same_bits),
        cmocka_unit_test(a_stopped_run_has_saved_and_says_so),
        cmocka_unit_test(a_model_can_be_trained_further),
        cmocka_unit_test(bad_options_get_their_sentence),
        cmocka_unit_test(a_used_output_folder_is_refused_first),
        cmocka_unit_test(other_options_do_not_resume),
    };
    return cmocka_run_group_tests(tests, write_text, NULL);
}
