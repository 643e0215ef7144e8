/* test_packing - lines become sequences: exact examples, and nothing is lost. */
#include "pretrain/packing.h"

#include <stdlib.h>
#include <string.h>

#include "tests/pretrain_data.h"

/* Each of these characters is one token of the test's vocabulary. */
#define TEXT "~~\n^\n\n|\n\n\n\n``\n"

struct fixture {
    struct tokenizer *tokenizer;
    struct corpus corpus;
    struct packing packing;
};

static void open_fixture(struct fixture *f, const char *text, enum packing_mode mode,
                         int64_t length) {
    struct error err;
    f->tokenizer = pretrain_data_tokenizer();
    pretrain_data_corpus(&f->corpus, "packing", text, f->tokenizer);
    SUPPORT_OK(packing_open(&f->packing, &f->corpus, "train", mode, length, &err), err);
}

static void close_fixture(struct fixture *f) {
    packing_close(&f->packing);
    corpus_close(&f->corpus);
    tokenizer_free(f->tokenizer);
}

/* All sequences, a bar after each. */
static const char *all_sequences(const struct fixture *f) {
    static char text[4096];
    struct error err;
    text[0] = 0;
    int32_t *ids = malloc((size_t)f->packing.length * sizeof *ids);
    for (uint64_t i = 0; i < f->packing.num_sequences; i++) {
        int64_t count;
        SUPPORT_OK(packing_read(&f->packing, i, ids, &count, &err), err);
        assert_true(count <= f->packing.length);
        strcat(text, pretrain_data_tokens(f->tokenizer, ids, count));
        strcat(text, " / ");
    }
    free(ids);
    return text;
}

static const struct example {
    const char *name, *text;
    enum packing_mode mode;
    int64_t length;
    const char *sequences;
    uint64_t used, dropped;
} examples[] = {
    {"one sequence holds all (case D06)", TEXT, PACKING_FULL_SENTENCES, 64,
     "<s>~~</s>^</s></s>|</s></s>``</s> / ", 12, 2},
    {"a line that does not fit begins the next sequence", TEXT, PACKING_FULL_SENTENCES, 7,
     "<s>~~</s>^</s> / <s>|</s></s>``</s> / ", 11, 3},
    {"the separator must fit too", TEXT, PACKING_FULL_SENTENCES, 8,
     "<s>~~</s>^</s> / <s>|</s></s>``</s> / ", 11, 3},
    {"a separator that just fits", TEXT, PACKING_FULL_SENTENCES, 9,
     "<s>~~</s>^</s></s>|</s> / <s>``</s> / ", 11, 3},
    {"documents stay apart", TEXT, PACKING_DOC_SENTENCES, 64,
     "<s>~~</s>^</s> / <s>|</s> / <s>``</s> / ", 10, 4},
    {"blocks of the whole row", TEXT, PACKING_FIXED_BLOCKS, 6,
     "<s>~~</s>^</s> / <s></s>|</s></s></s> / ", 10, 4},
    {"a long line is broken", "~~~~~~~\n^\n", PACKING_FULL_SENTENCES, 4,
     "<s>~~~ / <s>~~~ / <s>~</s> / <s>^</s> / ", 10, 0},
    {"a broken line's rest takes the next line", "~~~~\n^\n", PACKING_FULL_SENTENCES, 5,
     "<s>~~~~ / <s>^</s> / ", 6, 1},
    {"a lone </s> is no sequence", "~~~~~~\n^\n", PACKING_FULL_SENTENCES, 4,
     "<s>~~~ / <s>~~~ / <s>^</s> / ", 8, 1},
    {"blank lines around are dropped", "\n \n~\n\t\n\n", PACKING_FULL_SENTENCES, 8,
     "<s>~</s> / ", 2, 4},
    {"no line break at the end", "~\n^", PACKING_FULL_SENTENCES, 8, "<s>~</s>^</s> / ", 4,
     0},
};

static void examples_are_exact(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const struct example *e = &examples[i];
        struct fixture f;
        open_fixture(&f, e->text, e->mode, e->length);
        if (strcmp(all_sequences(&f), e->sequences) != 0)
            fail_msg("%s: expected %s, found %s", e->name, e->sequences,
                     all_sequences(&f));
        if (f.packing.tokens_used != e->used || f.packing.tokens_dropped != e->dropped)
            fail_msg("%s: %d used and %d dropped", e->name, (int)f.packing.tokens_used,
                     (int)f.packing.tokens_dropped);
        close_fixture(&f);
    }
}

/* What is used is what comes out, whatever mode and length. */
static void every_token_is_used_or_dropped(void **state) {
    (void)state;
    char *text = pretrain_data_text(600, 1);
    for (int mode = PACKING_FULL_SENTENCES; mode <= PACKING_FIXED_BLOCKS; mode++)
        for (int64_t length = 3; length < 90; length = length * 2 + 1) {
            struct fixture f;
            struct error err;
            int32_t ids[128];
            uint64_t out = 0;
            open_fixture(&f, text, (enum packing_mode)mode, length);
            for (uint64_t i = 0; i < f.packing.num_sequences; i++) {
                int64_t count;
                SUPPORT_OK(packing_read(&f.packing, i, ids, &count, &err), err);
                assert_in_range(count, 2, length);
                out += (uint64_t)count - 1;
            }
            assert_int_equal(out, f.packing.tokens_used);
            assert_int_equal(f.packing.tokens_used + f.packing.tokens_dropped,
                             f.corpus.num_tokens);
            if (mode == PACKING_FIXED_BLOCKS)
                assert_true(f.packing.tokens_dropped < (uint64_t)length - 1);
            close_fixture(&f);
        }
    free(text);
}

static void text_shorter_than_a_block_is_an_error(void **state) {
    (void)state;
    struct tokenizer *t = pretrain_data_tokenizer();
    struct corpus c;
    struct packing p;
    struct error err;
    pretrain_data_corpus(&c, "short", "~~~\n", t);
    assert_int_equal(packing_open(&p, &c, "train", PACKING_FIXED_BLOCKS, 64, &err),
                     ERR_INPUT);
    support_assert_error(&err, ERR_INPUT,
                         "train data: its 4 tokens do not fill one sequence of 64; give "
                         "more text or a smaller --max-seq-length");
    SUPPORT_OK(packing_open(&p, &c, "train", PACKING_FIXED_BLOCKS, 5, &err), err);
    assert_int_equal(p.num_sequences, 1);
    packing_close(&p);
    corpus_close(&c);
    tokenizer_free(t);
}

static void words_name_the_modes(void **state) {
    (void)state;
    assert_int_equal(packing_mode_of("full-sentences"), PACKING_FULL_SENTENCES);
    assert_int_equal(packing_mode_of("doc-sentences"), PACKING_DOC_SENTENCES);
    assert_int_equal(packing_mode_of("fixed-blocks"), PACKING_FIXED_BLOCKS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_are_exact),
        cmocka_unit_test(every_token_is_used_or_dropped),
        cmocka_unit_test(text_shorter_than_a_block_is_an_error),
        cmocka_unit_test(words_name_the_modes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
