/* test_progress - what progress and notices write to a terminal (a pseudo-terminal here)
 * and to anything else. */
#include "base/progress.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/notice.h"
#include "base/terminal.h"
#include "tests/support.h"

struct capture {
    int saved, other; /* stderr as it was; the end that reads what was written */
};

static void redirect(struct capture *c, int to) {
    fflush(stderr);
    c->saved = dup(STDERR_FILENO);
    dup2(to, STDERR_FILENO);
    close(to);
}

static void to_file(struct capture *c) {
    const int file = open(support_path("stderr"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0);
    c->other = dup(file);
    redirect(c, file);
}

static void to_terminal(struct capture *c) {
    c->other = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(c->other >= 0 && grantpt(c->other) == 0 && unlockpt(c->other) == 0);
    const int terminal = open(ptsname(c->other), O_RDWR | O_NOCTTY);
    struct termios mode;
    assert_int_equal(tcgetattr(terminal, &mode), 0);
    mode.c_oflag &= ~(tcflag_t)OPOST; /* "\n" stays "\n" */
    tcsetattr(terminal, TCSANOW, &mode);
    fcntl(c->other, F_SETFL, O_NONBLOCK);
    redirect(c, terminal);
}

/* Gives stderr back; what was written to it, NUL-terminated. A pseudo-terminal hands its
 * bytes on in a kernel thread: one read() may get a part, so the writing end is closed
 * and then read until nothing comes. */
static const char *finish(struct capture *c, char text[4096]) {
    size_t length = 0;
    ssize_t n;
    fflush(stderr);
    dup2(c->saved, STDERR_FILENO);
    close(c->saved);
    lseek(c->other, 0, SEEK_SET);
    while ((n = read(c->other, text + length, 4095 - length)) > 0)
        length += (size_t)n;
    text[length] = '\0';
    close(c->other);
    return text;
}

static void wait_a_redraw(void) {
    nanosleep(&(struct timespec){.tv_nsec = 120000000}, NULL);
}

static void run(enum progress_mode mode) {
    struct progress *p = progress_open(mode, "pretrain", "steps", 3000);
    progress_update(p, 0, NULL);
    wait_a_redraw();
    progress_update(p, 1500, "loss 5.871");
    progress_update(p, 1501, "loss 5.870"); /* too soon to be drawn */
    progress_update(p, 3000, "loss 4.200");
    progress_close(p);
}

static void a_file_gets_plain_lines_only(void **state) {
    (void)state;
    struct capture c;
    char text[4096];
    to_file(&c);
    run(PROGRESS_AUTO);
    finish(&c, text);
    assert_null(strchr(text, '\r'));
    assert_null(strchr(text, '\033'));
    assert_non_null(strstr(text, "pretrain: 100% 3k/3k steps, "));
    assert_non_null(strstr(text, ", loss 4.200\n"));
    assert_null(strstr(text, "5.871")); /* one line in ten seconds */
}

static void a_terminal_gets_a_bar(void **state) {
    (void)state;
    struct capture c;
    char text[4096];
    setenv("TERM", "xterm", 1);
    unsetenv("COLUMNS");
    to_terminal(&c);
    run(PROGRESS_AUTO);
    finish(&c, text);
    assert_non_null(strstr(text, "\rpretrain:  50% [######......] 1.5k/3k steps, "));
    assert_non_null(strstr(text, " left, loss"));
    assert_null(strstr(text, "5.870"));
    assert_non_null(strstr(text, "[############] 3k/3k steps"));
    assert_int_equal(text[strlen(text) - 1], '\n');
}

static void a_dumb_terminal_gets_plain_lines(void **state) {
    (void)state;
    struct capture c;
    char text[4096];
    setenv("TERM", "dumb", 1);
    to_terminal(&c);
    run(PROGRESS_AUTO);
    finish(&c, text);
    setenv("TERM", "xterm", 1);
    assert_null(strchr(text, '\r'));
    assert_non_null(strstr(text, "3k/3k steps"));
}

static void never_is_never_and_always_is_always(void **state) {
    (void)state;
    struct capture c;
    char text[4096];
    to_file(&c);
    run(PROGRESS_NEVER);
    assert_string_equal(finish(&c, text), "");
    to_file(&c);
    run(PROGRESS_ALWAYS);
    assert_non_null(strchr(finish(&c, text), '\r'));
    assert_int_equal(progress_mode_named("never"), PROGRESS_NEVER);
    assert_int_equal(progress_mode_named("always"), PROGRESS_ALWAYS);
    assert_int_equal(progress_mode_named("auto"), PROGRESS_AUTO);
}

static void a_bar_is_no_wider_than_the_terminal(void **state) {
    (void)state;
    struct capture c;
    char text[4096];
    setenv("COLUMNS", "30", 1);
    to_terminal(&c);
    run(PROGRESS_ALWAYS);
    finish(&c, text);
    unsetenv("COLUMNS");
    const char *bar = strchr(text, '\r');
    assert_non_null(bar);
    assert_int_equal(strcspn(bar + 1, "\033"), 29);
}

static void an_unknown_total_shows_no_share(void **state) {
    (void)state;
    struct capture c;
    char text[4096];
    to_file(&c);
    struct progress *p = progress_open(PROGRESS_ALWAYS, "reading", "bytes", 0);
    progress_update(p, 0, NULL);
    wait_a_redraw();
    progress_update(p, 123456, NULL);
    progress_hide(p);
    progress_close(p);
    finish(&c, text);
    assert_non_null(strstr(text, "\rreading: 123k bytes, "));
    assert_null(strchr(text, '%'));
    assert_string_equal(text + strlen(text) - 4, "\r\033[K"); /* hidden: no newline */
}

static void a_notice_is_a_line_above_the_bar(void **state) {
    (void)state;
    struct capture c;
    char text[4096];
    to_file(&c);
    notice(&notices_stderr, "model %s has %d layers", "x", 12);
    notice(NULL, "nobody");
    notice(&(struct notices){0}, "nobody");
    assert_string_equal(finish(&c, text), "model x has 12 layers\n");
    to_terminal(&c);
    notice(&notices_stderr, "saved");
    assert_string_equal(finish(&c, text), "\r\033[Ksaved\n");
}

static void columns_come_from_the_environment_first(void **state) {
    (void)state;
    setenv("COLUMNS", "123", 1);
    assert_int_equal(terminal_columns(STDERR_FILENO, 70), 123);
    static const char *const bad[] = {"", "0", "-5", "wide", "99999999999999999999"};
    const int file = open("/dev/null", O_RDONLY);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("COLUMNS", bad[i], 1);
        assert_int_equal(terminal_columns(file, 70), 70);
    }
    assert_false(terminal_is_smart(file));
    close(file);
    unsetenv("COLUMNS");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_gets_plain_lines_only),
        cmocka_unit_test(a_terminal_gets_a_bar),
        cmocka_unit_test(a_dumb_terminal_gets_plain_lines),
        cmocka_unit_test(never_is_never_and_always_is_always),
        cmocka_unit_test(a_bar_is_no_wider_than_the_terminal),
        cmocka_unit_test(an_unknown_total_shows_no_share),
        cmocka_unit_test(a_notice_is_a_line_above_the_bar),
        cmocka_unit_test(columns_come_from_the_environment_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
