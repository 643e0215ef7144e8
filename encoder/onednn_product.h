/* onednn_product - one matrix product as a primitive of oneDNN, 2.6 or 3.x.
 *
 * Private to encoder/onednn*.c, the only files that include dnnl.h. */
#ifndef ENCODER_ONEDNN_PRODUCT_H
#define ENCODER_ONEDNN_PRODUCT_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

#include "encoder/tensor.h"

/* The products are all C (m, n) = A (m, k) B (k, n) [+ bias] [+ C]. */
struct product_shape {
    int64_t m, n, k;
    enum dtype in, out; /* of A and B; of C */
    bool a_transposed, b_transposed;
    bool b_packed; /* B lies in blocks (pack.h) */
    bool bias, add;
};

struct product {
    struct product_shape shape;
    uint64_t last_used; /* 0 = an empty place */
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, c, bias;
};

bool product_is_same(struct product_shape a, struct product_shape b);
dnnl_status_t product_make(struct product *p, struct product_shape shape,
                           dnnl_engine_t engine);
/* Does oneDNN run products with B in blocks by its fast kernels here? */
bool product_can_pack(enum dtype dtype, dnnl_engine_t engine);
dnnl_status_t product_run(struct product *p, dnnl_stream_t stream, const void *a,
                          const void *b, void *c, const float *bias);
void product_free(struct product *p);

#endif
