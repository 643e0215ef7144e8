/* test_unigram - the loss of guessing by frequency, counted by hand. */
#include "pretrain/unigram.h"

#include <math.h>

#include "tests/pretrain_data.h"

/* train has ~ three times and ^ once; with every token of valid masked, the loss is that
 * of two ~ and two |, each seen one time more than counted. */
static void losses_are_those_of_smoothed_counts(void **state) {
    (void)state;
    struct error err;
    struct tokenizer *t = pretrain_data_tokenizer();
    struct corpus train, valid;
    struct packing packing;
    struct masking masking;
    struct unigram_result result;
    pretrain_data_corpus(&train, "unigram-train", "~~\n~^\n", t);
    pretrain_data_corpus(&valid, "unigram-valid", "~|\n\n|~\n", t);
    SUPPORT_OK(packing_open(&packing, &valid, "valid", PACKING_FULL_SENTENCES, 16, &err),
               err);
    SUPPORT_OK(masking_open(&masking, t, (struct masking_rates){1, 1, 0}, &err), err);
    SUPPORT_OK(unigram_measure(&train, &packing, &masking,
                               rng_stream(0, RNG_MASK_VALID, 0, 0), &result, &err),
               err);
    const double total = 4 + 2000;
    assert_int_equal(result.num_targets, 4);
    assert_true(fabs(result.loss + (log(4 / total) + log(1 / total)) / 2) < 1e-12);
    masking_close(&masking);
    packing_close(&packing);
    corpus_close(&train);
    corpus_close(&valid);
    tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_those_of_smoothed_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
