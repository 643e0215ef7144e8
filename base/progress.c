/* progress - a bar with rate and time left on a terminal, plain lines otherwise.
 *
 * Everything that is drawn is computed from two moments and two counts: the rate is that
 * of all of this run, so that the time left does not jump with every pause. A line
 * replaces the bar where stderr is no terminal: logs get one line in ten seconds. */
#include "base/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/terminal.h"

/* Seconds between two drawings of the bar, between two plain lines. */
static const double BAR_PERIOD = 0.1, LINE_PERIOD = 10;

struct progress {
    bool is_bar, is_shown;
    char label[64], unit[32];
    uint64_t total, first; /* `first`: done at the first update, so that the rate of a
                              resumed run is that of this run */
    bool started;
    double begin, last; /* seconds */
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum progress_mode progress_mode_named(const char *word) {
    if (strcmp(word, "always") == 0)
        return PROGRESS_ALWAYS;
    return strcmp(word, "never") == 0 ? PROGRESS_NEVER : PROGRESS_AUTO;
}

struct progress *progress_open(enum progress_mode mode, const char *label,
                               const char *unit, uint64_t total) {
    if (mode == PROGRESS_NEVER)
        return NULL;
    struct progress *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->is_bar = mode == PROGRESS_ALWAYS || terminal_is_smart(STDERR_FILENO);
    p->total = total;
    snprintf(p->label, sizeof p->label, "%s", label);
    snprintf(p->unit, sizeof p->unit, "%s", unit);
    p->begin = p->last = now();
    return p;
}

/* 1234567 -> "1.23M". */
static const char *short_number(char text[16], double value) {
    static const char suffixes[] = " kMGTPE";
    int power = 0;
    for (; value >= 999.5 && power < 6; power++)
        value /= 1000;
    if (power == 0)
        snprintf(text, 16, value < 9.95 && value > 0 ? "%.1f" : "%.0f", value);
    else
        snprintf(text, 16, "%.3g%c", value, suffixes[power]);
    return text;
}

/* 3725 -> "1:02:05". */
static const char *clock_time(char text[16], double seconds) {
    if (seconds > 359999)
        seconds = 359999; /* "99:59:59" stands for longer */
    const int s = (int)seconds;
    if (s >= 3600)
        snprintf(text, 16, "%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, 16, "%d:%02d", s / 60, s % 60);
    return text;
}

/* " 42% [#####.......]"; nothing when the total is unknown. */
static void draw_share(const struct progress *p, uint64_t done, char text[64]) {
    enum { CELLS = 12 };
    text[0] = '\0';
    if (!p->total)
        return;
    const double share = done >= p->total ? 1 : (double)done / (double)p->total;
    char bar[CELLS + 1];
    for (int i = 0; i < CELLS; i++)
        bar[i] = (i + 0.5) / CELLS < share ? '#' : '.';
    bar[CELLS] = '\0';
    if (p->is_bar)
        snprintf(text, 64, " %3.0f%% [%s]", 100 * share, bar);
    else
        snprintf(text, 64, " %3.0f%%", 100 * share);
}

/* "pretrain:  42% [#####.......] 1.2k/3k steps, 310/s, 0:05 left, loss 5.871" */
static void draw(const struct progress *p, uint64_t done, const char *detail, double time,
                 char *text, size_t size) {
    char share[64], a[16], b[16], rate_text[16], left[40] = "", of[24] = "", clock[16];
    const double seconds = time - p->begin;
    const double rate = seconds > 0 ? (double)(done - p->first) / seconds : 0;
    draw_share(p, done, share);
    if (p->total)
        snprintf(of, sizeof of, "/%s", short_number(b, (double)p->total));
    if (p->total > done && rate > 0)
        snprintf(left, sizeof left, ", %s left",
                 clock_time(clock, (double)(p->total - done) / rate));
    else
        snprintf(left, sizeof left, ", %s", clock_time(clock, seconds));
    snprintf(text, size, "%s:%s %s%s %s, %s/s%s%s%s", p->label, share,
             short_number(a, (double)done), of, p->unit, short_number(rate_text, rate),
             left, detail ? ", " : "", detail ? detail : "");
}

void progress_update(struct progress *p, uint64_t done, const char *detail) {
    if (!p)
        return;
    const double time = now();
    if (!p->started) {
        p->started = true;
        p->first = done;
        p->begin = time;
    }
    const bool is_last = p->total && done >= p->total;
    const double period = p->is_bar ? BAR_PERIOD : LINE_PERIOD;
    if (time - p->last < period && !is_last)
        return;
    p->last = time;
    char text[256];
    draw(p, done, detail, time, text, sizeof text);
    if (p->is_bar)
        fprintf(stderr, "\r%.*s\033[K", terminal_columns(STDERR_FILENO, 80) - 1, text);
    else
        fprintf(stderr, "%s\n", text);
    p->is_shown = p->is_bar;
    fflush(stderr);
}

void progress_hide(struct progress *p) {
    if (!p || !p->is_shown)
        return;
    fputs(TERMINAL_WIPE, stderr);
    fflush(stderr);
    p->is_shown = false;
}

void progress_close(struct progress *p) {
    if (p && p->is_shown)
        fputc('\n', stderr);
    free(p);
}
