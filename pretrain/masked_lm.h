/* masked_lm - an encoder with its MLM head and their memory: what pretrain and fill-mask
 * work with. */
#ifndef PRETRAIN_MASKED_LM_H
#define PRETRAIN_MASKED_LM_H

#include "base/notice.h"
#include "pretrain/mlm_head.h"
#include "tokenizer/tokenizer.h"

struct masked_lm {
    struct config config;
    struct parameters parameters;
    struct encoder *encoder;
    struct mlm_head *head;
};

/* Declares all of `config` (copied) and allocates the parameters, without values. */
enum status masked_lm_open(struct masked_lm *m, const struct config *config,
                           struct device *device, bool train,
                           struct error *err) MUST_CHECK;
/* Takes activations for batches within `limits`; `head_rows` as in mlm_head_layout. */
void masked_lm_layout(struct masked_lm *m, struct arena *arena, struct limits limits,
                      int64_t head_rows, bool train);
void masked_lm_close(struct masked_lm *m);

/* The tokenizer must have <s>, <pad>, </s> and <mask>, and no id that the word table of
 * `config` lacks; `directory` names it in the error. */
enum status masked_lm_check_tokenizer(const struct config *config,
                                      const struct tokenizer *t, const char *directory,
                                      struct error *err) MUST_CHECK;

#endif
