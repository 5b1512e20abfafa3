/* kernel_library.c - runs oneDNN primitives that compute the same as kvreel's kernels, as
 * references for timing. */
#include "harness/bench/kernel_library.h"

#include <stdlib.h>
#include <string.h>

#include "harness/core/onednn.h"
#include "harness/core/onednn_guard.h"

enum { MAX_MEMORIES = 4 };

struct kvr_kernel_library {
    const struct entry *entry;
    const struct kvr_case_kit *kit;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive; /* NULL: entry->run computes the result without a primitive */
    int n;
    dnnl_exec_arg_t arg[MAX_MEMORIES];
    float *scores; /* [tokens, keys] */
};

struct entry {
    const char *kernel, *name;
    enum kvr_status (*open)(struct kvr_kernel_library *l); /* NULL: there is nothing to prepare */
    enum kvr_status (*run)(const struct kvr_kernel_library *l);
};

static enum kvr_status check(dnnl_status_t s, const char *what)
{
    return kvr_onednn_done(s, "kernels", what);
}

#define DNNL_TRY(call) KVR_TRY(check(call, #call))

/* Creates the oneDNN memory descriptor of a row-major F32 matrix [rows, cols]. If cols is 0, it
 * describes a vector [rows]. */
static enum kvr_status describe(dnnl_memory_desc_t *md, int64_t rows, int64_t cols)
{
    const dnnl_dims_t dims = { rows, cols };

    return check(
        dnnl_memory_desc_init_by_tag(md, cols ? 2 : 1, dims, dnnl_f32, cols ? dnnl_ab : dnnl_a),
        "the creation of a memory descriptor");
}

static enum kvr_status bind(struct kvr_kernel_library *l, int which, const dnnl_memory_desc_t *md,
                            void *p)
{
    dnnl_exec_arg_t *a = &l->arg[l->n];

    DNNL_TRY(kvr_dnnl_memory_create(&a->memory, md, l->engine, p));
    a->arg = which;
    l->n++;
    return KVR_OK;
}

static enum kvr_status make(struct kvr_kernel_library *l, const_dnnl_op_desc_t op)
{
    dnnl_primitive_desc_t pd;
    enum kvr_status st;

    DNNL_TRY(kvr_dnnl_primitive_desc_create(&pd, op, NULL, l->engine, NULL));
    st = check(kvr_dnnl_primitive_create(&l->primitive, pd), "the creation of a primitive");
    dnnl_primitive_desc_destroy(pd);
    return st;
}

/* Creates the primitive of an elementwise operation that reads argument 0 and writes argument
 * `out`. */
static enum kvr_status eltwise(struct kvr_kernel_library *l, dnnl_alg_kind_t kind, int out)
{
    const struct kvr_case_arg *a = l->kit->arg;
    dnnl_eltwise_desc_t op;
    dnnl_memory_desc_t md;

    KVR_TRY(describe(&md, (int64_t)a[0].n, 0));
    DNNL_TRY(dnnl_eltwise_forward_desc_init(&op, dnnl_forward_inference, kind, &md, 1, 0));
    KVR_TRY(make(l, &op));
    KVR_TRY(bind(l, DNNL_ARG_SRC, &md, a[0].p));
    return bind(l, DNNL_ARG_DST, &md, a[out].p);
}

static enum kvr_status open_gelu(struct kvr_kernel_library *l)
{
    return eltwise(l, dnnl_eltwise_gelu_tanh, 0);
}

static enum kvr_status open_silu(struct kvr_kernel_library *l)
{
    return eltwise(l, dnnl_eltwise_swish, 1);
}

static enum kvr_status open_add(struct kvr_kernel_library *l)
{
    const struct kvr_case_arg *a = l->kit->arg;
    dnnl_memory_desc_t md;
    dnnl_binary_desc_t op;

    KVR_TRY(describe(&md, (int64_t)a[0].n, 0));
    DNNL_TRY(dnnl_binary_desc_init(&op, dnnl_binary_add, &md, &md, &md));
    KVR_TRY(make(l, &op));
    KVR_TRY(bind(l, DNNL_ARG_SRC_0, &md, a[0].p));
    KVR_TRY(bind(l, DNNL_ARG_SRC_1, &md, a[1].p));
    return bind(l, DNNL_ARG_DST, &md, a[0].p);
}

static enum kvr_status open_norm(struct kvr_kernel_library *l)
{
    const struct kvr_case_arg *a = l->kit->arg;
    const int64_t d = l->kit->shape[1];
    dnnl_layer_normalization_desc_t op;
    dnnl_memory_desc_t md, vector;

    KVR_TRY(describe(&md, l->kit->shape[0], d));
    KVR_TRY(describe(&vector, d, 0));
    DNNL_TRY(dnnl_layer_normalization_forward_desc_init(&op, dnnl_forward_inference, &md, NULL,
                                                        1e-6f, dnnl_use_scale | dnnl_use_shift));
    KVR_TRY(make(l, &op));
    KVR_TRY(bind(l, DNNL_ARG_SRC, &md, a[0].p));
    KVR_TRY(bind(l, DNNL_ARG_DST, &md, a[1].p));
    KVR_TRY(bind(l, DNNL_ARG_SCALE, &vector, a[2].p));
    return bind(l, DNNL_ARG_SHIFT, &vector, a[3].p);
}

