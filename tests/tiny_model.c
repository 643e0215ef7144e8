/* tiny_model - writes small tokenizer and model directories.
 *
 * Both are made by the program's own writers, so that what tests read is what users get;
 * only vocab.json is spelled out here, as no training would give 256 bytes and no merge.
 */
#include "tests/tiny_model.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "encoder/checkpoint.h"
#include "encoder/encoder.h"
#include "finetune/head.h"
#include "tests/support.h"
#include "tokenizer/bytes.h"

static void write_vocabulary(const char *name) {
    static const char *const specials[] = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};
    struct error err;
    struct buffer json = {0};
    char path[PATH_BYTES];
    SUPPORT_OK(buffer_print(&json, &err, "{"), err);
    for (int id = 0; id < TINY_VOCAB; id++) {
        char text[8];
        unsigned char byte = bytes_in_order(id < TINY_BYTES ? 0 : id - TINY_BYTES);
        size_t length = bytes_to_text(text, &byte, 1);
        SUPPORT_OK(buffer_print(&json, &err, id > 0 ? "," : ""), err);
        if (id < TINY_BYTES)
            SUPPORT_OK(buffer_print(&json, &err, "\"%s\"", specials[id]), err);
        else
            SUPPORT_OK(buffer_add_json_string(&json, text, length, &err), err);
        SUPPORT_OK(buffer_print(&json, &err, ":%d", id), err);
    }
    SUPPORT_OK(buffer_print(&json, &err, "}"), err);
    snprintf(path, sizeof path, "%s/vocab.json", name);
    support_write_bytes(path, json.data, json.length);
    buffer_free(&json);
}

const char *tiny_tokenizer(const char *name) {
    char path[PATH_BYTES];
    write_vocabulary(name);
    snprintf(path, sizeof path, "%s/merges.txt", name);
    support_write(path, "#version: 0.2\n");
    snprintf(path, sizeof path, "%s/tokenizer_config.json", name);
    support_write(path,
                  "{\"tokenizer_class\": \"RobertaTokenizer\", \"add_prefix_space\": "
                  "false}\n");
    return support_path(name);
}

static void set_config(struct config *config, struct tiny_model model) {
    struct error err;
    config_default(config);
    config->vocab_size = model.vocab_size ? model.vocab_size : TINY_VOCAB;
    config->max_position_embeddings =
        model.max_position_embeddings ? model.max_position_embeddings : 66;
    config->hidden_size = 32;
    config->num_hidden_layers = 2;
    config->num_attention_heads = 2;
    config->intermediate_size = 64;
    while (model.labels[config->num_labels]) {
        struct label *label = &config->labels[config->num_labels];
        snprintf(label->name, sizeof label->name, "%s",
                 model.labels[config->num_labels++]);
    }
    SUPPORT_OK(config_check(config, &err), err);
}

static enum status write_config(void *self, const char *directory, struct error *err) {
    const struct config *config = self;
    return config_write(config, directory,
                        config->num_labels > 0 ? "SequenceClassification" : "Model", err);
}

/* The head is declared only where there are labels, so that a directory has none else. */
const char *tiny_model(const char *name, struct tiny_model model) {
    struct error err;
    struct config config;
    struct device *device;
    struct encoder *encoder;
    struct head *head = NULL;
    struct parameters parameters = {0};
    const char *path = tiny_tokenizer(name);
    set_config(&config, model);
    SUPPORT_OK(device_open(&device, 1, NULL, &err), err);
    SUPPORT_OK(encoder_declare(&encoder, &config, device, &parameters, &err), err);
    if (config.num_labels > 0)
        SUPPORT_OK(head_declare(&head, &config, device, &parameters, &err), err);
    SUPPORT_OK(parameters_allocate(&parameters, false, &err), err);
    parameters_initialise(&parameters, &config, model.seed);
    SUPPORT_OK(
        checkpoint_save_model(path, &parameters,
                              (struct checkpoint_writer){write_config, &config}, &err),
        err);
    head_free(head);
    encoder_free(encoder);
    parameters_free(&parameters);
    device_close(device);
    return path;
}
