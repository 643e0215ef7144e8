/* test_checkpoint - saving, finding, verifying and strictly loading model directories. */
#include "encoder/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_file.h"
#include "encoder/safetensors.h"
#include "tests/capture.h"
#include "tests/fake_job.h"
#include "tests/support.h"

static struct error err;

static const char *in(const char *directory, const char *name) {
    static char path[4][PATH_BYTES];
    static int next;
    next = (next + 1) % 4;
    SUPPORT_OK(file_join(path[next], directory, name, &err), err);
    return path[next];
}

static const char *new_folder(void) {
    static char paths[64][PATH_BYTES];
    static int number;
    char name[32];
    snprintf(name, sizeof name, "folder%d", number);
    return strcpy(paths[number++], support_path(name));
}

static void save(struct fake_job *f, const char *output, int64_t step, int64_t best) {
    json_t *state = json_pack("{s:I}", "global_step", (json_int_t)step);
    f->parameters.rows[0]->value[0] = (float)step;
    f->parameters.rows[0]->exp_avg[1] = 2;
    f->parameters.rows[1]->exp_avg_sq[2] = 3;
    SUPPORT_OK(checkpoint_save(output, step, &f->parameters, state, f->job.writer, 2,
                               best, &err),
               err);
    json_decref(state);
}

static void a_checkpoint_gives_back_weights_moments_and_state(void **unused) {
    (void)unused;
    struct fake_job a, b;
    json_t *state;
    fake_job_open(&a, new_folder());
    fake_job_open(&b, a.options.output);
    save(&a, a.options.output, 7, -1);
    for (int r = 0; r < b.parameters.count; r++)
        memset(b.parameters.rows[r]->value, 0,
               b.parameters.rows[r]->count * sizeof(float));
    SUPPORT_OK(checkpoint_load(in(a.options.output, "checkpoint-7"), &b.parameters,
                               &state, &err),
               err);
    assert_int_equal(json_integer_value(json_object_get(state, "global_step")), 7);
    for (int r = 0; r < b.parameters.count; r++) {
        const struct parameter *x = a.parameters.rows[r], *y = b.parameters.rows[r];
        assert_memory_equal(x->value, y->value, x->count * sizeof(float));
        assert_memory_equal(x->exp_avg, y->exp_avg, x->count * sizeof(float));
        assert_memory_equal(x->exp_avg_sq, y->exp_avg_sq, x->count * sizeof(float));
    }
    json_decref(state);
    fake_job_close(&a);
    fake_job_close(&b);
}

static bool has(const char *output, int64_t step) {
    char name[32];
    snprintf(name, sizeof name, "checkpoint-%lld", (long long)step);
    return file_exists(in(output, name));
}

static void the_newest_and_the_best_are_kept(void **unused) {
    (void)unused;
    struct fake_job f;
    const char *output = new_folder();
    fake_job_open(&f, output);
    for (int64_t step = 1; step <= 12; step++)
        save(&f, output, step, 3);
    for (int64_t step = 1; step <= 12; step++)
        assert_int_equal(has(output, step), step == 3 || step >= 11);
    fake_job_close(&f);
}

/* Flips a bit of a file in place. */
static void flip(const char *path, long byte, int bit) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, byte, SEEK_SET);
    int c = fgetc(file);
    fseek(file, byte, SEEK_SET);
    fputc(c ^ 1 << bit, file);
    fclose(file);
}

static const char *const files[] = {"config.json", "model.safetensors",
                                    "optimizer.safetensors", "trainer_state.json",
                                    "checkpoint.json"};
enum { NUM_FILES = sizeof files / sizeof *files };

static void every_flipped_bit_of_a_checkpoint_is_seen(void **unused) {
    (void)unused;
    struct fake_job f;
    const char *output = new_folder();
    fake_job_open(&f, output);
    save(&f, output, 1, -1);
    char directory[PATH_BYTES];
    strcpy(directory, in(output, "checkpoint-1"));
    long flips = 0;
    for (int i = 0; i < NUM_FILES; i++) {
        const char *path = in(directory, files[i]);
        struct buffer text = support_read(path);
        for (size_t byte = 0; byte < text.length; byte++, flips++) {
            flip(path, (long)byte, (int)(byte % 8));
            if (checkpoint_verify(directory, &err) != ERR_INCOMPATIBLE)
                fail_msg("%s: a flip of byte %zu is not seen", files[i], byte);
            flip(path, (long)byte, (int)(byte % 8));
        }
        buffer_free(&text);
    }
    print_message("%ld flips\n", flips);
    SUPPORT_OK(checkpoint_verify(directory, &err), err);
    fake_job_close(&f);
}

