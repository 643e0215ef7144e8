/* bench_tokenizer - speed of the tokenizer.
 *
 * usage: bench_tokenizer [--only NAME]... [VOCAB.json MERGES.txt TEXT...]
 *
 * The best of the rounds of each kind of work over the first 5 MB of each text, in
 * processor time on one processor or, where two threads work, in time on the clock; MB
 * are 10^6 bytes. A line a row: name, figure, unit, text, with tabs between. --only takes
 * rows whose names contain NAME. Without a text GPT-2's vocabulary and training corpora
 * of the tests, which are small and no natural language: for figures to quote give texts
 * of 5 MB and more. bench_tokenizer.py runs this beside other tokenizers.
 * "cold" is a new cache, which holds the vocabulary only, and the first of its kind;
 * "warm" the best of passes enough that nothing in the text is new to the caches of the
 * processor either. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <unistd.h>

#include "base/file.h"
#include "pretrain/corpus.h"
#include "tests/tokenizer_data.h"
#include "tokenizer/encoding.h"
#include "tokenizer/parts.h"
#include "tokenizer/split.h"

enum { ROUNDS = 3, WARM = 12, BYTES = 5000000, THREADS = 2, REPEATS = 8, FILES = 40 };

static struct error err;

static void must(enum status status) {
    if (status != OK) {
        fprintf(stderr, "bench_tokenizer: %s\n", err.text);
        exit(status);
    }
}

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { MOST_ONLY = 16 };

struct bench {
    const char *only[MOST_ONLY]; /* names of rows wanted, or parts of them */
    int only_count;
    const char *vocab, *merges;
    struct tokenizer *t, *pretraining;
    struct tokenizer_cache *cache;
    struct buffer text, decoded;
    struct ids ids;
    struct part { /* of the text, a thread's */
        const char *text;
        size_t length;
        struct tokenizer_cache *cache;
        struct ids ids;
    } parts[THREADS];
};

static const char memory[] = "tokenizer and cache"; /* a row that is no work */

static bool is_wanted(const struct bench *b, const char *row) {
    bool wanted = b->only_count == 0;
    for (int i = 0; i < b->only_count; i++)
        wanted |= strstr(row, b->only[i]) != NULL;
    return wanted;
}

static void load(struct bench *b) {
    tokenizer_free(b->t);
    must(tokenizer_load_files(&b->t, b->vocab, b->merges, &err));
    tokenizer_set_invalid_utf8(b->t, INVALID_UTF8_BYTES);
}

/* A directory with both files and a folder of images beside it, the first left there. */
static void write_image(struct bench *b) {
    static const char *const names[] = {"vocab.json", "merges.txt"};
    const char *const from[] = {b->vocab, b->merges};
    struct tokenizer *t;
    for (int i = 0; i < 2; i++) {
        struct buffer bytes = support_read(from[i]);
        must(file_write(support_path(names[i]), bytes.data, bytes.length, &err));
        buffer_free(&bytes);
    }
    setenv("NORMGLUE_CACHE", support_path("images"), 1);
    must(tokenizer_load(&t, support_folder(), NULL, &err));
    tokenizer_free(t);
}

static void load_image(struct bench *b) {
    (void)b;
    struct tokenizer *t;
    must(tokenizer_load(&t, support_folder(), NULL, &err));
    tokenizer_free(t);
}

static void new_cache(struct bench *b) {
    tokenizer_cache_free(b->cache);
    b->cache = tokenizer_cache_new(b->t);
    ids_free(&b->ids);
}

static void no_preparation(struct bench *b) { b->ids.count = 0; }

static void split(struct bench *b) {
    const unsigned char *text = (const unsigned char *)b->text.data;
    size_t ends[256];
    for (size_t at = 0; at < b->text.length;)
        at = ends[split_spans(text, at, b->text.length, ends, 256) - 1];
}

static void encode(struct bench *b) {
    must(tokenizer_encode(b->t, b->cache, b->text.data, b->text.length, &b->ids, &err));
}

static void encode_checked(struct bench *b) {
    tokenizer_set_invalid_utf8(b->t, INVALID_UTF8_ERROR);
    encode(b);
    tokenizer_set_invalid_utf8(b->t, INVALID_UTF8_BYTES);
}

