/* onednn - the products of the encoder on oneDNN 2.6 or 3.x: only encoder/onednn* include
 * dnnl.h.
 *
 * A device is an engine, a stream and a thread count; it lives in the caller's context.
 * Products are cached by shape. A failing product is kept by the device, as ferror()
 * keeps a stream's, so that forward code reads like the formula: device_check() once a
 * step reports the first failure.
 *
 * oneDNN 2.6 leaves output unwritten, without an error, when the OpenMP team is smaller
 * than omp_get_max_threads(): device_open() turns dynamic teams off, measures the team
 * that it really gets, lowers the thread count to it and checks a product on NaN-filled
 * output. */
#ifndef ENCODER_ONEDNN_H
#define ENCODER_ONEDNN_H

#include <stdbool.h>

#include "base/error.h"
#include "base/notice.h"
#include "encoder/team.h"
#include "encoder/tensor.h"

struct device;

/* threads 0 = as many as the process may use (affinity and cgroup). */
enum status device_open(struct device **d, int threads, const struct notices *notices,
                        struct error *err) MUST_CHECK;
int device_threads(const struct device *d);
/* The threads, and the scratch of passes over rows. */
struct team *device_team(struct device *d);

/* Has the processor, as oneDNN sees it, instructions for products of bf16? */
bool device_has_bf16(const struct device *d);
/* The type of activations and of products' operands, f32 unless set otherwise; to be set
 * before layers are declared. ERR_USAGE for bf16 where device_has_bf16() says no. */
enum status device_set_dtype(struct device *d, enum dtype dtype,
                             struct error *err) MUST_CHECK;
enum dtype device_dtype(const struct device *d);
/* The same by the word of the option that commands share: "auto" is bf16 where the
 * processor has it. */
#define DEVICE_DTYPES "auto|f32|bf16"
#define DEVICE_DTYPE_HELP \
    "type of products' operands; auto = bf16 where the processor multiplies it"
enum status device_set_dtype_named(struct device *d, const char *word,
                                   struct error *err) MUST_CHECK;

/* "oneDNN 2.6.3, avx512_core_bf16, bf16, 2 threads". */
const char *device_description(const struct device *d);
enum status device_check(struct device *d, struct error *err) MUST_CHECK;
void device_close(struct device *d);

/* Weights are always f32; x, y and their gradients are f32 or bf16, as their tensors say.
 * Where a product runs faster on a copy of its weights in blocks (pack.h), and always in
 * bf16, the copy is made on the way, into room that device_reserve() took when the layer
 * was declared: it stays in the cache until the product has read it, costs as much memory
 * traffic as reading stored copies would, and there is no stored copy to keep up to date.
 */
void device_reserve(struct device *d, int64_t rows, int64_t columns);
/* The same for the operands of weight gradients, when layers are laid out: dy (rows, N)
 * with N <= `outputs`, x (rows, K) with K <= `inputs`. */
void device_reserve_rows(struct device *d, int64_t rows, int64_t outputs, int64_t inputs);
/* Bytes taken by both. */
size_t device_bytes(const struct device *d);

/* y (M, N) = x (M, K) W^T + bias, W (N, K) row-major; bias (N) or NULL. */
void device_product(struct device *d, struct tensor y, struct tensor x,
                    struct tensor weight, const float *bias);
/* dx (M, K) = dy (M, N) W; or += it. */
void device_product_input(struct device *d, struct tensor dx, struct tensor dy,
                          struct tensor weight);
void device_product_input_add(struct device *d, struct tensor dx, struct tensor dy,
                              struct tensor weight);
/* dW (N, K) = dy^T x, or += it; dW is f32. */
void device_product_weight(struct device *d, struct tensor dweight, struct tensor dy,
                           struct tensor x, bool add);
#endif
