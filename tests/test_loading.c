/* test_loading - a model directory into parameters: strictness, other names, shards. */
#include <stdio.h>
#include <string.h>

#include "encoder/checkpoint.h"
#include "encoder/safetensors.h"
#include "tests/fake_job.h"
#include "tests/support.h"

static struct error err;

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
    SUPPORT_OK(safetensors_open(&s, support_in(directory, "model.safetensors"), &err),
               err);
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
    const char *directory = support_new_path();
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
    SUPPORT_OK(
        safetensors_write(support_in(directory, "model.safetensors"), items, count, &err),
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
    const char *directory = support_new_path();
    SUPPORT_OK(file_make_directory(directory, &err), err);
    SUPPORT_OK(safetensors_open(&s, MLM "/model.safetensors", &err), err);
    int half = s.count / 2;
    SUPPORT_OK(
        safetensors_write(support_in(directory, "model-00001-of-00002.safetensors"),
                          s.items, half, &err),
        err);
    SUPPORT_OK(
        safetensors_write(support_in(directory, "model-00002-of-00002.safetensors"),
                          s.items + half, s.count - half, &err),
        err);
    SUPPORT_OK(buffer_print(&index, &err, "{\"metadata\": {}, \"weight_map\": {"), err);
    for (int i = 0; i < s.count; i++)
        SUPPORT_OK(
            buffer_print(&index, &err, "\"%s\": \"model-0000%d-of-00002.safetensors\"%s",
                         s.items[i].name, i < half ? 1 : 2,
                         i + 1 < s.count ? ", " : map_end),
            err);
    SUPPORT_OK(file_write(support_in(directory, "model.safetensors.index.json"),
                          index.data, index.length, &err),
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_directory_of_transformers_loads),
        cmocka_unit_test(misfits_are_all_listed),
        cmocka_unit_test(a_new_head_starts_with_one_line),
        cmocka_unit_test(old_and_other_names_are_understood),
        cmocka_unit_test(shards_are_read_and_their_map_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