/* In documents of 10 kB, as a data loader would. */
static void encode_fully(struct bench *b) {
    enum { DOCUMENT = 10000 };
    struct encoding e = {0};
    struct encoding_options options = {0};
    for (size_t at = 0; at < b->text.length; at += DOCUMENT) {
        size_t rest = b->text.length - at;
        must(encoding_encode(b->t, b->cache, b->text.data + at,
                             rest < DOCUMENT ? rest : DOCUMENT, NULL, 0, &options, &e,
                             &err));
    }
    encoding_free(&e);
}

static void decode(struct bench *b) {
    buffer_clear(&b->decoded);
    must(tokenizer_decode(b->t, b->ids.items, b->ids.count, false, &b->decoded, &err));
}

/* What to decode; encoded once. */
static void full_ids(struct bench *b) {
    if (!b->ids.count)
        encode(b);
}

/* REPEATS times, for threads start once: each has its part of the text and a cache that
 * knows it. */
static void encode_part(struct bench *b, struct part *p) {
    struct error own;
    enum status status = OK;
    for (int i = 0; i < REPEATS && status == OK; i++) {
        p->ids.count = 0;
        status = tokenizer_encode(b->t, p->cache, p->text, p->length, &p->ids, &own);
    }
    if (status != OK)
        p->ids.count = 0;
}

static void cut_parts(struct bench *b) {
    size_t half = b->text.length / THREADS;
    const char *space = memchr(b->text.data + half, ' ', b->text.length - half);
    half = space ? (size_t)(space - b->text.data) : half;
    b->parts[0].text = b->text.data;
    b->parts[0].length = half;
    b->parts[1].text = b->text.data + half;
    b->parts[1].length = b->text.length - half;
    for (int i = 0; i < THREADS; i++) {
        if (!b->parts[i].cache)
            b->parts[i].cache = tokenizer_cache_new(b->t);
        encode_part(b, &b->parts[i]);
    }
}

static void encode_parts(struct bench *b) {
    for (int i = 0; i < THREADS; i++)
        encode_part(b, &b->parts[i]);
}

static void encode_parts_at_once(struct bench *b) {
#pragma omp parallel for num_threads(THREADS) schedule(static, 1)
    for (int i = 0; i < THREADS; i++)
        encode_part(b, &b->parts[i]);
}

/* Pretraining needs the token that ends lines, which GPT-2's vocabulary has not. */
static struct tokenizer *pretraining_tokenizer(const struct bench *b) {
    struct added_token end = {.content = "</s>", .length = 4, .special = true};
    struct tokenizer *t;
    must(tokenizer_load_files(&t, b->vocab, b->merges, &err));
    must(tokenizer_add_tokens(t, &end, 1, &err));
    tokenizer_name_specials(t);
    return t;
}

/* Files of as much text as the other rows take. */
static void load_pretraining(struct bench *b) {
    must(file_write(support_path("text"), b->text.data, b->text.length, &err));
    if (!b->pretraining)
        b->pretraining = pretraining_tokenizer(b);
}

/* What pretraining does before its first step, with a corpus of so many files of text. */
static void make_shards(struct bench *b) {
    const char *folder = support_new_path(), *text, *files[FILES];
    struct corpus corpus;
    text = support_path("text");
    for (int i = 0; i < FILES; i++)
        files[i] = text;
    must(file_make_directory(folder, &err));
    struct corpus_source source = {.name = "bench",
                                   .directory = folder,
                                   .files = files,
                                   .num_files = FILES,
                                   .threads = THREADS,
                                   .progress = PROGRESS_NEVER};
    must(corpus_prepare(&corpus, &source, b->pretraining, NULL, &err));
    corpus_close(&corpus);
    must(file_remove_tree(folder, &err));
}

