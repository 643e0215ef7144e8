/* checkpoint_read - weights of a model directory into parameters, strictly.
 *
 * The file must fit the model: a tensor that is silently left out, or silently new, gives
 * a model that runs and is wrong. Three parts may come and go, because tasks differ in
 * them: lm_head, pooler and classifier. A head is taken whole or starts new whole; a
 * classifier of another number of labels is new also where its first layer would fit.
 *
 * Matching first, filling after: nothing is written before every tensor of the file and
 * every row of the model has its partner, so that the error can list all that does not
 * fit. What transformers writes twice (a tied decoder) may stand if it is equal to the
 * bit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "encoder/checkpoint.h"
#include "encoder/weights.h"

/* Parts of a model that may be absent, or present without use. */
static const char *const heads[] = {"lm_head.", "pooler.", "classifier."};
enum { NUM_HEADS = sizeof heads / sizeof *heads };

static int head_of(const char *name) {
    for (int i = 0; i < NUM_HEADS; i++)
        if (!strncmp(name, heads[i], strlen(heads[i])))
            return i;
    return -1;
}

struct matching {
    const char *directory;
    const struct weights *weights;
    struct parameters *parameters;
    bool *used; /* of each weight: a row takes it */
    int num_faults;
    struct buffer faults;        /* what makes the file unusable, "; " between */
    bool renewed[NUM_HEADS];     /* heads that start new */
    char reason[NUM_HEADS][256]; /* the first reason of each */
    bool unused[NUM_HEADS];      /* heads of the file that nobody wants */
    struct error *err;
};

static void format_shape(char text[64], int rank, const int64_t *shape) {
    int used = snprintf(text, 64, "[");
    for (int i = 0; i < rank && used < 48; i++)
        used += snprintf(text + used, (size_t)(64 - used), "%s%lld", i ? ", " : "",
                         (long long)shape[i]);
    snprintf(text + used, (size_t)(64 - used), "]");
}

static bool same_shape(const struct parameter *row, const struct safetensor *t) {
    return row->rank == t->rank &&
           !memcmp(row->shape, t->shape, (size_t)row->rank * sizeof *row->shape);
}

static enum status add_fault(struct matching *m, const char *name, const char *fault) {
    return buffer_print(&m->faults, m->err, "%s%s %s", m->num_faults++ ? "; " : "", name,
                        fault);
}

/* A fault of a head's row renews that head; any other is an error. */
static enum status report(struct matching *m, const struct parameter *row,
                          const char *fault) {
    int head = row->is_head ? head_of(weights_short_name(row->name)) : -1;
    if (head < 0)
        return add_fault(m, row->name, fault);
    if (!m->renewed[head])
        snprintf(m->reason[head], sizeof m->reason[head], "%.100s: %s", row->name, fault);
    m->renewed[head] = true;
    return OK;
}

static const struct weight *find_row(const struct matching *m,
                                     const struct parameter *row) {
    const char *name = weights_short_name(row->name);
    const struct weight *found = weights_find(m->weights, name);
    /* transformers ties the decoder's bias to the head's. */
    return found || strcmp(name, "lm_head.bias")
               ? found
               : weights_find(m->weights, "lm_head.decoder.bias");
}

/* For each row of the model: what is it called in the file, has it the shape? */
static enum status match_rows(struct matching *m) {
    for (int i = 0; i < m->parameters->count; i++) {
        const struct parameter *row = m->parameters->rows[i];
        const struct weight *found = find_row(m, row);
        char expected[64], shape[64], fault[160];
        if (found)
            m->used[found - m->weights->items] = true;
        if (!found) {
            TRY(report(m, row, "is missing"));
        } else if (!same_shape(row, found->tensor)) {
            format_shape(expected, row->rank, row->shape);
            format_shape(shape, found->tensor->rank, found->tensor->shape);
            snprintf(fault, sizeof fault, "has shape %s, expected %s", shape, expected);
            TRY(report(m, row, fault));
        }
    }
    return OK;
}