static void every_cut_of_a_checkpoint_is_seen(void **unused) {
    (void)unused;
    struct fake_job f;
    const char *output = new_folder();
    fake_job_open(&f, output);
    save(&f, output, 1, -1);
    char directory[PATH_BYTES];
    strcpy(directory, in(output, "checkpoint-1"));
    for (int i = 0; i < NUM_FILES; i++) {
        const char *path = in(directory, files[i]);
        struct buffer text = support_read(path);
        for (size_t length = text.length; length-- > 0;) {
            assert_int_equal(truncate(path, (off_t)length), 0);
            if (checkpoint_verify(directory, &err) != ERR_INCOMPATIBLE)
                fail_msg("%s: cut to %zu bytes unseen", files[i], length);
        }
        unlink(path);
        assert_int_equal(checkpoint_verify(directory, &err), ERR_INCOMPATIBLE);
        SUPPORT_OK(file_write(path, text.data, text.length, &err), err);
        buffer_free(&text);
    }
    SUPPORT_OK(checkpoint_verify(directory, &err), err);
    fake_job_close(&f);
}

/* Zeros in the middle, as a file system may leave them after a power loss; files of
 * another checkpoint; a folder, a FIFO, a loop of links. */
static void stranger_damage_is_seen_too(void **unused) {
    (void)unused;
    static const char *const damages[] = {
        "dd if=/dev/zero of=checkpoint-2/model.safetensors bs=1 seek=600 count=64 "
        "conv=notrunc",
        "cp checkpoint-1/model.safetensors checkpoint-2/",
        "cp checkpoint-1/checkpoint.json checkpoint-2/",
        ": > checkpoint-2/optimizer.safetensors",
        "cd checkpoint-2 && rm config.json && mkdir config.json",
        "cd checkpoint-2 && rm config.json && mkfifo config.json",
        "cd checkpoint-2 && rm config.json && ln -s config.json config.json",
        "cd checkpoint-2 && rm checkpoint.json && mkfifo checkpoint.json",
    };
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        struct fake_job f;
        char command[PATH_BYTES + 256], path[PATH_BYTES];
        const char *output = new_folder();
        fake_job_open(&f, output);
        save(&f, output, 1, -1);
        save(&f, output, 2, -1);
        snprintf(command, sizeof command, "cd %s && (%s) 2> log", output, damages[i]);
        assert_int_equal(support_run(command, NULL, NULL), 0);
        SUPPORT_OK(checkpoint_newest(output, path, &f.notices, &err), err);
        assert_string_equal(path, in(output, "checkpoint-1"));
        assert_non_null(strstr(f.told, "skipping "));
        assert_true(has(output, 2)); /* damaged ones are never deleted */
        fake_job_close(&f);
    }
}

static void a_damaged_checkpoint_is_set_aside_by_its_successor(void **unused) {
    (void)unused;
    struct fake_job f;
    const char *output = new_folder();
    fake_job_open(&f, output);
    save(&f, output, 1, -1);
    flip(in(output, "checkpoint-1/model.safetensors"), 700, 1);
    for (int64_t step = 1; step <= 4; step++)
        save(&f, output, step, -1);
    assert_true(file_exists(in(output, "checkpoint-1.damaged/model.safetensors")));
    assert_false(has(output, 1));
    save(&f, output, 4, -1); /* a sound one is simply replaced */
    assert_false(file_exists(in(output, "checkpoint-4.damaged")));
    SUPPORT_OK(checkpoint_verify(in(output, "checkpoint-4"), &err), err);
    fake_job_close(&f);
}

static void a_weight_that_is_not_finite_is_not_saved(void **unused) {
    (void)unused;
    struct fake_job f;
    const char *output = new_folder();
    fake_job_open(&f, output);
    save(&f, output, 1, -1);
    f.parameters.rows[1]->value[4] = 1.0f / 0.0f;
    json_t *state = json_object();
    assert_int_equal(
        checkpoint_save(output, 2, &f.parameters, state, f.job.writer, 2, -1, &err),
        ERR_NONFINITE);
    support_assert_error(&err, ERR_NONFINITE, "roberta.a.bias: element 4 is inf: *");
    assert_true(has(output, 1) && !has(output, 2));
    json_decref(state);
    fake_job_close(&f);
}

