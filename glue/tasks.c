/* tasks - one row a GLUE task: folder, files, columns, label words, metrics, defaults.
 *
 * Sources: the files themselves and the official download script for folders, headers and
 * rows; Wang et al. 2019 (GLUE, arXiv:1804.07461) for metrics; fairseq's
 * examples/roberta/config/finetuning for rates and batches. CoLA's train and dev files
 * have no header: their columns are named here so that every row is written alike.
 *
 * Where a row says why a metric or a split is what it is, that is from the GLUE paper,
 * section 3, and its table 1.
 */
#include "glue/tasks.h"

#include <string.h>

#include "glue/dataset.h"
#include "glue/glue.h"
#include "glue/scoring.h"

static const char *const zero_one[] = {"0", "1"};
static const char *const acceptability[] = {"unacceptable", "acceptable"};
static const char *const sentiment[] = {"negative", "positive"};
static const char *const equivalence[] = {"not_equivalent", "equivalent"};
static const char *const duplicates[] = {"not_duplicate", "duplicate"};
static const char *const three_way[] = {"entailment", "neutral", "contradiction"};
static const char *const two_way[] = {"entailment", "not_entailment"};
static const char *const two_way_reversed[] = {"not_entailment", "entailment"};

#define MNLI_TEXTS                                                                   \
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse" \
    "\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2"
#define MNLI_DEV MNLI_TEXTS "\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label"
#define STSB_TEST \
    "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
#define QQP_TRAIN "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
#define MRPC_TRAIN "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
#define PAIR_TEST "index\tsentence1\tsentence2"
#define QNLI_TEST "index\tquestion\tsentence"

/* Is the sentence grammatical English? (Warstadt et al. 2018, arXiv:1805.12471). 70 %
 * are: accuracy would reward saying yes, Matthews' correlation does not. */
static const struct glue_row cola = {
    .folder = "CoLA",
    .text_a = "sentence",
    .label = "label",
    .words = zero_one,
    .metrics = {METRIC_MATTHEWS, METRIC_ACCURACY}, /* accuracy: the paper's average */
    .num_official = 1,
    .splits = {{"train", "source\tlabel\tmark\tsentence", true, 8551},
               {"dev", "source\tlabel\tmark\tsentence", true, 1043},
               {"test", "index\tsentence", false, 1063}},
};
/* Is the sentence of a film review positive? (Socher et al. 2013). Training rows are
 * phrases of the sentences' parse trees as well, which makes them many and short. */
static const struct glue_row sst2 = {
    .folder = "SST-2",
    .text_a = "sentence",
    .label = "label",
    .words = zero_one,
    .metrics = {METRIC_ACCURACY},
    .num_official = 1,
    .splits = {{"train", "sentence\tlabel", false, 67349},
               {"dev", "sentence\tlabel", false, 872},
               {"test", "index\tsentence", false, 1821}},
};
/* Do two sentences from news say the same? (Dolan and Brockett 2005). Two thirds do, so
 * F1 of the paraphrases stands beside accuracy. */
static const struct glue_row mrpc = {
    .folder = "MRPC",
    .text_a = "#1 String",
    .text_b = "#2 String",
    .label = "Quality",
    .words = zero_one,
    .metrics = {METRIC_F1, METRIC_ACCURACY},
    .num_official = 2,
    .splits = {{"train", MRPC_TRAIN, false, 3668},
               {"dev", MRPC_TRAIN, false, 408},
               {"test", "index\t#1 ID\t#2 ID\t#1 String\t#2 String", false, 1725}},
};
/* How alike are two sentences, from 0 to 5? (Cer et al. 2017, arXiv:1708.00055). The only
 * regression: scored by how well predictions follow the labels, not by how far off they
 * are. */
static const struct glue_row stsb = {
    .folder = "STS-B",
    .text_a = "sentence1",
    .text_b = "sentence2",
    .label = "score",
    .metrics = {METRIC_PEARSON, METRIC_SPEARMAN},
    .num_official = 2,
    .splits = {{"train", STSB_TEST "\tscore", false, 5749},
               {"dev", STSB_TEST "\tscore", false, 1500},
               {"test", STSB_TEST, false, 1379}},
};
/* Are two questions from Quora the same? 63 % are not; F1 is that of the duplicates. The
 * published rows are not all whole: skip_malformed. */
static const struct glue_row qqp = {
    .folder = "QQP",
    .text_a = "question1",
    .text_b = "question2",
    .label = "is_duplicate",
    .words = zero_one,
    .skip_malformed = true,
    .metrics = {METRIC_F1, METRIC_ACCURACY},
    .num_official = 2,
    .splits = {{"train", QQP_TRAIN, false, 363846},
               {"dev", QQP_TRAIN, false, 40430},
               {"test", "id\tquestion1\tquestion2", false, 390965}},
};
/* Does the premise entail the hypothesis, contradict it, or neither? (Williams et al.
 * 2018, arXiv:1704.05426). Two dev sets: from the genres of training, and from others;
 * the best model is chosen by the first. */
