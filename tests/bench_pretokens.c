/* bench_pretokens - the worst that one pre-token can cost.
 *
 * First the rows of pathological.jsonl (200,000 bytes without a place to split, most of
 * them): the goal is below 50 ms each. Then pre-tokens of 10 KB to 10 MB of several
 * kinds: nanoseconds a byte at each size, and the exponent e of time ~ bytes^e fitted to
 * them; n log n has 1.08 between these sizes, n^2 has 2. Best of three, one thread,
 * without a cache. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/tokenizer_data.h"
#include "tokenizer/tokenizer.h"

enum { ROUNDS = 3, SIZES = 4, LARGEST = 10000000 };

static struct error err;

static void must(enum status status) {
    if (status != OK) {
        fprintf(stderr, "bench_pretokens: %s\n", err.text);
        exit(status);
    }
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double encode(const struct tokenizer *t, const char *text, size_t length) {
    double least = 1e9;
    int rounds = length > LARGEST / 2 ? 1 : ROUNDS;
    for (int i = 0; i < rounds; i++) {
        struct ids ids = {0};
        double start = seconds();
        must(tokenizer_encode(t, NULL, text, length, &ids, &err));
        double time = seconds() - start;
        least = time < least ? time : least;
        ids_free(&ids);
    }
    return least;
}

struct worst {
    const struct tokenizer *t;
    double time;
    char name[64];
};

static void pathological_row(void *self, const json_t *row) {
    struct worst *worst = self;
    struct buffer text = {0};
    const char *unit, *suffix;
    int repeat;
    json_t *json = json_deep_copy(row);
    json_unpack(json, "{s:s, s:i, s:s}", "unit", &unit, "repeat", &repeat, "suffix",
                &suffix);
    for (int i = 0; i < repeat; i++)
        must(buffer_add(&text, unit, strlen(unit), &err));
    must(buffer_add(&text, suffix, strlen(suffix), &err));
    double time = encode(worst->t, text.data, text.length);
    if (time > worst->time) {
        worst->time = time;
        snprintf(worst->name, sizeof worst->name, "%d times '%s'", repeat, unit);
    }
    buffer_free(&text);
    json_decref(json);
}

/* Kinds of pre-token: characters chosen at random from a string of them. */
static const struct kind {
    const char *name, *characters;
    size_t bytes; /* of a character */
} kinds[] = {
    {"one letter", "a", 1},
    {"random letters", "etaoinshrdlucmfwypvbgkjqxz", 1},
    {"two letters", "ab", 1},
    {"spaces", " ", 1},
    {"one digit", "0", 1},
    {"random digits", "0123456789", 1},
    {"=", "=", 1},
    {"random marks", "!?.,;:-_=+*/\\\"#$%&()[]{}<>|~^`@", 1},
    {"CJK", "的一是不了人我在有他这中大来上国个到说们", 3},
    {"one emoji", "\xF0\x9F\x98\x80", 4},
    {"random emoji", "😀😂😍😭😘😊😁🙏🔥🎉", 4},
    {"Cyrillic", "оеаинтсрвлкмдпуяыьгз", 2},
};

static size_t fill(char *text, size_t size, const struct kind *kind) {
    size_t count = strlen(kind->characters) / kind->bytes, length = 0;
    unsigned seed = 1;
    while (length + kind->bytes <= size) {
        seed = seed * 1103515245u + 12345;
        size_t which = (seed >> 16) % count;
        memcpy(text + length, kind->characters + which * kind->bytes, kind->bytes);
        length += kind->bytes;
    }
    return length;
}

/* The slope of a line through the logarithms. */
static double exponent(const double *bytes, const double *times) {
    double x = 0, y = 0, xx = 0, xy = 0;
    for (int i = 0; i < SIZES; i++) {
        x += log(bytes[i]);
        y += log(times[i]);
        xx += log(bytes[i]) * log(bytes[i]);
        xy += log(bytes[i]) * log(times[i]);
    }
    return (SIZES * xy - x * y) / (SIZES * xx - x * x);
}

static void measure(const struct tokenizer *t, const struct kind *kind, char *text) {
    double bytes[SIZES], times[SIZES], size = LARGEST / 1000.0;
    printf("%-18s", kind->name);
    for (int i = 0; i < SIZES; i++, size *= 10) {
        size_t length = fill(text, (size_t)size, kind);
        bytes[i] = (double)length;
        times[i] = encode(t, text, length);
        printf(" %8.1f", 1e9 * times[i] / bytes[i]);
    }
    printf(" %9.2f\n", exponent(bytes, times));
    fflush(stdout);
}

int main(void) {
    struct tokenizer *t;
    char *text = malloc(LARGEST);
    must(tokenizer_load_files(&t, tokenizer_data_file("gpt2-vocab.json"),
                              tokenizer_data_file("merges.txt"), &err));
    struct worst worst = {.t = t};
    int rows = tokenizer_data_rows("pathological", pathological_row, &worst);
    printf("worst of %d rows of pathological.jsonl: %.1f ms (%s), goal below 50 ms: %s\n",
           rows, 1e3 * worst.time, worst.name, worst.time < 0.05 ? "reached" : "MISSED");
    printf("%-18s %8s %8s %8s %8s %9s\n", "ns a byte", "10 KB", "100 KB", "1 MB", "10 MB",
           "exponent");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && text; i++)
        measure(t, &kinds[i], text);
    tokenizer_free(t);
    free(text);
    return 0;
}
