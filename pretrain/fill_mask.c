/* fill_mask - the command `normglue fill-mask`: the likeliest tokens for <mask>, with the
 * keys, scores and texts of Hugging Face's fill-mask pipeline.
 *
 * A line is encoded with <s> and </s> around it, the encoder returns the hidden states of
 * its masks only, and the head scores them HEAD_ROWS at a time, so that its logits stay
 * small. Scores are softmax over the whole vocabulary. Lines are answered one by one;
 * output is flushed whenever the next line is not there yet. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "encoder/checkpoint.h"
#include "encoder/loss.h"
#include "encoder/safetensors.h"
#include "pretrain/masked_lm.h"
#include "pretrain/pretrain.h"

#define HEAD_ROWS 16 /* masks whose logits are computed at once */

struct values {
    struct options_state *state; /* base/options keeps it first */
    const char *model, *dtype;
    int64_t top_k, threads;
};

#define FIELD(name) offsetof(struct values, name)
static const struct option option_table[] = {
    {"model", OPTION_STRING, FIELD(model), NULL, 0, 0, "DIR", "Model",
     "model directory with an MLM head", true},
    {"top-k", OPTION_INTEGER, FIELD(top_k), "5", 1, 1e6, NULL, "Output",
     "candidates for each <mask>", false},
    {"dtype", OPTION_CHOICE, FIELD(dtype), "f32", 0, 0, DEVICE_DTYPES, "Run",
     DEVICE_DTYPE_HELP, false},
    {"threads", OPTION_INTEGER, FIELD(threads), "0", 0, 4096, NULL, "Run",
     "threads; 0 = as many as the process may use", false},
    {0},
};
static const struct command command = {
    .name = "normglue fill-mask",
    .usage = "--model DIR < texts",
    .summary =
        "Reads a text with <mask> from each line of stdin and prints the likeliest "
        "tokens as a JSON line: an array of {score, token, token_str, sequence}, or an "
        "array of such arrays when the text has several masks.",
    .options = option_table,
};

struct candidate {
    float score;
    int32_t id;
};

struct filler {
    const struct values *values;
    struct tokenizer *tokenizer;
    struct tokenizer_cache *cache;
    struct device *device;
    struct masked_lm model;
    struct arena arena;
    int64_t max_tokens, top_k;
    int32_t *masks;               /* max_tokens: where the text has <mask> */
    struct candidate *candidates; /* top_k */
    struct ids ids;
    struct buffer line, text;
};

/* ---- the model ---- */

/* A missing head would start with random weights, which is right for training only. */
static enum status check_head(const char *directory, struct error *err) {
    char path[PATH_BYTES];
    struct safetensors file;
    TRY(file_join(path, directory, "model.safetensors", err));
    TRY(safetensors_open(&file, path, err));
    const bool has_head = safetensors_find(&file, "lm_head.dense.weight") != NULL;
    safetensors_close(&file);
    if (has_head)
        return OK;
    return error_set(err, ERR_INPUT, "%s: expected a model with an MLM head (lm_head.*)",
                     path);
}

static void layout(struct filler *f) {
    const struct limits limits = {.tokens = f->max_tokens,
                                  .sequences = 1,
                                  .tokens_per_sequence = f->max_tokens,
                                  .output_rows = f->max_tokens};
    masked_lm_layout(&f->model, &f->arena, limits, HEAD_ROWS, false);
    f->masks = ARENA_TAKE(&f->arena, int32_t, f->max_tokens);
    f->candidates = ARENA_TAKE(&f->arena, struct candidate, f->top_k);
}

