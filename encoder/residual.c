/* residual - the add that ends a sublayer. */
#include "encoder/residual.h"

#include "encoder/vector.h"

static inline float *row_of(struct tensor t, int64_t n) {
    return t.data ? tensor_floats(t) + n * t.columns : NULL;
}

HOT static void add_row(float *v, const float *x, const float *z, const float *bottom,
                        const float *gain, float alpha, int64_t width) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        v[c] = alpha * (gain ? gain[c] * x[c] : x[c]) + z[c] + (bottom ? bottom[c] : 0);
}

HOT static void add_scaled(float *y, const float *x, float factor, int64_t width) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        y[c] += factor * x[c];
}

HOT static void branch_row(float *dz, const float *dv, const float *dsecond, float kappa,
                           int64_t width) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        dz[c] = dv[c] + (dsecond ? kappa * dsecond[c] : 0);
}

HOT static void skip_row(float *dx, const float *dv, const float *dbottom,
                         const float *gain, float alpha, int64_t width) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        dx[c] += alpha * (gain ? gain[c] * dv[c] : dv[c]) + (dbottom ? dbottom[c] : 0);
}

static void drop(const struct residual *r, float *z, int64_t width, int64_t n) {
    dropout_row(z, width, r->rate, r->stream, r->names.sequence[n], r->names.token[n], 0);
}

void residual_forward(const struct residual *r, struct tensor v, struct tensor x,
                      struct tensor z, struct tensor bottom, struct tensor second) {
    const int64_t width = z.columns;
#pragma omp parallel for schedule(static) num_threads(r->threads)
    for (int64_t n = 0; n < z.rows; n++) {
        float *branch = row_of(z, n);
        drop(r, branch, width, n);
        if (second.data)
            add_scaled(row_of(second, n), branch, r->kappa, width);
        add_row(row_of(v, n), row_of(x, n), branch, row_of(bottom, n), r->gain, r->alpha,
                width);
    }
}

void residual_branch_backward(const struct residual *r, struct tensor dz,
                              struct tensor dv, struct tensor dsecond) {
#pragma omp parallel for schedule(static) num_threads(r->threads)
    for (int64_t n = 0; n < dz.rows; n++) {
        branch_row(row_of(dz, n), row_of(dv, n), row_of(dsecond, n), r->kappa,
                   dz.columns);
        drop(r, row_of(dz, n), dz.columns, n);
    }
}

void residual_skip_backward(const struct residual *r, struct tensor dx, struct tensor dv,
                            struct tensor dbottom, const int32_t *pick) {
#pragma omp parallel for schedule(static) num_threads(r->threads)
    for (int64_t n = 0; n < dv.rows; n++)
        skip_row(row_of(dx, pick ? pick[n] : n), row_of(dv, n), row_of(dbottom, n),
                 r->gain, r->alpha, dx.columns);
}