static void a_model_is_found_in_a_training_that_has_not_ended(void **unused) {
    (void)unused;
    struct fake_job f;
    char path[PATH_BYTES];
    const char *output = new_folder();
    fake_job_open(&f, output);
    assert_int_equal(checkpoint_resolve_model(output, path, &f.notices, &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "*expected a model directory, found nothing");
    save(&f, output, 1, -1);
    SUPPORT_OK(checkpoint_resolve_model(output, path, &f.notices, &err), err);
    assert_string_equal(path, in(output, "checkpoint-1"));
    assert_non_null(strstr(f.told, "training has not ended, using "));
    SUPPORT_OK(checkpoint_save_model(output, &f.parameters, f.job.writer, &err), err);
    SUPPORT_OK(checkpoint_resolve_model(output, path, &f.notices, &err), err);
    assert_string_equal(path, output);
    fake_job_close(&f);
}

/* ---- strict loading ---- */

#define MLM "tests/data/checkpoint/roberta_mlm"
enum { V = 97, D = 32 };

/* The rows of a one-layer encoder that the tests ask for: a few of the 26. */
struct target {
    struct parameters p;
    struct config config;
    struct fake_job sink; /* for its notices */
};

static void add(struct target *t, bool is_head, int64_t rows, int64_t columns,
                const char *name) {
    parameters_add(&t->p, (struct parameter_spec){.is_head = is_head}, rows, columns,
                   "%s", name);
}

/* A row for every tensor of `directory` but those whose name holds `without`. */
static void open_target(struct target *t, const char *directory, const char *without) {
    struct safetensors s;
    *t = (struct target){0};
    config_default(&t->config);
    fake_job_open(&t->sink, support_folder());
    SUPPORT_OK(safetensors_open(&s, in(directory, "model.safetensors"), &err), err);
    for (int i = 0; i < s.count; i++) {
        const struct safetensor *x = &s.items[i];
        bool head = strncmp(x->name, "roberta.", 8) != 0;
        if (!strstr(x->name, without))
            add(t, head, x->shape[0], x->rank > 1 ? x->shape[1] : 0, x->name);
    }
    safetensors_close(&s);
}

static enum status load(struct target *t, const char *directory) {
    SUPPORT_OK(parameters_allocate(&t->p, false, &err), err);
    return checkpoint_read_parameters(directory, &t->config, &t->p, 3, &t->sink.notices,
                                      &err);
}

static void close_target(struct target *t) {
    parameters_free(&t->p);
    fake_job_close(&t->sink);
}

static void a_directory_of_transformers_loads(void **unused) {
    (void)unused;
    struct target t;
    struct safetensors s;
    open_target(&t, MLM, "#");
    SUPPORT_OK(load(&t, MLM), err);
    assert_string_equal(t.sink.told, "");
    SUPPORT_OK(safetensors_open(&s, MLM "/model.safetensors", &err), err);
    assert_int_equal(t.p.count, s.count);
    for (int i = 0; i < t.p.count; i++)
        assert_memory_equal(t.p.rows[i]->value,
                            safetensors_find(&s, t.p.rows[i]->name)->data,
                            t.p.rows[i]->count * sizeof(float));
    safetensors_close(&s);
    close_target(&t);
}

static void misfits_are_all_listed(void **unused) {
    (void)unused;
    struct target t;
    open_target(&t, MLM, "query.bias"); /* one unexpected */
    add(&t, false, 8, 0, "roberta.encoder.layer.1.output.dense.bias"); /* one missing */
    t.p.rows[0]->shape[0] = t.p.rows[0]->count = 31; /* one mis-shaped */
    char name[128];
    strcpy(name, t.p.rows[0]->name);
    t.p.rows[0]->is_head = false;
    assert_int_equal(load(&t, MLM), ERR_INCOMPATIBLE);
    support_assert_error(&err, ERR_INCOMPATIBLE,
                         "*: 3 tensors do not fit config.json: *");
    assert_non_null(strstr(err.text, "self.query.bias is unexpected"));
    assert_non_null(strstr(err.text, "layer.1.output.dense.bias is missing"));
    assert_non_null(strstr(err.text, "expected"));
    assert_non_null(strstr(err.text, name));
    close_target(&t);
}

static void a_new_head_starts_with_one_line(void **unused) {
    (void)unused;
    struct target t;
    open_target(&t, MLM, "lm_head");
    add(&t, true, 3, D, "classifier.out_proj.weight");
    add(&t, true, 3, 0, "classifier.out_proj.bias");
    t.p.rows[t.p.count - 2]->init = PARAMETER_LINEAR;
    SUPPORT_OK(load(&t, MLM), err);
    assert_non_null(strstr(t.sink.told, "classifier starts new"));
    assert_non_null(strstr(t.sink.told, "not used: lm_head\n"));
    assert_true(t.p.rows[t.p.count - 2]->value[5] != 0);
    close_target(&t);
}

/* Rewrites the reference file with changed names and extra tensors. */
struct edit {
    const char *cut; /* dropped from the front of names */
    const char *from, *to;
    const char *extra; /* a copy of `extra_of` under this name */
    const char *extra_of;
};

static const char *edited(struct edit e) {
    struct safetensors s;
    static char names[64][160];
    const char *directory = new_folder();
    SUPPORT_OK(file_make_directory(directory, &err), err);
    SUPPORT_OK(safetensors_open(&s, MLM "/model.safetensors", &err), err);
    struct safetensor items[64];
    int count = s.count;
    for (int i = 0; i < count; i++) {
        items[i] = s.items[i];
        const char *name = items[i].name;
        if (e.cut && !strncmp(name, e.cut, strlen(e.cut)))
            name += strlen(e.cut);
        const char *found = e.from ? strstr(name, e.from) : NULL;
        if (found)
            snprintf(names[i], sizeof names[i], "%.*s%s%s", (int)(found - name), name,
                     e.to, found + strlen(e.from));
        else
            snprintf(names[i], sizeof names[i], "%s", name);
        items[i].name = names[i];
    }
    if (e.extra) {
        items[count] = *safetensors_find(&s, e.extra_of);
        items[count++].name = e.extra;
    }
    SUPPORT_OK(safetensors_write(in(directory, "model.safetensors"), items, count, &err),
               err);
    safetensors_close(&s);
    return directory;
}

static void old_and_other_names_are_understood(void **unused) {
    (void)unused;
#define WORDS "roberta.embeddings.word_embeddings.weight"
    static const struct {
        struct edit edit;
        const char *fault; /* NULL = loads */
    } rows[] = {
        {{.cut = "roberta."}, NULL}, /* as RobertaModel */
        {{.from = "LayerNorm.weight", .to = "LayerNorm.gamma"}, NULL},
        {{.from = "LayerNorm.bias", .to = "LayerNorm.beta"}, NULL},
        {{.extra = "lm_head.decoder.weight", .extra_of = WORDS}, NULL},
        {{.extra = "lm_head.decoder.weight", .extra_of = "lm_head.bias"}, "is tied to"},
        {{.extra = "lm_head.decoder.bias", .extra_of = "lm_head.bias"}, NULL},
        {{.from = "lm_head.bias", .to = "lm_head.decoder.bias"}, NULL},
        {{.extra = "roberta.embeddings.position_ids", .extra_of = WORDS}, NULL},
        {{.extra = "roberta.pooler.dense.bias", .extra_of = "lm_head.bias"}, NULL},
        {{.extra = "cls.bias", .extra_of = "lm_head.bias"}, "cls.bias is unexpected"},
        {{.extra = "lm_head2", .extra_of = "lm_head.bias"}, "lm_head2 is unexpected"},
        {{.extra = "embeddings.word_embeddings.weight", .extra_of = WORDS},
         "are the same tensor"},
        {{.from = "self.key.weight", .to = "self.k.weight"},
         "self.k.weight is unexpected"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct target t;
        const char *directory = edited(rows[i].edit);
        open_target(&t, MLM, "#");
        enum status status = load(&t, directory);
        if (rows[i].fault)
            assert_true(status != OK && strstr(err.text, rows[i].fault));
        else if (status != OK)
            fail_msg("case %zu: %s", i, err.text);
        assert_null(strstr(t.sink.told, "starts new"));
        close_target(&t);
    }
}

/* Splits the reference into two shards with an index as the hub has them. */
static const char *sharded(const char *map_end) {
    struct safetensors s;
    struct buffer index = {0};
    const char *directory = new_folder();
    SUPPORT_OK(file_make_directory(directory, &err), err);
    SUPPORT_OK(safetensors_open(&s, MLM "/model.safetensors", &err), err);
    int half = s.count / 2;
    SUPPORT_OK(safetensors_write(in(directory, "model-00001-of-00002.safetensors"),
                                 s.items, half, &err),
               err);
    SUPPORT_OK(safetensors_write(in(directory, "model-00002-of-00002.safetensors"),
                                 s.items + half, s.count - half, &err),
               err);
    SUPPORT_OK(buffer_print(&index, &err, "{\"metadata\": {}, \"weight_map\": {"), err);
    for (int i = 0; i < s.count; i++)
        SUPPORT_OK(
            buffer_print(&index, &err, "\"%s\": \"model-0000%d-of-00002.safetensors\"%s",
                         s.items[i].name, i < half ? 1 : 2,
                         i + 1 < s.count ? ", " : map_end),
            err);
    SUPPORT_OK(file_write(in(directory, "model.safetensors.index.json"), index.data,
                          index.length, &err),
               err);
    buffer_free(&index);
    safetensors_close(&s);
    return directory;
}

static void shards_are_read_and_their_map_is_checked(void **unused) {
    (void)unused;
    static const struct {
        const char *map_end, *fault;
    } rows[] = {
        {"}}", NULL},
        {", \"x\": \"../model-00001-of-00002.safetensors\"}}",
         "the name of a .safetensors"},
        {", \"x\": \"config.json\"}}", "the name of a .safetensors"},
        {", \"x\": 1}}", "the name of a .safetensors"},
        {", \"x\": \"model-00001-of-00002.safetensors\"}}", "weight_map: x is not in "},
        {", \"x\": \"absent.safetensors\"}}", "absent.safetensors"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct target t;
        const char *directory = sharded(rows[i].map_end);
        open_target(&t, MLM, "#");
        enum status status = load(&t, directory);
        if (rows[i].fault)
            assert_true(status == ERR_INPUT && strstr(err.text, rows[i].fault));
        else if (status != OK)
            fail_msg("%s", err.text);
        close_target(&t);
    }
}

/* ---- the command ---- */

static void the_command_inspects_verifies_and_exports(void **unused) {
    (void)unused;
    struct fake_job f;
    const char *output = new_folder(), *target = new_folder();
    fake_job_open(&f, output);
    save(&f, output, 5, -1);
    save(&f, output, 6, -1);
    struct captured c =
        capture(checkpoint_command, "",
                (const char *[]){"inspect", "--format", "json", output, NULL});
    assert_int_equal(c.code, 0);
    assert_non_null(strstr(c.out.data, "\"name\": \"roberta.a.weight\""));
    assert_non_null(strstr(c.out.data, "\"global_step\": 6"));
    assert_non_null(strstr(c.err.data, "training has not ended"));
    captured_free(&c);
    c = capture(checkpoint_command, "",
                (const char *[]){"export", output, "--output", target, NULL});
    assert_int_equal(c.code, 0);
    assert_true(file_exists(in(target, "model.safetensors")));
    assert_false(file_exists(in(target, "optimizer.safetensors")));
    captured_free(&c);
    c = capture(checkpoint_command, "",
                (const char *[]){"export", output, "--output", target, NULL});
    assert_int_equal(c.code, ERR_USAGE);
    captured_free(&c);
    flip(in(output, "checkpoint-6/config.json"), 3, 3);
    c = capture(checkpoint_command, "", (const char *[]){"verify", output, NULL});
    assert_int_equal(c.code, ERR_INCOMPATIBLE);
    assert_non_null(strstr(c.out.data, "damaged "));
    assert_non_null(strstr(c.out.data, "ok "));
    captured_free(&c);
    fake_job_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_gives_back_weights_moments_and_state),
        cmocka_unit_test(the_newest_and_the_best_are_kept),
        cmocka_unit_test(every_flipped_bit_of_a_checkpoint_is_seen),
        cmocka_unit_test(every_cut_of_a_checkpoint_is_seen),
        cmocka_unit_test(stranger_damage_is_seen_too),
        cmocka_unit_test(a_damaged_checkpoint_is_set_aside_by_its_successor),
        cmocka_unit_test(a_weight_that_is_not_finite_is_not_saved),
        cmocka_unit_test(a_model_is_found_in_a_training_that_has_not_ended),
        cmocka_unit_test(a_directory_of_transformers_loads),
        cmocka_unit_test(misfits_are_all_listed),
        cmocka_unit_test(a_new_head_starts_with_one_line),
        cmocka_unit_test(old_and_other_names_are_understood),
        cmocka_unit_test(shards_are_read_and_their_map_is_checked),
        cmocka_unit_test(the_command_inspects_verifies_and_exports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
