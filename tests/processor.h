/* processor - what a test needs of the machine it runs on. */
#ifndef TESTS_PROCESSOR_H
#define TESTS_PROCESSOR_H

/* Skips the test, saying so, where oneDNN has no products of bf16. */
void processor_need_bf16(void);

#endif
