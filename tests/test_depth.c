/* test_depth - 1,000 layers: built, stepped, saved and loaded again. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "pretrain/pretrain.h"
#include "tests/capture.h"
#include "tests/pretrain_data.h"
#include "tests/support.h"

static const char *const archs[] = {"deepnorm", "preln", "normformer", "magneto",
                                    "postln"};

static struct captured pretrain(const char *arch, const char *text) {
    const char *words[] = {"--tokenizer",
                           PRETRAIN_DATA_TOKENIZER,
                           "--train",
                           text,
                           "--output",
                           support_path(arch),
                           "--arch",
                           arch,
                           "--num-hidden-layers",
                           "1000",
                           "--hidden-size",
                           "8",
                           "--num-attention-heads",
                           "1",
                           "--intermediate-size",
                           "16",
                           "--max-position-embeddings",
                           "18",
                           "--max-seq-length",
                           "16",
                           "--per-device-train-batch-size",
                           "2",
                           "--max-steps",
                           "2",
                           "--logging-steps",
                           "1",
                           "--resume",
                           "auto",
                           "--dtype",
                           "f32",
                           "--threads",
                           "1",
                           "--progress",
                           "never",
                           NULL};
    return capture(pretrain_command, "", words);
}

static void a_thousand_layers_build_and_step(void **state) {
    (void)state;
    char *lines = pretrain_data_text(40, 1);
    char *text = strdup(support_write("text.txt", lines));
    free(lines);
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        char path[PATH_BYTES];
        struct error err;
        for (int run = 0; run < 2; run++) { /* the second loads the checkpoint */
            struct captured c = pretrain(archs[i], text);
            if (c.code != 0)
                fail_msg("%s: exit code %d: %s", archs[i], c.code, c.err.data);
            captured_free(&c);
        }
        SUPPORT_OK(file_join(path, support_path(archs[i]), "metrics.jsonl", &err), err);
        struct buffer log = support_read(path);
        const char *last = strstr(log.data, "\"step\": 2, \"loss\": ");
        const char *norm = strstr(last ? last : "", "\"grad_norm\": ");
        assert_true(last && norm && isfinite(strtod(last + 19, NULL)));
        assert_true(strtod(norm + 13, NULL) > 0);
        buffer_free(&log);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_layers_build_and_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
