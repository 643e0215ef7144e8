/* test_dataset - reading each task's official layout with its quirks, and bad files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/rng.h"
#include "glue/glue.h"
#include "glue/tasks.h"
#include "tests/support.h"

struct heard {
    char last[512];
    int count;
};

static void hear(void *self, const char *text) {
    struct heard *heard = self;
    snprintf(heard->last, sizeof heard->last, "%s", text);
    heard->count++;
}

static const char data[] = "GLUE"; /* below the test's folder */

static int fresh_folder(void **state) {
    (void)state;
    struct error err;
    if (file_is_directory(support_path(data)))
        SUPPORT_OK(file_remove_tree(support_path(data), &err), err);
    SUPPORT_OK(file_make_directory(support_path(data), &err), err);
    return 0;
}

static void write_file(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", data, name);
    support_write(path, text);
}

static const struct task *find(const char *name) {
    struct error err;
    const struct task *task = task_find(glue_tasks, name, &err);
    assert_non_null(task);
    return task;
}

static enum status read_split(const struct task *task, const char *split, int64_t limit,
                              struct examples *out, struct heard *heard,
                              struct error *err) {
    const struct notices notices = {hear, heard};
    *heard = (struct heard){0};
    return task->read(task, support_path(data), split, limit, out, &notices, err);
}

/* A file of `task` with its official header (if the file has one) and `rows`. */
static void write_split(const struct task *task, const char *split, const char *rows) {
    char text[4096], name[128];
    const struct glue_split *s = tasks_split(task, split);
    assert_non_null(s);
    snprintf(text, sizeof text, "%s%s%s", s->headerless ? "" : s->header,
             s->headerless ? "" : "\n", rows);
    snprintf(name, sizeof name, "%s/%s.tsv", tasks_row(task)->folder, split);
    write_file(name, text);
}

/* Invented rows in each file's layout, and what they must become. */
static const struct {
    const char *task, *split, *rows;
    size_t count;
    const char *text_a, *text_b; /* of the last row */
    double label;                /* of the last row; NAN: unlabelled */
} layouts[] = {
    {"cola", "train", "x01\t1\t\tBirds sing.\nx02\t0\t*\tSing birds the.\n", 2,
     "Sing birds the.", NULL, 0},
    {"cola", "dev", "x01\t1\t\t ", 1, " ", NULL, 1}, /* no last newline, a lone space */
    {"cola", "test", "0\tBirds sing.\n", 1, "Birds sing.", NULL, NAN},
    {"sst2", "train", "a fine film \t1\na dull one \t0\n", 2, "a dull one ", NULL, 0},
    {"sst2", "test", "0\ta fine film .\n", 1, "a fine film .", NULL, NAN},
    {"mrpc", "train", "1\t11\t12\tHe said \" no .\tHe refused .\n", 1, "He said \" no .",
     "He refused .", 1},
    {"mrpc", "test", "0\t11\t12\tHe went .\tHe left .\n", 1, "He went .", "He left .",
     NAN},
    {"stsb", "train",
     "0\tg\tf\t2012\t1\tnone\tnone\tA cat.\t\"A dog.\t5\n"
     "1\tg\tf\t2012\t1\tnone\tnone\tA cat.\tA cow.\t3.800\n",
     2, "A cat.", "A cow.", 3.8},
    {"stsb", "test", "0\tg\tf\t2012\t1\tnone\tnone\tA cat.\tA dog.\n", 1, "A cat.",
     "A dog.", NAN},
    {"qqp", "train", "5\t1\t2\t\"What is \"\"it\"\"?\"\tWhat?\t1\n", 1,
     "\"What is \"\"it\"\"?\"", "What?", 1},
    {"qqp", "test", "0\tWhere?\tWhen?\n", 1, "Where?", "When?", NAN},
    {"mnli", "train",
     "0\t1\t1n\tslate\t(\t(\t(\t(\tIt rains.\tIt pours.\tneutral\tneutral\n", 1,
     "It rains.", "It pours.", 1},
    {"mnli", "dev_matched",
     "0\t_\t_\t_\t_\t_\t_\t_\tIt rains.\tIt is dry.\tneutral\tneutral\tneutral\tneutral"
     "\tneutral\tcontradiction\n",
     1, "It rains.", "It is dry.", 2},
    {"mnli", "dev_mismatched",
     "0\t_\t_\t_\t_\t_\t_\t_\tIt rains.\tWater falls.\t_\t_\t_\t_\t_\tentailment\n", 1,
     "It rains.", "Water falls.", 0},
    {"mnli", "test_matched", "0\t_\t_\t_\t_\t_\t_\t_\tIt rains.\tIt pours.\n", 1,
     "It rains.", "It pours.", NAN},
    {"qnli", "train", "0\tWho came?\tAnn came.\tnot_entailment\n", 1, "Who came?",
     "Ann came.", 1},
    {"qnli", "test", "0\tWho came?\tAnn came.\n", 1, "Who came?", "Ann came.", NAN},
    {"rte", "dev", "0\tAnn came.\tAnn is here.\tentailment\r\n", 1, "Ann came.",
     "Ann is here.", 0},
    {"rte", "test", "0\tAnn came.\tAnn is here.\n", 1, "Ann came.", "Ann is here.", NAN},
    {"wnli", "dev", "0\tIt broke.\tThe cup broke.\t1\n", 1, "It broke.", "The cup broke.",
     1},
};

