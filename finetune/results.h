/* results - the scores of a fine-tuning: eval_results.json and the table that is printed.
 */
#ifndef FINETUNE_RESULTS_H
#define FINETUNE_RESULTS_H

#include "encoder/trainer.h"
#include "finetune/finetune.h"

/* Appends an evaluation of one split to `out` in Hugging Face's words: eval_<metric>,
 * eval_combined_score first when there are several, eval_loss, eval_one_class (1 = every
 * prediction is the same class); `second` adds "_mm". */
void results_add(struct trainer_metrics *out, const struct score *score, double loss,
                 bool second);
/* The other way: fills score and loss of `split` from the metrics of an evaluation. The
 * names of its metrics are those of `split->majority`. */
void results_take(struct finetune_split_result *split, const struct trainer_metrics *from,
                  bool second);

/* <output>/eval_results.json: flat, undefined values are null. */
enum status results_write(const struct finetune_result *r,
                          const struct finetune_options *options, const struct task *task,
                          struct error *err) MUST_CHECK;
/* Split, rows, metrics, what the majority baseline scores, best step; to stdout. NaN is
 * shown as nan. */
void results_print(const struct finetune_result *r);

#endif
