/* pretrain_data - corpora and tokenizer for the tests of pretrain/. */
#include "tests/pretrain_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

struct tokenizer *pretrain_data_tokenizer(void) {
    struct error err;
    struct tokenizer *t;
    SUPPORT_OK(tokenizer_load(&t, PRETRAIN_DATA_TOKENIZER, NULL, &err), err);
    return t;
}

/* Two threads, so that every test of a corpus is one of their order too. */
void pretrain_data_corpus(struct corpus *c, const char *name, const char *text,
                          const struct tokenizer *t) {
    struct error err;
    const char *path = support_write(name, text);
    const struct corpus_source source = {.name = name,
                                         .directory = support_path("shards"),
                                         .files = &path,
                                         .num_files = 1,
                                         .threads = 2,
                                         .progress = PROGRESS_NEVER};
    SUPPORT_OK(corpus_prepare(c, &source, t, NULL, &err), err);
}

const char *pretrain_data_tokens(const struct tokenizer *t, const int32_t *ids,
                                 int64_t count) {
    static char text[4096];
    size_t used = 0;
    text[0] = 0;
    for (int64_t i = 0; i < count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s",
                                 tokenizer_token(t, ids[i]));
    return text;
}

char *pretrain_data_text(int lines, uint32_t seed) {
    static const char *const words[] = {
        "the ", "old ",     "man ",  "went ",  "down ",  "to ",    "a ",     "river ",
        "and ", "saw ",     "many ", "white ", "birds ", "there ", "while ", "she ",
        "was ", "reading ", "her ",  "book ",  "under ", "trees ", "in ",    "spring "};
    enum { WORDS = sizeof words / sizeof *words, LONGEST = 12 };
    const struct rng stream = rng_stream(seed, RNG_TEST, 9, 0);
    char *text = malloc((size_t)lines * LONGEST * 10 + 1), *end = text;
    assert_non_null(text);
    *end = 0;
    for (int l = 0; l < lines; l++) {
        const uint32_t first = rng_draw(stream, (uint32_t)l, 0, 0, 0).word[0];
        const int count = 4 + (int)(first % (LONGEST - 4));
        /* Each word calls for the next, so that there is something to learn. */
        for (int w = 0; w < count; w++)
            end = stpcpy(end, words[(first / 16 + (uint32_t)w) % WORDS]);
        end[-1] = '\n';
        if (l % 10 == 9)
            end = stpcpy(end, "\n");
    }
    return text;
}
