/* onednn_product - making and running one product.
 *
 * Everything is oneDNN's matmul with plain strides, and B in blocks of 16 x 64 where
 * packed. Its other primitives were measured and left aside: inner_product's f32 backward
 * runs at half speed in its own layout; reduction (for bias gradients) takes 60 ms for
 * what a loop does in 1; normalisation and softmax know nothing of gains, masks and
 * dropout in the same pass.
 *
 * C += is a sum post-op; bias is an argument of matmul. The two versions' C interfaces
 * differ in what a memory descriptor is (a struct in 2.x, a handle in 3.x) and in how a
 * primitive is described: the block below hides that, all else is common. */
#include "encoder/onednn_product.h"

#include <string.h>

/* ---- What differs between oneDNN 2.x and 3.x. ---- */
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t layout; /* a handle */

static dnnl_status_t layout_strided(layout *l, dnnl_data_type_t type,
                                    const dnnl_dims_t dims, const dnnl_dims_t strides) {
    return dnnl_memory_desc_create_with_strides(l, 2, dims, type, strides);
}
static dnnl_status_t layout_tagged(layout *l, dnnl_data_type_t type,
                                   const dnnl_dims_t dims, dnnl_format_tag_t tag) {
    return dnnl_memory_desc_create_with_tag(l, 2, dims, type, tag);
}
static void layout_free(layout *l) {
    if (*l)
        dnnl_memory_desc_destroy(*l);
}
static dnnl_status_t memory_make(dnnl_memory_t *m, const layout *l, dnnl_engine_t e) {
    return dnnl_memory_create(m, *l, e, DNNL_MEMORY_NONE);
}
static dnnl_status_t matmul_describe(dnnl_primitive_desc_t *pd, dnnl_engine_t e,
                                     const layout *a, const layout *b, const layout *bias,
                                     const layout *c, dnnl_primitive_attr_t attributes) {
    return dnnl_matmul_primitive_desc_create(pd, e, *a, *b, bias ? *bias : NULL, *c,
                                             attributes);
}
static dnnl_status_t append_sum(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef);
}
#else
typedef dnnl_memory_desc_t layout; /* a plain struct */

static dnnl_status_t layout_strided(layout *l, dnnl_data_type_t type,
                                    const dnnl_dims_t dims, const dnnl_dims_t strides) {
    return dnnl_memory_desc_init_by_strides(l, 2, dims, type, strides);
}
static dnnl_status_t layout_tagged(layout *l, dnnl_data_type_t type,
                                   const dnnl_dims_t dims, dnnl_format_tag_t tag) {
    return dnnl_memory_desc_init_by_tag(l, 2, dims, type, tag);
}
static void layout_free(layout *l) { (void)l; }
static dnnl_status_t memory_make(dnnl_memory_t *m, const layout *l, dnnl_engine_t e) {
    return dnnl_memory_create(m, l, e, DNNL_MEMORY_NONE);
}
static dnnl_status_t matmul_describe(dnnl_primitive_desc_t *pd, dnnl_engine_t e,
                                     const layout *a, const layout *b, const layout *bias,
                                     const layout *c, dnnl_primitive_attr_t attributes) {
    dnnl_matmul_desc_t matmul;
    const dnnl_status_t status = dnnl_matmul_desc_init(&matmul, a, b, bias, c);
    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(pd, &matmul, attributes, e, NULL);
}
static dnnl_status_t append_sum(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_sum(ops, 1);
}
#endif

#define TRY_DNNL(call)                          \
    do {                                        \
        dnnl_status_t try_dnnl_status = (call); \
        if (try_dnnl_status != dnnl_success)    \
            return try_dnnl_status;             \
    } while (0)

/* ---- Making. ---- */

struct layouts {
    layout a, b, c, bias;
};

static dnnl_data_type_t type_of(enum dtype dtype) {
    return dtype == DTYPE_F32 ? dnnl_f32 : dnnl_bf16;
}

/* A row-major matrix of `rows` x `columns`, or one stored as its transpose. */
static dnnl_status_t layout_matrix(layout *l, enum dtype dtype, int64_t rows,
                                   int64_t columns, bool transposed) {
    const dnnl_dims_t dims = {rows, columns};
    const dnnl_dims_t strides = {transposed ? 1 : columns, transposed ? rows : 1};
    return layout_strided(l, type_of(dtype), dims, strides);
}

static dnnl_status_t layout_b(layout *l, struct product_shape s) {
    const dnnl_dims_t dims = {s.k, s.n};
    if (s.b_packed)
        return layout_tagged(l, type_of(s.in), dims,
                             s.in == DTYPE_F32 ? dnnl_BA16a64b : dnnl_BA16a64b2a);
    return layout_matrix(l, s.in, s.k, s.n, s.b_transposed);
}