static bool same_bytes(const struct weights *w, const char *a, const char *b) {
    const struct weight *x = weights_find(w, a), *y = weights_find(w, b);
    return x && y && x->tensor->bytes == y->tensor->bytes &&
           !memcmp(x->tensor->data, y->tensor->data, x->tensor->bytes);
}

/* Names that transformers writes, or once wrote, beside the parameters. */
static enum status match_extra(struct matching *m, const struct weight *extra) {
    static const struct {
        const char *name, *twin; /* may stand when equal to the twin */
    } aliases[] = {
        {"embeddings.position_ids", NULL},
        {"lm_head.decoder.weight", "embeddings.word_embeddings.weight"},
        {"lm_head.decoder.bias", "lm_head.bias"},
    };
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        const char *twin = aliases[i].twin;
        if (strcmp(extra->name, aliases[i].name))
            continue;
        if (!twin || !weights_find(m->weights, twin) ||
            same_bytes(m->weights, extra->name, twin))
            return OK;
        return add_fault(m, extra->tensor->name, "differs from what it is tied to");
    }
    int head = head_of(extra->name);
    if (head < 0)
        return add_fault(m, extra->tensor->name, "is unexpected");
    m->unused[head] = true;
    return OK;
}

/* For each tensor of the file that no row took: may it be there? */
static enum status match_extras(struct matching *m) {
    for (int i = 0; i < m->weights->count; i++)
        if (!m->used[i])
            TRY(match_extra(m, &m->weights->items[i]));
    return OK;
}

static enum status fill(struct matching *m, const struct config *config, uint64_t seed) {
    for (int i = 0; i < m->parameters->count; i++) {
        struct parameter *row = m->parameters->rows[i];
        int head = row->is_head ? head_of(weights_short_name(row->name)) : -1;
        const struct weight *found = find_row(m, row);
        if (head >= 0 && m->renewed[head]) {
            parameters_initialise_row(row, config, seed);
            continue;
        }
        TRY(safetensors_to_f32(found->file, found->tensor, row->value, m->err));
        safetensors_release(found->file, found->tensor);
    }
    return OK;
}

/* One line for each head that starts new, one for all that are not used. */
static void tell(const struct matching *m, const struct notices *notices) {
    char unused[128] = "";
    for (int i = 0; i < NUM_HEADS; i++) {
        int length = (int)strlen(heads[i]) - 1;
        if (m->renewed[i])
            notice(notices, "%s: %.*s starts new (%s)", m->directory, length, heads[i],
                   m->reason[i]);
        size_t used = strlen(unused);
        if (m->unused[i] && !m->renewed[i])
            snprintf(unused + used, sizeof unused - used, "%s%.*s", used ? ", " : "",
                     length, heads[i]);
    }
    if (*unused)
        notice(notices, "%s: not used: %s", m->directory, unused);
}

/* The sentence holds as many faults as it has room for; a longer list is told too. */
static enum status refuse(struct matching *m, const struct notices *notices) {
    if (m->faults.length > 700)
        notice(notices, "%s: %s", m->directory, m->faults.data);
    return error_set(m->err, ERR_INCOMPATIBLE,
                     "%s: %d tensors do not fit config.json: %s", m->directory,
                     m->num_faults, m->faults.data);
}

static enum status match(struct matching *m, const struct config *config, uint64_t seed,
                         const struct notices *notices) {
    TRY(match_rows(m));
    TRY(match_extras(m));
    if (m->num_faults)
        return refuse(m, notices);
    TRY(fill(m, config, seed));
    tell(m, notices);
    return OK;
}

enum status checkpoint_read_parameters(const char *directory, const struct config *config,
                                       struct parameters *p, uint64_t seed,
                                       const struct notices *notices, struct error *err) {
    struct weights weights;
    TRY(weights_open(&weights, directory, err));
    struct matching m = {.directory = directory,
                         .weights = &weights,
                         .parameters = p,
                         .used = calloc((size_t)weights.count + 1, sizeof *m.used),
                         .err = err};
    enum status status = m.used
                             ? match(&m, config, seed, notices)
                             : error_set(err, ERR_MEMORY, "%s: out of memory", directory);
    buffer_free(&m.faults);
    free(m.used);
    weights_close(&weights);
    return status;
}
