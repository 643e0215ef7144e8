/* norm - the table of kinds and what all of them share. */
#include "encoder/norm.h"

#include <string.h>

#define NORM_ROW(word) &norm_##word,
const struct norm_kind *const norm_kinds[] = {NORM_KINDS(NORM_ROW) NULL};

const struct norm_kind *norm_find(const char *name) {
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        if (strcmp((*kind)->name, name) == 0)
            return *kind;
    return NULL;
}

void norm_declare(struct norm *n, const struct norm_kind *kind, enum norm_affine affine,
                  double eps, int64_t width, int threads, struct parameters *p,
                  bool is_head, const char *name) {
    const struct parameter_spec weight = {.init = PARAMETER_ONE, .is_head = is_head};
    const struct parameter_spec bias = {.init = PARAMETER_ZERO, .is_head = is_head};
    *n = (struct norm){
        .kind = kind, .width = width, .eps = (float)eps, .threads = threads};
    if (affine != AFFINE_NONE)
        n->weight = parameters_add(p, weight, width, 0, "%s.weight", name);
    if (affine == AFFINE_BOTH)
        n->bias = parameters_add(p, bias, width, 0, "%s.bias", name);
}

void norm_layout(struct norm *n, struct arena *arena, int64_t max_rows) {
    if (n->kind)
        n->saved = ARENA_TAKE(arena, float, max_rows * n->kind->saved_per_row);
}

void norm_forward(const struct norm *n, struct tensor y, struct tensor x) {
    n->kind->forward(n, y, x);
}

void norm_backward(const struct norm *n, struct tensor dx, struct tensor dy,
                   struct tensor x) {
    n->kind->backward(n, dx, dy, x);
}
