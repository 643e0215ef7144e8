/* linear - y = x W^T + b.
 *
 * In bf16 and f32 alike the weight is f32; the product converts it on the way (onednn.h).
 */
#include "encoder/linear.h"

#include "encoder/columns.h"

void linear_declare(struct linear *l, struct device *device, struct parameters *p,
                    struct parameter_spec spec, int64_t in, int64_t out,
                    const char *name) {
    spec.is_product = true;
    const bool writes = spec.stream && spec.side == PARAMETER_WRITES;
    const struct parameter_spec bias = {.init = PARAMETER_ZERO,
                                        .is_head = spec.is_head,
                                        .side = spec.side,
                                        .stream = writes ? spec.stream : 0};
    l->device = device;
    l->weight = parameters_add(p, spec, out, in, "%s.weight", name);
    l->bias = parameters_add(p, bias, out, 0, "%s.bias", name);
    device_reserve(device, out, in);
}

static struct tensor matrix(const struct parameter *weight, float *data) {
    return tensor_f32(data, weight->shape[0], weight->shape[1]);
}

void linear_forward(const struct linear *l, struct tensor y, struct tensor x) {
    device_product(l->device, y, x, matrix(l->weight, l->weight->value), l->bias->value);
}

void linear_backward_weight(const struct linear *l, struct tensor dy, struct tensor x) {
    device_product_weight(l->device, matrix(l->weight, l->weight->gradient), dy, x,
                          parameters_adds(l->weight));
}

void linear_backward_input(const struct linear *l, struct tensor dx, struct tensor dy) {
    device_product_input(l->device, dx, dy, matrix(l->weight, l->weight->value));
}

void linear_backward(const struct linear *l, struct tensor dx, struct tensor dy,
                     struct tensor x) {
    linear_backward_weight(l, dy, x);
    columns_sum(l->bias->gradient, dy, device_threads(l->device));
    if (dx.data)
        linear_backward_input(l, dx, dy);
}
