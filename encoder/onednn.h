/* onednn - the products of the encoder on oneDNN 2.6 or 3.x: the only file that includes
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

#include "base/error.h"
#include "base/notice.h"
#include "encoder/tensor.h"

struct device;

/* threads 0 = as many as the process may use (affinity and cgroup). */
enum status device_open(struct device **d, int threads, const struct notices *notices,
                        struct error *err) MUST_CHECK;
int device_threads(const struct device *d);
/* "oneDNN 2.6.3, avx512_core_bf16, 2 threads". */
const char *device_description(const struct device *d);
enum status device_check(struct device *d, struct error *err) MUST_CHECK;
void device_close(struct device *d);

/* y (M, N) = x (M, K) W^T + bias, W (N, K) row-major; bias (N) or NULL. */
void device_product(struct device *d, struct tensor y, struct tensor x,
                    struct tensor weight, const float *bias);
/* dx (M, K) = dy (M, N) W. */
void device_product_input(struct device *d, struct tensor dx, struct tensor dy,
                          struct tensor weight);
/* dW (N, K) += dy^T x. */
void device_product_weight(struct device *d, struct tensor dweight, struct tensor dy,
                           struct tensor x);
#endif