static void check_layout(size_t i) {
    struct error err = {0};
    struct examples e;
    struct heard heard;
    const struct task *task = find(layouts[i].task);
    write_split(task, layouts[i].split, layouts[i].rows);
    if (read_split(task, layouts[i].split, 0, &e, &heard, &err) != OK)
        fail_msg("%s %s: %s", layouts[i].task, layouts[i].split, err.text);
    assert_int_equal(heard.count, 0);
    assert_int_equal(e.count, layouts[i].count);
    const struct example *last = &e.items[e.count - 1];
    assert_string_equal(last->text_a, layouts[i].text_a);
    assert_true((last->text_b == NULL) == (layouts[i].text_b == NULL));
    if (last->text_b)
        assert_string_equal(last->text_b, layouts[i].text_b);
    assert_true(e.labelled == !isnan(layouts[i].label));
    if (e.labelled)
        assert_true(last->label == (float)layouts[i].label);
    else
        assert_true(isnan(last->label));
    assert_int_equal(last->line,
                     e.count + !tasks_split(task, layouts[i].split)->headerless);
    examples_free(&e);
}

static void official_layouts_are_read(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        check_layout(i);
}

static void columns_follow_the_header_wherever_they_are(void **state) {
    (void)state;
    struct error err;
    struct examples e;
    struct heard heard;
    write_file("SST-2/dev.tsv", "index\tlabel\tsentence\n7\t1\tfine\n");
    assert_int_equal(read_split(find("sst2"), "dev", 0, &e, &heard, &err), OK);
    assert_string_equal(e.items[0].text_a, "fine");
    assert_true(e.items[0].label == 1);
    examples_free(&e);
}

static void an_unknown_header_is_read_by_position_with_a_notice(void **state) {
    (void)state;
    struct error err;
    struct examples e;
    struct heard heard;
    write_file("RTE/dev.tsv", "id\tpremise\tguess\tgold\n0\ta\tb\tentailment\n");
    assert_int_equal(read_split(find("rte"), "dev", 0, &e, &heard, &err), OK);
    assert_int_equal(e.count, 1);
    assert_non_null(strstr(heard.last, "unknown header, columns are taken by position"));
    examples_free(&e);
    write_file("RTE/dev.tsv", "0\ta\tb\tentailment\n1\tc\td\tentailment\n");
    assert_int_equal(read_split(find("rte"), "dev", 0, &e, &heard, &err), OK);
    assert_int_equal(e.count, 2);
    assert_non_null(strstr(heard.last, "line 1 is read as a row"));
    examples_free(&e);
}

