/* bench_tokenizer - speed of the tokenizer, one thread, in processor time.
 *
 * usage: bench_tokenizer [VOCAB.json MERGES.txt TEXT...]
 *
 * Best of five of each kind of work over the first 5 MB of each text; MB are 10^6 bytes.
 * Without arguments GPT-2's vocabulary and training corpora of the tests, which are small
 * and no natural language: for figures to quote give texts of 5 MB and more.
 * "cold" is a new cache, which holds the vocabulary only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "tests/tokenizer_data.h"
#include "tokenizer/encoding.h"
#include "tokenizer/split.h"

enum { ROUNDS = 5, BYTES = 5000000 };

static struct error err;

static void must(enum status status) {
    if (status != OK) {
        fprintf(stderr, "bench_tokenizer: %s\n", err.text);
        exit(status);
    }
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct bench {
    const char *vocab, *merges;
    struct tokenizer *t;
    struct tokenizer_cache *cache;
    struct buffer text, decoded;
    struct ids ids;
};

static void load(struct bench *b) {
    tokenizer_free(b->t);
    must(tokenizer_load_files(&b->t, b->vocab, b->merges, &err));
    tokenizer_set_invalid_utf8(b->t, INVALID_UTF8_BYTES);
}

static void new_cache(struct bench *b) {
    tokenizer_cache_free(b->cache);
    b->cache = tokenizer_cache_new(b->t);
    b->ids.count = 0;
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

static void full_ids(struct bench *b) {
    b->ids.count = 0;
    encode(b);
}

static double best(struct bench *b, void (*prepare)(struct bench *),
                   void (*work)(struct bench *)) {
    double least = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        prepare(b);
        double start = seconds();
        work(b);
        double time = seconds() - start;
        least = time < least ? time : least;
    }
    return least;
}

/* What is measured, in this order. */
static const struct {
    const char *name;
    void (*prepare)(struct bench *);
    void (*work)(struct bench *);
} rows[] = {{"split", no_preparation, split},
            {"encode, cold", new_cache, encode},
            {"encode, warm", no_preparation, encode},
            {"encode, warm, checked UTF-8", no_preparation, encode_checked},
            {"full encoding", no_preparation, encode_fully},
            {"decode", full_ids, decode}};

static void read_text(struct bench *b, const char *path) {
    struct reader *reader;
    size_t got = 1;
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

static void measure(struct bench *b, const char *path) {
    read_text(b, path);
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        double time = best(b, rows[row].prepare, rows[row].work);
        printf("%-28s %8.0f MB/s  %s\n", rows[row].name,
               (double)b->text.length / time / 1e6, path);
    }
}

int main(int argc, char **argv) {
    static const char *const corpora[] = {TOKENIZER_DATA "train/corpus_syn1m.txt.gz",
                                          TOKENIZER_DATA "train/corpus_unicode.txt.gz"};
    struct bench b = {0};
    bool given = argc > 3;
    b.vocab = given ? argv[1] : tokenizer_data_file("gpt2-vocab.json");
    b.merges = given ? argv[2] : tokenizer_data_file("merges.txt");
    printf("load %.1f ms\n", 1e3 * best(&b, no_preparation, load));
    for (int i = 0; i < (given ? argc - 3 : 2); i++)
        measure(&b, given ? argv[3 + i] : corpora[i]);
    tokenizer_cache_free(b.cache);
    tokenizer_free(b.t);
    buffer_free(&b.text);
    buffer_free(&b.decoded);
    ids_free(&b.ids);
    return 0;
}