/* Prepares the reference for ops.cross_attend: its two matrix products, one head after the other,
 * without softmax. */
static enum kvr_status open_products(struct kvr_kernel_library *l)
{
    l->scores = malloc((size_t)l->kit->shape[0] * (size_t)l->kit->shape[3] * sizeof *l->scores);
    return l->scores ? KVR_OK
                     : kvr_fail(KVR_ENOMEM,
                                "kernels: out of memory while allocating the attention scores");
}

static enum kvr_status run_products(const struct kvr_kernel_library *l)
{
    const int *s = l->kit->shape;
    const dnnl_dim_t m = s[0], d = s[2], n = s[3], width = (dnnl_dim_t)s[1] * d;
    const struct kvr_case_arg *a = l->kit->arg;

    for (int h = 0; h < s[1]; h++) {
        const float *q = (const float *)a[0].p + h * d, *k = (const float *)a[2].p + h * d;
        const float *v = (const float *)a[3].p + h * d;
        float *out = (float *)a[1].p + h * d;

        DNNL_TRY(kvr_dnnl_sgemm('N', 'T', m, n, d, 1, q, width, k, width, 0, l->scores, n));
        DNNL_TRY(kvr_dnnl_sgemm('N', 'N', m, d, n, 1, l->scores, n, v, width, 0, out, width));
    }
    return KVR_OK;
}

/* Reference for attend.scores: a matrix product of the same size. It reads the packed panels as a
 * plain matrix, so its time is comparable, but its result differs. */
static enum kvr_status run_scores(const struct kvr_kernel_library *l)
{
    const dnnl_dim_t m = l->kit->shape[0], n = l->kit->shape[1], d = l->kit->shape[2];
    const struct kvr_case_arg *a = l->kit->arg;

    return check(kvr_dnnl_sgemm('N', 'N', m, n, d, 1, a[1].p, d, a[2].p, n, 0, a[0].p, n),
                 "the product of two F32 matrices (sgemm)");
}

static enum kvr_status run_values(const struct kvr_kernel_library *l)
{
    const dnnl_dim_t m = l->kit->shape[0], n = l->kit->shape[1], d = l->kit->shape[2];
    const struct kvr_case_arg *a = l->kit->arg;

    return check(kvr_dnnl_sgemm('N', 'N', m, d, n, 1, a[1].p, n, a[2].p, d, 1, a[0].p, d),
                 "the product of two F32 matrices (sgemm)");
}

static const struct entry entries[] = {
    { "ops.gelu", "oneDNN gelu", open_gelu, NULL },
    { "ops.silu", "oneDNN swish", open_silu, NULL },
    { "ops.add", "oneDNN add", open_add, NULL },
    { "ops.norm_affine", "oneDNN layer norm", open_norm, NULL },
    { "ops.cross_attend", "oneDNN products", open_products, run_products },
    { "attend.scores", "oneDNN product", NULL, run_scores },
    { "attend.add_values", "oneDNN product", NULL, run_values },
};

enum kvr_status kvr_kernel_library_open(struct kvr_kernel_library **out,
                                        const struct kvr_kernel_case *c,
                                        const struct kvr_case_kit *k)
{
    const struct entry *e = NULL;
    struct kvr_kernel_library *l;
    enum kvr_status st;

    *out = NULL;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (strcmp(entries[i].kernel, c->name) == 0)
            e = &entries[i];
    if (!e)
        return KVR_OK;
    l = calloc(1, sizeof *l);
    if (!l)
        return kvr_fail(KVR_ENOMEM, "kernels: out of memory");
    l->entry = e;
    l->kit = k;
    st = check(kvr_dnnl_engine_create(&l->engine, dnnl_cpu, 0), "the creation of an engine");
    if (st == KVR_OK)
        st = check(kvr_dnnl_stream_create(&l->stream, l->engine, dnnl_stream_default_flags),
                   "the creation of a stream");
    if (st == KVR_OK && e->open)
        st = e->open(l);
    if (st == KVR_OK)
        *out = l;
    else
        kvr_kernel_library_close(&l);
    return st;
}

enum kvr_status kvr_kernel_library_run(const struct kvr_kernel_library *l)
{
    if (l->entry->run)
        return l->entry->run(l);
    DNNL_TRY(kvr_dnnl_primitive_execute(l->primitive, l->stream, l->n, l->arg));
    return check(kvr_dnnl_stream_wait(l->stream), "waiting for the stream");
}

const char *kvr_kernel_library_name(const struct kvr_kernel_library *l)
{
    return l->entry->name;
}

void kvr_kernel_library_close(struct kvr_kernel_library **out)
{
    struct kvr_kernel_library *l = *out;

    if (!l)
        return;
    for (int i = 0; i < l->n; i++)
        dnnl_memory_destroy(l->arg[i].memory);
    if (l->primitive)
        dnnl_primitive_destroy(l->primitive);
    if (l->stream)
        dnnl_stream_destroy(l->stream);
    if (l->engine)
        dnnl_engine_destroy(l->engine);
    free(l->scores);
    free(l);
    *out = NULL;
}