static void malformed_rows_of_qqp_are_left_out_and_counted(void **state) {
    (void)state;
    struct error err;
    struct examples e;
    struct heard heard;
    const struct task *qqp = find("qqp");
    write_split(qqp, "dev",
                "1\t1\t2\ta\tb\t1\n2\t1\t2\ta\n3\t1\t2\ta\tb\t0\t\n4\t1\t2\tc\td\t0\n");
    assert_int_equal(read_split(qqp, "dev", 0, &e, &heard, &err), OK);
    assert_int_equal(e.count, 2);
    assert_int_equal(e.skipped, 2);
    assert_int_equal(heard.count, 1);
    assert_non_null(strstr(
        heard.last,
        "QQP/dev.tsv: 2 rows without exactly 6 fields left out, the first is line 3"));
    assert_int_equal(e.items[1].line, 5);
    examples_free(&e);
    write_split(qqp, "test", "0\ta\tb\n1\ta\n"); /* each index is submitted */
    assert_int_equal(read_split(qqp, "test", 0, &e, &heard, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "QQP/test.tsv:3: expected 3 fields"));
}

static void a_limit_takes_the_first_rows(void **state) {
    (void)state;
    struct error err;
    struct examples e;
    struct heard heard;
    write_split(find("cola"), "train", "a\t1\t\tA\nb\t0\t\tB\nc\tbad\t\tC\n");
    assert_int_equal(read_split(find("cola"), "train", 2, &e, &heard, &err), OK);
    assert_int_equal(e.count, 2);
    examples_free(&e);
}

/* Broken files and their exact sentences (after the folder's path). */
static const struct {
    const char *task, *split, *file, *text, *sentence;
} broken[] = {
    {"rte", "dev", "RTE/dev.tsv", "",
     "/RTE/dev.tsv: the file is empty; expected RTE rows"},
    {"rte", "dev", "RTE/dev.tsv", "index\tsentence1\tsentence2\tlabel\n",
     "/RTE/dev.tsv: no rows after the header"},
    {"rte", "dev", "RTE/dev.tsv",
     "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n1\ta\tentailment\n",
     "/RTE/dev.tsv:3: expected 4 fields separated by tabs, found 3"},
    {"rte", "dev", "RTE/dev.tsv",
     "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tEntailment\n",
     "/RTE/dev.tsv:2: expected label entailment or not_entailment, found 'Entailment'"},
    {"mnli", "train", "MNLI/train.tsv",
     "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
     "sentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
     "0\t_\t_\t_\t_\t_\t_\t_\ta\tb\tneutral\t-\n",
     "/MNLI/train.tsv:2: expected label entailment, neutral or contradiction, found '-' "
     "(a "
     "row without agreed label)"},
    {"cola", "dev", "CoLA/dev.tsv", "a\t2\t\tText\n",
     "/CoLA/dev.tsv:1: expected label 0 or 1, found '2'"},
    {"stsb", "dev", "STS-B/dev.tsv", "sentence1\tsentence2\tscore\na\tb\t5.01\n",
     "/STS-B/dev.tsv:2: expected a score from 0 to 5, found '5.01'"},
    {"stsb", "dev", "STS-B/dev.tsv", "sentence1\tsentence2\tscore\na\tb\tnan\n",
     "/STS-B/dev.tsv:2: expected a score from 0 to 5, found 'nan'"},
    {"stsb", "dev", "STS-B/dev.tsv", "sentence1\tsentence2\tscore\na\tb\t-1\n",
     "/STS-B/dev.tsv:2: expected a score from 0 to 5, found '-1'"},
    {"stsb", "dev", "STS-B/dev.tsv", "sentence1\tsentence2\tscore\na\tb\t\n",
     "/STS-B/dev.tsv:2: expected a score from 0 to 5, found ''"},
    {"stsb", "dev", "STS-B/dev.tsv", "sentence1\tsentence2\tscore\na\tb\t1.2.3\n",
     "/STS-B/dev.tsv:2: expected a score from 0 to 5, found '1.2.3'"},
    {"qqp", "dev", "QQP/dev.tsv",
     "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\t"
     "score\n0\tg\tf\ty\t1\tn\tn\ta\tb\t5\n",
     "/QQP/dev.tsv:1: expected the columns of QQP, found those of STS-B: is the file in "
     "the "
     "wrong folder?"},
    {"stsb", "dev", "STS-B/dev.tsv",
     "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n",
     "/STS-B/dev.tsv:1: expected the columns of STS-B, found those of QQP: is the file "
     "in "
     "the wrong folder?"},
    {"rte", "test", "RTE/test.tsv",
     "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\n",
     "/RTE/test.tsv:1: expected the columns of RTE, found those of STS-B: is the file in "
     "the wrong folder?"},
    {"qnli", "dev", "QNLI/dev.tsv",
     "index\tquestion\tsentence\tgold\n0\ta\tb\tentailment\n",
     "/QNLI/dev.tsv:1: no column 'label'; expected the header "
     "'index|question|sentence|label', found 'index|question|sentence|gold'"},
    {"rte", "dev", "RTE/dev.tsv", "a,b,c\n",
     "/RTE/dev.tsv:1: no column 'sentence1'; expected the header "
     "'index|sentence1|sentence2|label', found 'a,b,c'"},
    {"wnli", "dev", "RTE/x.tsv", "",
     ": expected the folder WNLI in the GLUE folder, found none"},
};

