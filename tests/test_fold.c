/* test_fold - checkpoint export --fold: every arrangement's folded model gives the same
 * logits, and what could be folded is gone. */
#include <stdio.h>
#include <string.h>

#include "encoder/checkpoint.h"
#include "encoder/norm.h"
#include "encoder/weights.h"
#include "tests/capture.h"
#include "tests/support.h"
#include "tests/whole_model.h"

static struct error err;

/* Rows beside the table of presets. */
static const struct {
    const char *arch, *switches;
} mixtures[] = {
    {"pn", "norm_stat=groups=0"},
    {"bn", "norm_affine=none"},
    {"un", "norm_affine=gain final_norm=0"},
    {"normformer", "norm=bn head_scale=post_proj out_norm=none"},
    {"magneto", "head_scale=pre_proj"}, /* a norm follows the scale: it stays */
    {"postln", "norm=bn head_scale=post_proj"},
    {"postln", "pre_norm=1 mid_norm=both norm=un"},
    {"prerms", "head_scale=pre_proj norm_affine=both final_norm=0"},
};

static int number_of_tensors(const char *directory) {
    struct weights w;
    SUPPORT_OK(weights_open(&w, directory, &err), err);
    const int count = w.count;
    weights_close(&w);
    return count;
}

static void fold(const char *from, const char *to) {
    const char *words[] = {"export", "--fold", "--output", to, from, NULL};
    struct captured c = capture(checkpoint_command, "", words);
    if (c.code != 0)
        fail_msg("exit code %d: %s", c.code, c.err.data);
    captured_free(&c);
}

/* What cannot be there any more. */
static void check_switches(const char *name, const struct arrangement *before,
                           const struct arrangement *after) {
    const bool is_scaled =
        before->head_scale == HEAD_SCALE_PRE_PROJ && (before->mid_norm & SITES_ATTN);
    if ((after->head_scale == HEAD_SCALE_NONE) == is_scaled)
        fail_msg("%s: head_scale is %d", name, after->head_scale);
    if (before->post_norm)
        return;
    const bool is_line = before->norm->buffers && before->norm_stat[NORM_GROUPS] != 4;
    assert_int_equal(after->norm_affine, AFFINE_NONE);
    assert_ptr_equal(after->norm, is_line ? &norm_none : before->norm);
}

static void check(const char *name, const char *arch, const char *switches) {
    static struct whole_model before, after;
    char folded[64], plain[64];
    snprintf(plain, sizeof plain, "%s-plain", name);
    snprintf(folded, sizeof folded, "%s-folded", name);
    const char *from =
        whole_model_write(plain, arch, switches, strcmp(arch, "precrms") ? 0.1 : 0);
    const char *to = support_path(folded);
    fold(from, to);
    whole_model_run(&before, from);
    whole_model_run(&after, to);
    const double d = whole_model_difference(&before, &after);
    if (!(d < 1e-5))
        fail_msg("%s %s: logits differ by %g", arch, switches, d);
    check_switches(name, &before.config.arrangement, &after.config.arrangement);
    if (!before.config.arrangement.post_norm &&
        before.config.arrangement.norm_affine != AFFINE_NONE)
        assert_true(number_of_tensors(to) < number_of_tensors(from));
}

static void every_folded_model_gives_the_same_logits(void **state) {
    (void)state;
    for (const struct preset *p = config_presets; p->name; p++)
        check(p->name, p->name, "");
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++) {
        char name[32];
        snprintf(name, sizeof name, "mixture%zu", i);
        check(name, mixtures[i].arch, mixtures[i].switches);
    }
}

/* A config.json that asks for another norm than the file has statistics of. */
static void a_missing_tensor_is_named(void **state) {
    (void)state;
    const char *from = whole_model_write("bn", "bn", "", 0);
    struct buffer text = support_read(support_path("bn/config.json"));
    char *kind = strstr(text.data, "\"norm\": \"bn\"");
    assert_non_null(kind);
    memcpy(kind, "\"norm\": \"un\"", 12);
    support_write("bn/config.json", text.data);
    buffer_free(&text);
    const char *words[] = {"export", "--fold", "--output", support_path("none"),
                           from,     NULL};
    struct captured c = capture(checkpoint_command, "", words);
    assert_int_equal(c.code, 7);
    assert_non_null(strstr(c.err.data, "attention.LayerNorm.running_square is missing"));
    captured_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_folded_model_gives_the_same_logits),
        cmocka_unit_test(a_missing_tensor_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
