/* test_crash - a training killed, or failing, at every system call that touches a file.
 *
 * The calls are counted by taking the place of libc's: the program's own symbols come
 * first. After every end the run is resumed and must leave the bytes of a run that was
 * never interrupted. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "tests/fake_job.h"
#include "tests/support.h"

enum fault { FAULT_NONE, FAULT_KILL, FAULT_ONCE, FAULT_FOREVER };

static enum fault armed;
static long calls, fault_call;
static int fault_errno;

/* Counts a call; true when it is to fail with errno set. May not return. */
static bool fails(void) {
    if (!armed)
        return false;
    calls++;
    if (armed == FAULT_KILL && calls == fault_call)
        raise(SIGKILL);
    errno = fault_errno;
    return (armed == FAULT_ONCE && calls == fault_call) ||
           (armed == FAULT_FOREVER && calls >= fault_call);
}

/* Half of the bytes arrive before a kill or a full disk. */
ssize_t write(int file, const void *bytes, size_t length) {
    bool last = armed && calls + 1 == fault_call && armed != FAULT_NONE;
    if (last && length > 1)
        syscall(SYS_write, file, bytes, length / 2);
    return fails() ? -1 : (ssize_t)syscall(SYS_write, file, bytes, length);
}
int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    int mode = flags & O_CREAT ? va_arg(arguments, int) : 0;
    va_end(arguments);
    bool writes = (flags & O_ACCMODE) != O_RDONLY;
    return writes && fails() ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
/* A kill does not lose what the system holds, so that waiting for the disk tells nothing.
 */
int fsync(int file) {
    (void)file;
    return fails() ? -1 : 0;
}
int rename(const char *from, const char *to) {
    return fails() ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}
int mkdir(const char *path, mode_t mode) {
    return fails() ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}
int unlinkat(int folder, const char *path, int flags) {
    return fails() ? -1 : (int)syscall(SYS_unlinkat, folder, path, flags);
}
int ftruncate(int file, off_t length) {
    return fails() ? -1 : (int)syscall(SYS_ftruncate, file, length);
}

/* Only a hint: a full disk is the one failure that it has to report. */
int fallocate(int file, int mode, off_t offset, off_t length) {
    return fault_errno == ENOSPC && fails()
               ? -1
               : (int)syscall(SYS_fallocate, file, mode, offset, length);
}

static struct error err;

/* support_path() forgets after 8 calls. */
static const char *folder(const char *name) {
    static char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s", support_path(name));
    return path;
}

static int run(const char *output) {
    struct fake_job f;
    fake_job_open(&f, output);
    f.options.max_steps = f.options.schedule.max_steps = 20;
    f.options.resume = "auto";
    f.options.keep_best = true;
    calls = 0;
    enum status status = fake_job_run(&f, &err);
    armed = FAULT_NONE;
    fake_job_close(&f);
    return status;
}

/* Runs in a child; the exit code, or 128 + the signal. Code 99: it ended before the call.
 */
static int child(const char *output, enum fault fault, long call, useconds_t delay) {
    pid_t pid = fork();
    if (pid == 0) {
        armed = fault;
        fault_call = call;
        int code = run(output);
        _exit(fault != FAULT_NONE && calls < fault_call ? 99 : code);
    }
    if (delay) {
        usleep(delay);
        kill(pid, SIGKILL);
    }
    int ended;
    waitpid(pid, &ended, 0);
    return WIFSIGNALED(ended) ? 128 + WTERMSIG(ended) : WEXITSTATUS(ended);
}

static const char *const compared[] = {
    "model.safetensors",
    "config.json",
    "trainer_state.json",
    "metrics.jsonl",
    "checkpoint-20/model.safetensors",
    "checkpoint-20/optimizer.safetensors",
    "checkpoint-20/trainer_state.json",
};
enum { NUM_COMPARED = sizeof compared / sizeof *compared };
static struct buffer expected[NUM_COMPARED];
static useconds_t duration; /* of an uninterrupted run */

static struct buffer read_in(const char *output, const char *name) {
    char path[PATH_BYTES];
    SUPPORT_OK(file_join(path, output, name, &err), err);
    return support_read(path);
}

static int make_reference(void **state) {
    (void)state;
    const char *output = folder("reference");
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    assert_int_equal(child(output, FAULT_NONE, 0, 0), 0);
    clock_gettime(CLOCK_MONOTONIC, &end);
    duration = (useconds_t)((end.tv_sec - begin.tv_sec) * 1000000 +
                            (end.tv_nsec - begin.tv_nsec) / 1000);
    for (int i = 0; i < NUM_COMPARED; i++)
        expected[i] = read_in(output, compared[i]);
    return 0;
}