static void bad_files_get_their_sentence(void **state) {
    (void)state;
    struct error err;
    struct examples e;
    struct heard heard;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        write_file(broken[i].file, broken[i].text);
        assert_int_equal(
            read_split(find(broken[i].task), broken[i].split, 0, &e, &heard, &err),
            ERR_INPUT);
        const char *folder = support_path(data);
        assert_memory_equal(err.text, folder, strlen(folder));
        assert_string_equal(err.text + strlen(folder), broken[i].sentence);
        assert_null(e.items);
    }
}

/* Changes up to three bytes, or cuts the text off. */
static void mutate(char *text, size_t length, uint32_t number) {
    const struct rng r = rng_stream(number, RNG_TEST, 1, 0);
    for (uint32_t i = 0; i < 1 + number % 3 && length > 0; i++) {
        static const char likely[] = "\t\n\r\"0-_\xff\xc3";
        const struct rng_block b = rng_draw(r, i, 0, 0, 0);
        const uint32_t at = rng_below(b.word[0], (uint32_t)length);
        if (b.word[1] % 8 == 0)
            text[at] = '\0'; /* the writer stops here */
        else
            text[at] =
                b.word[1] % 2 ? likely[b.word[2] % (sizeof likely - 1)] : (char)b.word[2];
    }
}

static void mutants_are_read_or_refused_in_a_sentence(void **state) {
    (void)state;
    int refused = 0;
    for (uint32_t number = 0; number < 3000; number++) {
        struct error err = {0};
        struct examples e;
        char text[1024], name[64];
        const size_t i = number % (sizeof layouts / sizeof layouts[0]);
        const struct task *task = find(layouts[i].task);
        const struct glue_split *split = tasks_split(task, layouts[i].split);
        snprintf(text, sizeof text, "%s%s%s", split->headerless ? "" : split->header,
                 split->headerless ? "" : "\n", layouts[i].rows);
        mutate(text, strlen(text), number);
        snprintf(name, sizeof name, "%s/%s.tsv", tasks_row(task)->folder, split->name);
        write_file(name, text);
        const enum status status =
            task->read(task, support_path(data), split->name, 0, &e, NULL, &err);
        if (status == OK) {
            assert_true(e.count > 0);
            examples_free(&e);
            continue;
        }
        assert_int_equal(status, ERR_INPUT);
        assert_non_null(strstr(err.text, name));
        refused++;
    }
    assert_true(refused > 300 && refused < 2900);
}