static enum status open_filler(struct filler *f, struct error *err) {
    char directory[PATH_BYTES];
    struct config config;
    TRY(checkpoint_resolve_model(f->values->model, directory, &notices_stderr, err));
    TRY(config_read(&config, directory, err));
    TRY(config_check(&config, err));
    TRY(tokenizer_load(&f->tokenizer, directory, &notices_stderr, err));
    TRY(masked_lm_check_tokenizer(&config, f->tokenizer, directory, err));
    TRY(check_head(directory, err));
    TRY(device_open(&f->device, (int)f->values->threads, &notices_stderr, err));
    TRY(device_set_dtype_named(f->device, f->values->dtype, err));
    TRY(masked_lm_open(&f->model, &config, f->device, false, err));
    TRY(checkpoint_read_parameters(directory, &config, &f->model.parameters, 0,
                                   &notices_stderr, err));
    f->max_tokens = config_max_tokens(&config);
    f->top_k =
        f->values->top_k < config.vocab_size ? f->values->top_k : config.vocab_size;
    f->cache = tokenizer_cache_new(f->tokenizer);
    if (!f->cache)
        return error_set(err, ERR_MEMORY, "out of memory for the tokenizer's cache");
    layout(f);
    TRY(arena_open(&f->arena, f->arena.used, err));
    layout(f);
    return OK;
}

static void close_filler(struct filler *f) {
    buffer_free(&f->line);
    buffer_free(&f->text);
    ids_free(&f->ids);
    arena_close(&f->arena);
    masked_lm_close(&f->model);
    device_close(f->device);
    tokenizer_cache_free(f->cache);
    tokenizer_free(f->tokenizer);
}

/* ---- one text ---- */

/* The best candidates of a row of probabilities, best first; of equals the lower id. An
 * insertion into a sorted list of top_k: most words fail its first comparison. */
static void choose(struct filler *f, const float *p, int64_t vocab_size) {
    int64_t count = 0;
    for (int64_t id = 0; id < vocab_size; id++) {
        if (count == f->top_k && !(p[id] > f->candidates[count - 1].score))
            continue;
        int64_t at = count < f->top_k ? count++ : count - 1;
        for (; at > 0 && p[id] > f->candidates[at - 1].score; at--)
            f->candidates[at] = f->candidates[at - 1];
        f->candidates[at] = (struct candidate){p[id], (int32_t)id};
    }
}

static enum status add_decoded(struct filler *f, const int32_t *ids, size_t count,
                               bool skip_special_tokens, struct error *err) {
    buffer_clear(&f->text);
    TRY(tokenizer_decode(f->tokenizer, ids, count, skip_special_tokens, &f->text, err));
    return buffer_add_json_string(&f->line, f->text.data ? f->text.data : "",
                                  f->text.length, err);
}

/* The text with `id` at `place`. The pipeline leaves out <pad>, and special tokens unless
 * other masks must stay visible. */
static enum status add_sequence(struct filler *f, int64_t place, int32_t id,
                                bool skip_special_tokens, struct error *err) {
    const int32_t pad = tokenizer_specials(f->tokenizer).pad;
    int32_t *ids = f->ids.items + f->ids.count; /* room for a copy is reserved */
    size_t count = 0;
    for (size_t i = 0; i < f->ids.count; i++) {
        const int32_t token = (int64_t)i == place ? id : f->ids.items[i];
        if (token != pad)
            ids[count++] = token;
    }
    return add_decoded(f, ids, count, skip_special_tokens, err);
}

/* [{"score": ..., "token": ..., "token_str": ..., "sequence": ...}, ...] */
static enum status add_candidates(struct filler *f, int64_t place, bool is_single,
                                  struct error *err) {
    for (int64_t k = 0; k < f->top_k; k++) {
        const struct candidate *c = &f->candidates[k];
        TRY(buffer_print(&f->line, err,
                         "%s{\"score\": %.9g, \"token\": %" PRId32 ", \"token_str\": ",
                         k ? ", " : "[", (double)c->score, c->id));
        TRY(add_decoded(f, &c->id, 1, false, err));
        TRY(buffer_print(&f->line, err, ", \"sequence\": "));
        TRY(add_sequence(f, place, c->id, is_single, err));
        TRY(buffer_print(&f->line, err, "}"));
    }
    return buffer_print(&f->line, err, "]");
}