/* What is measured, in this order. The memory and loading come without a text. */
static const struct row {
    const char *name;
    void (*prepare)(struct bench *);
    void (*work)(struct bench *);
    int rounds;
    int threads;
    int repeats; /* of the text in one piece of work; 0: no text, milliseconds */
} rows[] = {
    {"load", no_preparation, load, ROUNDS, 1, 0},
    {"image", write_image, load_image, ROUNDS, 1, 0},
    {"encode, cold", new_cache, encode, 1, 1, 1},
    {"encode, warm", no_preparation, encode, WARM, 1, 1},
    {"encode, warm, checked UTF-8", no_preparation, encode_checked, WARM, 1, 1},
    {"split", no_preparation, split, ROUNDS, 1, 1},
    {"full encoding", no_preparation, encode_fully, ROUNDS, 1, 1},
    {"decode", full_ids, decode, WARM, 1, 1},
    {"encode, 1 thread", cut_parts, encode_parts, WARM, THREADS, REPEATS},
    {"encode, 2 threads", cut_parts, encode_parts_at_once, WARM, THREADS, REPEATS},
    {"shards, 2 threads", load_pretraining, make_shards, ROUNDS, THREADS, FILES},
};
enum { ROWS = sizeof rows / sizeof *rows };

static void read_text(struct bench *b, const char *path) {
    struct reader *reader;
    size_t got = 1;
    b->ids.count = 0;
    buffer_clear(&b->text);
    must(buffer_reserve(&b->text, BYTES, &err));
    must(reader_open(&reader, path, &err));
    while (got && b->text.length < BYTES) {
        must(reader_read(reader, b->text.data + b->text.length, BYTES - b->text.length,
                         &got, &err));
        b->text.length += got;
    }
    reader_close(reader);
}

/* Work of one thread stays on one processor, so that no move disturbs it. */
static void use_processors(int threads) {
    static cpu_set_t all;
    cpu_set_t one;
    if (CPU_COUNT(&all) == 0)
        sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && CPU_COUNT(&one) == 0; cpu--)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof all, threads == 1 ? &one : &all);
}

static double best(struct bench *b, const struct row *row) {
    double least = 1e9;
    clockid_t clock = row->threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    use_processors(row->threads);
    for (int i = 0; i < row->rounds; i++) {
        row->prepare(b);
        double start = seconds(clock);
        row->work(b);
        double time = seconds(clock) - start;
        least = time < least ? time : least;
    }
    return least;
}

/* Rows that need a text, or those that need none. */
static void measure(struct bench *b, const char *path) {
    if (*path)
        read_text(b, path);
    for (int i = 0; i < ROWS; i++) {
        if (!is_wanted(b, rows[i].name) || (rows[i].repeats == 0) != (*path == 0))
            continue;
        double time = best(b, &rows[i]);
        double bytes = (double)b->text.length * rows[i].repeats;
        printf("%s\t%.1f\t%s\t%s\n", rows[i].name,
               *path ? bytes / time / 1e6 : 1e3 * time, *path ? "MB/s" : "ms", path);
        fflush(stdout);
    }
}

/* Of this process that lies in memory, in MB. */
static double resident(void) {
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%*s %ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

static void close_bench(struct bench *b) {
    for (int i = 0; i < THREADS; i++) {
        tokenizer_cache_free(b->parts[i].cache);
        ids_free(&b->parts[i].ids);
    }
    tokenizer_cache_free(b->cache);
    tokenizer_free(b->t);
    tokenizer_free(b->pretraining);
    buffer_free(&b->text);
    buffer_free(&b->decoded);
    ids_free(&b->ids);
}

static void print_memory(struct bench *b) {
    double before = resident();
    load(b);
    new_cache(b);
    if (is_wanted(b, memory))
        printf("%s\t%.1f\tMB\t\n", memory, resident() - before);
}

/* Takes the options off the arguments. */
static int parse(struct bench *b, int argc, char **argv) {
    int kept = 1;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--only") == 0 && i + 1 < argc && b->only_count < MOST_ONLY)
            b->only[b->only_count++] = argv[++i];
        else
            argv[kept++] = argv[i];
    return kept;
}

int main(int argc, char **argv) {
    static const char *const corpora[] = {TOKENIZER_DATA "train/corpus_syn1m.txt.gz",
                                          TOKENIZER_DATA "train/corpus_unicode.txt.gz"};
    static struct bench b;
    argc = parse(&b, argc, argv);
    bool given = argc > 3;
    b.vocab = given ? argv[1] : tokenizer_data_file("gpt2-vocab.json");
    b.merges = given ? argv[2] : tokenizer_data_file("merges.txt");
    print_memory(&b);
    for (int i = 0; i < (given ? argc - 3 : 2); i++)
        measure(&b, given ? argv[3 + i] : corpora[i]);
    measure(&b, ""); /* last, for "cold" means that all is new */
    close_bench(&b);
    return 0;
}
