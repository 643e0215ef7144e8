/* small_run - `normglue pretrain` of a model of 16 channels. */
#include "tests/small_run.h"

#include "pretrain/pretrain.h"
#include "tests/capture.h"
#include "tests/pretrain_data.h"
#include "tests/support.h"

enum { MOST = 64 };

void small_run(const char *const *options) {
    const char *words[MOST] = {"--tokenizer",
                               PRETRAIN_DATA_TOKENIZER,
                               "--hidden-size",
                               "16",
                               "--num-hidden-layers",
                               "2",
                               "--num-attention-heads",
                               "2",
                               "--intermediate-size",
                               "32",
                               "--max-position-embeddings",
                               "34",
                               "--max-seq-length",
                               "32",
                               "--logging-steps",
                               "1",
                               "--threads",
                               "1",
                               "--progress",
                               "never"};
    int count = 0;
    while (words[count])
        count++;
    for (; *options; options++) {
        assert_true(count < MOST - 1);
        words[count++] = *options;
    }
    struct captured c = capture(pretrain_command, "", words);
    if (c.code != 0)
        fail_msg("exit code %d: %s", c.code, c.err.data);
    captured_free(&c);
}