static void missing_parts_are_named(void **state) {
    (void)state;
    struct error err;
    struct examples e;
    const struct task *mnli = find("mnli");
    assert_int_equal(mnli->read(mnli, support_path(data), "dev", 0, &e, NULL, &err),
                     ERR_USAGE);
    assert_string_equal(err.text,
                        "MNLI has no split 'dev'; it has train, dev_matched, "
                        "dev_mismatched, test_matched, test_mismatched");
    write_file("MNLI/train.tsv", "");
    assert_int_equal(
        mnli->read(mnli, support_path(data), "dev_matched", 0, &e, NULL, &err),
        ERR_INPUT);
    assert_non_null(strstr(err.text, "MNLI/dev_matched.tsv"));
    assert_int_equal(mnli->read(mnli, "no/such", "train", 0, &e, NULL, &err), ERR_INPUT);
    assert_string_equal(err.text, "no/such: expected the GLUE folder, found no folder");
}

static const struct {
    const char *task, *split;
    size_t rows; /* of the data set GLUE_DATA names, which holds samples of some tasks */
} real_files[] = {{"cola", "train", 8551},       {"cola", "dev", 1043},
                  {"cola", "test", 1063},        {"sst2", "train", 67349},
                  {"sst2", "dev", 872},          {"sst2", "test", 1821},
                  {"mrpc", "train", 3668},       {"mrpc", "dev", 408},
                  {"mrpc", "test", 1725},        {"stsb", "train", 5749},
                  {"stsb", "dev", 1500},         {"stsb", "test", 1379},
                  {"qqp", "train", 0},           {"qqp", "dev", 0},
                  {"mnli", "train", 0},          {"mnli", "dev_matched", 9815},
                  {"mnli", "dev_mismatched", 0}, {"qnli", "train", 0},
                  {"qnli", "dev", 5463},         {"qnli", "test", 5463},
                  {"rte", "train", 2490},        {"rte", "dev", 277},
                  {"rte", "test", 3000},         {"wnli", "train", 635},
                  {"wnli", "dev", 71},           {"wnli", "test", 146}};

/* Runs only with GLUE_DATA=<official folder> in the environment. */
static void the_real_files_have_their_rows(void **state) {
    (void)state;
    const char *real = getenv("GLUE_DATA");
    if (!real)
        skip();
    for (size_t i = 0; i < sizeof real_files / sizeof real_files[0]; i++) {
        struct error err;
        struct examples e;
        const struct task *task = find(real_files[i].task);
        if (task->read(task, real, real_files[i].split, 0, &e, NULL, &err) != OK)
            fail_msg("%s", err.text);
        if (real_files[i].rows)
            assert_int_equal(e.count, real_files[i].rows);
        print_message("%s %s: %zu rows\n", task->title, real_files[i].split, e.count);
        examples_free(&e);
    }
}

#define IN_FOLDER(f) cmocka_unit_test_setup(f, fresh_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(official_layouts_are_read),
        IN_FOLDER(columns_follow_the_header_wherever_they_are),
        IN_FOLDER(an_unknown_header_is_read_by_position_with_a_notice),
        IN_FOLDER(malformed_rows_of_qqp_are_left_out_and_counted),
        IN_FOLDER(a_limit_takes_the_first_rows),
        IN_FOLDER(bad_files_get_their_sentence),
        IN_FOLDER(mutants_are_read_or_refused_in_a_sentence),
        IN_FOLDER(missing_parts_are_named),
        cmocka_unit_test(the_real_files_have_their_rows),
    };
    return cmocka_run_group_tests_name("dataset", tests, NULL, NULL);
}
