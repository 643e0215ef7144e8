/* encoder - token ids in, hidden states out: embeddings, num_hidden_layers blocks, final
 * norm.
 *
 * There is no padding: a batch is N real tokens in a row plus sequence boundaries.
 * Inside, N is rounded up to few sizes so that oneDNN primitives are reused; the extra
 * rows are zero in every gradient.
 *
 *   encoder_declare    names the parameters, once
 *   encoder_layout     takes saved arrays from an arena; twice: to measure, to hand out
 *   encoder_forward    hidden states of the rows that the head reads
 *   encoder_backward   their gradient to every parameter, added to what is there
 *
 * Nothing is allocated between layout and the end of a run. */
#ifndef ENCODER_ENCODER_H
#define ENCODER_ENCODER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "encoder/config.h"
#include "encoder/dropout.h"
#include "encoder/norm.h"
#include "encoder/onednn.h"
#include "encoder/parameters.h"
#include "encoder/tensor.h"

struct batch {
    int64_t num_sequences;    /* B */
    int64_t num_tokens;       /* N, all sequences together */
    const int32_t *input_ids; /* N */
    const int32_t *starts;    /* B + 1: sequence b is rows starts[b] .. starts[b+1] */
    const uint32_t
        *sequence_numbers; /* B: place in the step's global batch, names dropout draws */
    const int32_t *output_rows; /* rows whose hidden state the head reads, ascending */
    int64_t num_output_rows;
};

/* What a forward pass is for. Outside training there is no dropout and nothing is kept
 * for backward. */
struct pass {
    bool train;
    uint64_t seed, step;    /* name the dropout draws */
    bool freeze_statistics; /* of norms over a batch: train on the running ones */
};

/* The most that any batch will hold. */
struct limits {
    int64_t tokens, sequences, tokens_per_sequence, output_rows;
};

/* Streams of RNG_DROPOUT: sites 0 embeddings, then 3 a layer, then the heads'. */
enum {
    DROPOUT_SITE_EMBEDDINGS = 0,
    DROPOUT_SITE_LAYERS = 1,
    DROPOUT_SITE_HEADS = 1 << 16
};

struct encoder;

/* Owns its memory except parameters; `config`, `device` and `parameters` must outlive it.
 */
enum status encoder_declare(struct encoder **e, const struct config *config,
                            struct device *device, struct parameters *parameters,
                            struct error *err) MUST_CHECK;
/* Takes activations for batches within `limits`, with `train` those that backward needs
 * too. Called twice with the same arguments: on an arena that measures, then on one with
 * memory. */
void encoder_layout(struct encoder *e, struct arena *arena, struct limits limits,
                    bool train);
/* Hidden states (num_output_rows, config_stream_size()), valid until the next forward.
 * ERR_INPUT when a batch breaks the limits, a sequence is longer than config_max_tokens()
 * or an id is outside the table. */
enum status encoder_forward(struct encoder *e, const struct batch *batch,
                            struct pass pass, struct tensor *output,
                            struct error *err) MUST_CHECK;
/* `doutput`, of the output's shape, may be overwritten. Same batch and pass as the
 * forward. */
void encoder_backward(struct encoder *e, const struct batch *batch, struct pass pass,
                      struct tensor doutput);
/* What the norms tell of the last training batch, as means over their sites. */
struct norm_figures {
    int count; /* 0: these norms tell nothing */
    const char *const *names;
    double values[NORM_MOST_FIGURES];
};
struct norm_figures encoder_norm_figures(const struct encoder *e);
/* The word table (V, D): the MLM head's decoder is tied to it. */
struct parameter *encoder_word_embeddings(const struct encoder *e);
void encoder_free(struct encoder *e);

#endif