static int free_reference(void **state) {
    (void)state;
    for (int i = 0; i < NUM_COMPARED; i++)
        buffer_free(&expected[i]);
    return 0;
}

/* Ends the run and compares every byte; no temporary folder may stay. */
static void assert_recovers(const char *output, long call) {
    int code = child(output, FAULT_NONE, 0, 0);
    if (code)
        fail_msg("call %ld: not resumed, exit code %d", call, code);
    for (int i = 0; i < NUM_COMPARED; i++) {
        struct buffer found = read_in(output, compared[i]);
        if (found.length != expected[i].length ||
            memcmp(found.data, expected[i].data, found.length))
            fail_msg("call %ld: %s differs", call, compared[i]);
        buffer_free(&found);
    }
    char command[PATH_BYTES + 64];
    snprintf(command, sizeof command, "test -z \"$(ls -A '%s' | grep '^\\.')\"", output);
    if (support_run(command, NULL, NULL))
        fail_msg("call %ld: temporary files stay in %s", call, output);
    SUPPORT_OK(file_remove_tree(output, &err), err);
}

static void a_kill_at_any_call_of_a_file_is_survived(void **state) {
    (void)state;
    const char *output = folder("killed");
    long call = 1;
    for (int code; (code = child(output, FAULT_KILL, call, 0)) != 99; call++) {
        assert_int_equal(code, 128 + SIGKILL);
        assert_recovers(output, call);
    }
    print_message("killed at each of %ld calls\n", call - 1);
    assert_true(call > 100);
    SUPPORT_OK(file_remove_tree(output, &err), err);
}

static void kills_at_random_moments_are_survived(void **state) {
    (void)state;
    const char *output = folder("random");
    struct rng stream = rng_stream(1, RNG_TEST, 0, 0);
    int killed = 0;
    for (uint32_t i = 0; i < 24; i++) {
        struct rng_block draw = rng_draw(stream, i, 0, 0, 0);
        for (int again = 0; again < 2; again++) {
            useconds_t delay = 1 + rng_below(draw.word[again], duration);
            killed += child(output, FAULT_NONE, 0, delay) == 128 + SIGKILL;
        }
        assert_recovers(output, i);
    }
    print_message("%d of 48 were killed before their end\n", killed);
    assert_true(killed > 0);
}

/* Whatever fails, the exit code says so and the next run goes on from what was saved. */
static void an_error_at_any_call_of_a_file_is_reported_and_survived(void **state) {
    (void)state;
    static const int errors[] = {ENOSPC, EIO};
    const char *output = folder("failing");
    for (int which = 0; which < 2; which++) {
        enum fault fault = which ? FAULT_ONCE : FAULT_FOREVER;
        fault_errno = errors[which];
        long call = 1;
        for (int code; (code = child(output, fault, call, 0)) != 99; call++) {
            if (code != ERR_IO)
                fail_msg("call %ld, %s: exit code %d", call, strerror(fault_errno), code);
            assert_recovers(output, call);
        }
        print_message("%s at each of %ld calls\n", strerror(errors[which]), call - 1);
        SUPPORT_OK(file_remove_tree(output, &err), err);
    }
}

/* The system's own refusal: no file of this process may grow beyond 1500 bytes. */
static void a_real_limit_of_the_file_size_is_an_error(void **state) {
    (void)state;
    const char *output = folder("limited");
    pid_t pid = fork();
    if (pid == 0) {
        const struct rlimit limit = {1500, 1500};
        signal(SIGXFSZ, SIG_IGN);
        _exit(setrlimit(RLIMIT_FSIZE, &limit) == 0 ? run(output) : 1);
    }
    int ended;
    waitpid(pid, &ended, 0);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), ERR_IO);
    assert_recovers(output, 0);
}

static void the_sentence_names_file_and_reason(void **state) {
    (void)state;
    const char *output = folder("full");
    fault_errno = ENOSPC;
    fault_call = 30;
    armed = FAULT_FOREVER;
    assert_int_equal(run(output), ERR_IO);
    support_assert_error(&err, ERR_IO, "*full/*: No space left on device");
    SUPPORT_OK(file_remove_tree(output, &err), err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_at_any_call_of_a_file_is_survived),
        cmocka_unit_test(kills_at_random_moments_are_survived),
        cmocka_unit_test(an_error_at_any_call_of_a_file_is_reported_and_survived),
        cmocka_unit_test(a_real_limit_of_the_file_size_is_an_error),
        cmocka_unit_test(the_sentence_names_file_and_reason),
    };
    if (access("/dev/shm", W_OK) == 0) /* renames wait for a disk, not for memory */
        setenv("TMPDIR", "/dev/shm", 0);
    return cmocka_run_group_tests(tests, make_reference, free_reference);
}