static dnnl_status_t layouts_make(struct layouts *l, struct product_shape s) {
    TRY_DNNL(layout_matrix(&l->a, s.in, s.m, s.k, s.a_transposed));
    TRY_DNNL(layout_b(&l->b, s));
    TRY_DNNL(layout_matrix(&l->c, s.out, s.m, s.n, false));
    return layout_matrix(&l->bias, DTYPE_F32, 1, s.n, false);
}

static dnnl_status_t attributes_make(dnnl_primitive_attr_t *attributes, bool add) {
    dnnl_post_ops_t ops;
    TRY_DNNL(dnnl_primitive_attr_create(attributes));
    if (!add)
        return dnnl_success;
    TRY_DNNL(dnnl_post_ops_create(&ops));
    dnnl_status_t status = append_sum(ops);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(*attributes, ops);
    dnnl_post_ops_destroy(ops);
    return status;
}

static dnnl_status_t describe(dnnl_primitive_desc_t *description, struct product_shape s,
                              const struct layouts *l, dnnl_engine_t engine) {
    dnnl_primitive_attr_t attributes = NULL;
    const layout *bias = s.bias ? &l->bias : NULL;
    dnnl_status_t status = attributes_make(&attributes, s.add);
    if (status == dnnl_success)
        status =
            matmul_describe(description, engine, &l->a, &l->b, bias, &l->c, attributes);
    if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    return status;
}

static dnnl_status_t memories_make(struct product *p, const struct layouts *l,
                                   dnnl_engine_t engine) {
    TRY_DNNL(memory_make(&p->a, &l->a, engine));
    TRY_DNNL(memory_make(&p->b, &l->b, engine));
    TRY_DNNL(memory_make(&p->c, &l->c, engine));
    return memory_make(&p->bias, &l->bias, engine);
}

static void layouts_free(struct layouts *l) {
    layout_free(&l->a);
    layout_free(&l->b);
    layout_free(&l->c);
    layout_free(&l->bias);
}

dnnl_status_t product_make(struct product *p, struct product_shape shape,
                           dnnl_engine_t engine) {
    struct layouts l = {0};
    dnnl_primitive_desc_t description = NULL;
    *p = (struct product){.shape = shape};
    dnnl_status_t status = layouts_make(&l, shape);
    if (status == dnnl_success)
        status = describe(&description, shape, &l, engine);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&p->primitive, description);
    if (status == dnnl_success)
        status = memories_make(p, &l, engine);
    if (description)
        dnnl_primitive_desc_destroy(description);
    layouts_free(&l);
    if (status != dnnl_success)
        product_free(p);
    return status;
}

bool product_can_pack(enum dtype dtype, dnnl_engine_t engine) {
    const struct product_shape shape = {
        .m = 64, .n = 64, .k = 64, .in = dtype, .out = dtype, .b_packed = true};
    struct layouts l = {0};
    dnnl_primitive_desc_t description = NULL;
    const char *name = "";
    dnnl_status_t status = layouts_make(&l, shape);
    if (status == dnnl_success)
        status = describe(&description, shape, &l, engine);
    if (status == dnnl_success)
        status =
            dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, &name);
    const bool can = status == dnnl_success && strncmp(name, "brg", 3) == 0;
    if (description)
        dnnl_primitive_desc_destroy(description);
    layouts_free(&l);
    return can;
}

void product_free(struct product *p) {
    const dnnl_memory_t memories[] = {p->a, p->b, p->c, p->bias};
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++)
        if (memories[i])
            dnnl_memory_destroy(memories[i]);
    if (p->primitive)
        dnnl_primitive_destroy(p->primitive);
    *p = (struct product){0};
}

/* ---- Running. ---- */

bool product_is_same(struct product_shape a, struct product_shape b) {
    return a.m == b.m && a.n == b.n && a.k == b.k && a.in == b.in && a.out == b.out &&
           a.a_transposed == b.a_transposed && a.b_transposed == b.b_transposed &&
           a.b_packed == b.b_packed && a.bias == b.bias && a.add == b.add;
}

/* oneDNN takes all data by plain pointers; only C is written. */
dnnl_status_t product_run(struct product *p, dnnl_stream_t stream, const void *a,
                          const void *b, void *c, const float *bias) {
    dnnl_memory_set_data_handle(p->a, (void *)a);
    dnnl_memory_set_data_handle(p->b, (void *)b);
    dnnl_memory_set_data_handle(p->c, c);
    dnnl_memory_set_data_handle(p->bias, (void *)bias);
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, p->a},
                                         {DNNL_ARG_WEIGHTS, p->b},
                                         {DNNL_ARG_DST, p->c},
                                         {DNNL_ARG_BIAS, p->bias}};
    TRY_DNNL(dnnl_primitive_execute(p->primitive, stream, bias ? 4 : 3, arguments));
    return dnnl_stream_wait(stream);
}