/* The masks first .. first + hidden.rows - 1 of the text. */
static enum status add_masks(struct filler *f, struct tensor hidden, int64_t first,
                             bool is_single, struct error *err) {
    const struct tensor p = mlm_head_forward(f->model.head, hidden);
    loss_softmax(p, device_threads(f->device));
    for (int64_t m = 0; m < p.rows; m++) {
        choose(f, tensor_floats(p) + m * p.columns, p.columns);
        TRY(buffer_print(&f->line, err, "%s", first + m ? ", " : ""));
        TRY(add_candidates(f, f->masks[first + m], is_single, err));
    }
    return OK;
}

static enum status predict(struct filler *f, int64_t num_masks, struct error *err) {
    struct tensor hidden;
    const int32_t starts[] = {0, (int32_t)f->ids.count};
    const uint32_t number = 0;
    const struct batch batch = {.num_sequences = 1,
                                .num_tokens = (int64_t)f->ids.count,
                                .input_ids = f->ids.items,
                                .starts = starts,
                                .sequence_numbers = &number,
                                .output_rows = f->masks,
                                .num_output_rows = num_masks};
    TRY(encoder_forward(f->model.encoder, &batch, (struct pass){0}, &hidden, err));
    buffer_clear(&f->line);
    TRY(buffer_print(&f->line, err, "%s", num_masks > 1 ? "[" : ""));
    for (int64_t m = 0; m < num_masks; m += HEAD_ROWS) {
        const int64_t left = num_masks - m, rows = left < HEAD_ROWS ? left : HEAD_ROWS;
        TRY(add_masks(f, tensor_rows(hidden, m, rows), m, num_masks == 1, err));
    }
    TRY(device_check(f->device, err));
    return buffer_print(&f->line, err, "%s\n", num_masks > 1 ? "]" : "");
}

/* f->ids and f->masks of a text. */
static enum status encode(struct filler *f, const char *text, size_t length,
                          int64_t *num_masks, struct error *err) {
    const int32_t mask = tokenizer_specials(f->tokenizer).mask;
    f->ids.count = 0;
    *num_masks = 0;
    TRY(tokenizer_encode_pair(f->tokenizer, f->cache, text, length, NULL, 0, 0, &f->ids,
                              err));
    if ((int64_t)f->ids.count > f->max_tokens)
        return error_set(err, ERR_INPUT, "expected at most %" PRId64 " tokens, found %zu",
                         f->max_tokens, f->ids.count);
    for (size_t i = 0; i < f->ids.count; i++)
        if (f->ids.items[i] == mask)
            f->masks[(*num_masks)++] = (int32_t)i;
    if (*num_masks == 0)
        return error_set(err, ERR_INPUT, "expected a text with <mask>, found none");
    return ids_reserve(&f->ids, f->ids.count, err); /* see add_sequence */
}

static enum status answer(struct filler *f, const char *text, size_t length,
                          struct error *err) {
    int64_t num_masks;
    TRY(encode(f, text, length, &num_masks, err));
    TRY(predict(f, num_masks, err));
    fwrite(f->line.data, 1, f->line.length, stdout); /* options_finish checks stdout */
    return OK;
}

/* ---- the stream ---- */

static enum status answer_lines(struct filler *f, struct reader *reader,
                                struct error *err) {
    for (;;) {
        char *line;
        size_t length;
        if (!reader_line_ready(reader))
            fflush(stdout); /* whoever asks line by line waits for it */
        TRY(reader_line(reader, &line, &length, err));
        if (!line)
            return OK;
        if (length && line[length - 1] == '\r' && reader_line_was_ended(reader))
            length--;
        if (answer(f, line, length, err) != OK)
            return error_context(err, "%s:%" PRId64, reader_path(reader),
                                 reader_line_number(reader));
    }
}

static enum status run(const struct call *call, struct error *err) {
    struct filler f = {.values = call->values};
    struct reader *reader = NULL;
    enum status status = open_filler(&f, err);
    if (status == OK)
        status = reader_open(&reader, "-", err);
    if (status == OK)
        status = answer_lines(&f, reader, err);
    reader_close(reader);
    close_filler(&f);
    return status;
}

int fill_mask_command(int argc, char **argv) {
    struct values values = {0};
    return options_run(&command, &values, argc, argv, run);
}