static const struct glue_row mnli = {
    .folder = "MNLI",
    .text_a = "sentence1",
    .text_b = "sentence2",
    .label = "gold_label",
    .words = three_way,
    .metrics = {METRIC_ACCURACY},
    .num_official = 1,
    .splits = {{"train", MNLI_TEXTS "\tlabel1\tgold_label", false, 392702},
               {"dev_matched", MNLI_DEV, false, 9815},
               {"dev_mismatched", MNLI_DEV, false, 9832},
               {"test_matched", MNLI_TEXTS, false, 9796},
               {"test_mismatched", MNLI_TEXTS, false, 9847}},
};
/* Does the sentence hold the answer to the question? SQuAD (Rajpurkar et al. 2016,
 * arXiv:1606.05250) made into pairs; half of them do. */
static const struct glue_row qnli = {
    .folder = "QNLI",
    .text_a = "question",
    .text_b = "sentence",
    .label = "label",
    .words = two_way,
    .metrics = {METRIC_ACCURACY},
    .num_official = 1,
    .splits = {{"train", QNLI_TEST "\tlabel", false, 104743},
               {"dev", QNLI_TEST "\tlabel", false, 5463},
               {"test", QNLI_TEST, false, 5463}},
};
/* Entailment once more, from four small challenges (RTE1, 2, 3, 5); "neutral" and
 * "contradiction" are one class there. So few rows that seeds differ by several points.
 */
static const struct glue_row rte = {
    .folder = "RTE",
    .text_a = "sentence1",
    .text_b = "sentence2",
    .label = "label",
    .words = two_way,
    .metrics = {METRIC_ACCURACY},
    .num_official = 1,
    .splits = {{"train", PAIR_TEST "\tlabel", false, 2490},
               {"dev", PAIR_TEST "\tlabel", false, 277},
               {"test", PAIR_TEST, false, 3000}},
};
/* Whom does the pronoun mean? (Levesque et al. 2011), as pairs. Dev rows share sentences
 * with training rows but with the other label, so that what learns the rows by heart is
 * below chance: the majority's 56 % is a good score. */
static const struct glue_row wnli = {
    .folder = "WNLI",
    .text_a = "sentence1",
    .text_b = "sentence2",
    .label = "label",
    .words = zero_one,
    .metrics = {METRIC_ACCURACY},
    .num_official = 1,
    .splits = {{"train", PAIR_TEST "\tlabel", false, 635},
               {"dev", PAIR_TEST "\tlabel", false, 71},
               {"test", PAIR_TEST, false, 146}},
};

static const char *const dev[] = {"dev", NULL};
static const char *const mnli_dev[] = {"dev_matched", "dev_mismatched", NULL};

/* Rate and batch are those of fairseq's RoBERTa-base fine-tuning, which also gives 10
 * epochs and 6 % of warm-up; it has none for WNLI, which takes RTE's. */
#define TASK(id, shown, names, classes, pair, evals, rate, batch)    \
    static const struct task id##_task = {.name = #id,               \
                                          .title = shown,            \
                                          .labels = names,           \
                                          .num_labels = classes,     \
                                          .is_pair = pair,           \
                                          .eval_splits = evals,      \
                                          .learning_rate = rate,     \
                                          .batch_size = batch,       \
                                          .num_train_epochs = 10,    \
                                          .warmup_ratio = 0.06,      \
                                          .read = dataset_read,      \
                                          .score = scoring_evaluate, \
                                          .row = &id};

TASK(cola, "CoLA", acceptability, 2, false, dev, 1e-5, 16)
TASK(sst2, "SST-2", sentiment, 2, false, dev, 1e-5, 32)
TASK(mrpc, "MRPC", equivalence, 2, true, dev, 1e-5, 16)
TASK(stsb, "STS-B", NULL, 1, true, dev, 2e-5, 16)
TASK(qqp, "QQP", duplicates, 2, true, dev, 1e-5, 32)
TASK(mnli, "MNLI", three_way, 3, true, mnli_dev, 1e-5, 32)
TASK(qnli, "QNLI", two_way, 2, true, dev, 1e-5, 32)
TASK(rte, "RTE", two_way, 2, true, dev, 2e-5, 16)
TASK(wnli, "WNLI", two_way_reversed, 2, true, dev, 2e-5, 16)

static const struct task *const all_tasks[] = {&cola_task, &sst2_task, &mrpc_task,
                                               &stsb_task, &qqp_task,  &mnli_task,
                                               &qnli_task, &rte_task,  &wnli_task};

const struct task_list glue_tasks = {all_tasks, sizeof all_tasks / sizeof all_tasks[0]};

const struct glue_row *tasks_row(const struct task *task) { return task->row; }

const struct glue_split *tasks_split(const struct task *task, const char *name) {
    for (const struct glue_split *s = tasks_row(task)->splits; s->name; s++)
        if (strcmp(s->name, name) == 0)
            return s;
    return NULL;
}
