/* masked_lm - an encoder with its MLM head and their memory.
 *
 * Declaration order is that of the parameters in memory and of their random initial
 * values: encoder first, then head. The head's decoder is the encoder's word table. */
#include "pretrain/masked_lm.h"

#include <inttypes.h>
#include <string.h>

static enum status declare(struct masked_lm *m, struct device *device, bool train,
                           struct error *err) {
    TRY(encoder_declare(&m->encoder, &m->config, device, &m->parameters, err));
    TRY(mlm_head_declare(&m->head, &m->config, device, &m->parameters,
                         encoder_word_embeddings(m->encoder), err));
    return parameters_allocate(&m->parameters, train, err);
}

enum status masked_lm_open(struct masked_lm *m, const struct config *config,
                           struct device *device, bool train, struct error *err) {
    *m = (struct masked_lm){.config = *config};
    const enum status status = declare(m, device, train, err);
    if (status != OK)
        masked_lm_close(m);
    return status;
}

void masked_lm_layout(struct masked_lm *m, struct arena *arena, struct limits limits,
                      int64_t head_rows, bool train) {
    encoder_layout(m->encoder, arena, limits, train);
    mlm_head_layout(m->head, arena, head_rows, train);
}

void masked_lm_close(struct masked_lm *m) {
    mlm_head_free(m->head);
    encoder_free(m->encoder);
    parameters_free(&m->parameters);
    *m = (struct masked_lm){0};
}

/* Checked once, before any id is used as an index of the word table. */
enum status masked_lm_check_tokenizer(const struct config *config,
                                      const struct tokenizer *t, const char *directory,
                                      struct error *err) {
    const struct special_ids ids = tokenizer_specials(t);
    const struct {
        const char *name;
        int32_t id;
    } needed[] = {
        {"<s>", ids.bos}, {"<pad>", ids.pad}, {"</s>", ids.eos}, {"<mask>", ids.mask}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (needed[i].id < 0)
            return error_set(err, ERR_INPUT, "%s: the tokenizer has no token %s",
                             directory, needed[i].name);
    if (tokenizer_size(t) <= config->vocab_size)
        return OK;
    return error_set(err, ERR_INPUT,
                     "%s: the tokenizer's largest id is %d, but the model's vocab_size "
                     "is %" PRId64,
                     directory, tokenizer_size(t) - 1, config->vocab_size);
}
