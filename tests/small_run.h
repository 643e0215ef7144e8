/* small_run - `normglue pretrain` of a model of 16 channels, as often as a test likes.
 *
 * What is learnt is nothing, but all that a real run goes through is gone through. */
#ifndef TESTS_SMALL_RUN_H
#define TESTS_SMALL_RUN_H

/* Two layers, two heads, sequences of 32 tokens, one thread, every step logged, with
 * options that end with NULL: at least --train, --output and what a step is. Fails the
 * test with what the command says. */
void small_run(const char *const *options);

#endif
