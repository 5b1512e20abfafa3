/* products_bf16.c - see products_bf16.h. */
#include "harness/bench/products_bf16.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>

#include "harness/core/onednn.h"
#include "harness/core/onednn_guard.h"

enum { SRC, WEIGHTS, DST, N_ROLES };

/* One matrix product. All threads use the same oneDNN primitive, and each thread has its own memory
 * objects. */
struct product {
    dnnl_memory_desc_t of[N_ROLES];
    dnnl_primitive_t p;
    dnnl_memory_t *memory; /* [threads][N_ROLES] */
};

struct kvr_bf16_products {
    dnnl_engine_t engine;
    dnnl_stream_t *stream; /* [threads] */
    int n_threads;
    struct product scores, values;
};

static enum kvr_status done(dnnl_status_t s, const char *what)
{
    return kvr_onednn_done(s, "bench", what);
}

static dnnl_status_t matrix(dnnl_memory_desc_t *md, int64_t rows, int64_t cols, dnnl_data_type_t t,
                            int64_t row, int64_t col)
{
    const dnnl_dims_t dims = { rows, cols }, strides = { row, col };

    return dnnl_memory_desc_init_by_strides(md, 2, dims, t, strides);
}

static enum kvr_status make(struct kvr_bf16_products *b, struct product *x)
{
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd = NULL;
    const int n_threads = omp_get_max_threads();
    enum kvr_status st;

    KVR_TRY(done(dnnl_matmul_desc_init(&desc, &x->of[SRC], &x->of[WEIGHTS], NULL, &x->of[DST]),
                 "a product"));
    /* A oneDNN primitive keeps the number of threads that was set when it was created. Here it is
     * 1, because every thread executes products of its own. */
    omp_set_num_threads(1);
    st = done(kvr_dnnl_primitive_desc_create(&pd, &desc, NULL, b->engine, NULL), "a product");
    if (st == KVR_OK)
        st = done(kvr_dnnl_primitive_create(&x->p, pd), "a product");
    omp_set_num_threads(n_threads);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    x->memory = calloc((size_t)b->n_threads * N_ROLES, sizeof *x->memory);
    if (st == KVR_OK && !x->memory)
        st = kvr_fail(KVR_ENOMEM, "bench: out of memory");
    for (int i = 0; i < b->n_threads * N_ROLES && st == KVR_OK; i++)
        st = done(
            kvr_dnnl_memory_create(&x->memory[i], &x->of[i % N_ROLES], b->engine, DNNL_MEMORY_NONE),
            "an argument");
    return st;
}

static void drop(struct kvr_bf16_products *b, struct product *x)
{
    for (int i = 0; x->memory && i < b->n_threads * N_ROLES; i++)
        if (x->memory[i])
            dnnl_memory_destroy(x->memory[i]);
    free(x->memory);
    if (x->p)
        dnnl_primitive_destroy(x->p);
}

void kvr_bf16_products_close(struct kvr_bf16_products **p)
{
    struct kvr_bf16_products *b = *p;

    if (!b)
        return;
    drop(b, &b->scores);
    drop(b, &b->values);
    for (int i = 0; b->stream && i < b->n_threads; i++)
        if (b->stream[i])
            dnnl_stream_destroy(b->stream[i]);
    free(b->stream);
    if (b->engine)
        dnnl_engine_destroy(b->engine);
    free(b);
    *p = NULL;
}

static enum kvr_status fill(struct kvr_bf16_products *b, int64_t m, int64_t n, int d, int64_t ld)
{
    KVR_TRY(done(kvr_dnnl_engine_create(&b->engine, dnnl_cpu, 0), "engine"));
    for (int i = 0; i < b->n_threads; i++)
        KVR_TRY(done(kvr_dnnl_stream_create(&b->stream[i], b->engine, dnnl_stream_default_flags),
                     "stream"));
    KVR_TRY(done(matrix(&b->scores.of[SRC], m, d, dnnl_bf16, ld, 1), "q"));
    KVR_TRY(done(matrix(&b->scores.of[WEIGHTS], d, n, dnnl_bf16, 1, ld), "k"));
    KVR_TRY(done(matrix(&b->scores.of[DST], m, n, dnnl_bf16, n, 1), "scores"));
    KVR_TRY(done(matrix(&b->values.of[SRC], m, n, dnnl_bf16, n, 1), "weights"));
    KVR_TRY(done(matrix(&b->values.of[WEIGHTS], n, d, dnnl_bf16, ld, 1), "v"));
    KVR_TRY(done(matrix(&b->values.of[DST], m, d, dnnl_f32, ld, 1), "output"));
    KVR_TRY(make(b, &b->scores));
    return make(b, &b->values);
}

enum kvr_status kvr_bf16_products_open(struct kvr_bf16_products **out, int64_t m, int64_t n, int d,
                                       int64_t ld, int n_threads)
{
    struct kvr_bf16_products *b = calloc(1, sizeof *b);
    enum kvr_status st = KVR_ENOMEM;

    *out = NULL;
    if (!b)
        return kvr_fail(KVR_ENOMEM, "bench: out of memory");
    b->n_threads = n_threads;
    b->stream = calloc((size_t)n_threads, sizeof(dnnl_stream_t));
    st = b->stream ? fill(b, m, n, d, ld) : kvr_fail(KVR_ENOMEM, "bench: out of memory");
    if (st != KVR_OK) {
        kvr_bf16_products_close(&b);
        return st;
    }
    *out = b;
    return KVR_OK;
}

static dnnl_status_t run(struct kvr_bf16_products *b, const struct product *x, int thread,
                         const void *src, const void *weights, void *dst)
{
    static const int names[N_ROLES] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST };
    void *const at[N_ROLES] = { (void *)src, (void *)weights, dst };
    dnnl_exec_arg_t args[N_ROLES];
    dnnl_status_t st = dnnl_success;

    for (int i = 0; i < N_ROLES && st == dnnl_success; i++) {
        args[i] = (dnnl_exec_arg_t){ names[i], x->memory[thread * N_ROLES + i] };
        st = kvr_dnnl_memory_set_data_handle(args[i].memory, at[i]);
    }
    return st == dnnl_success ? kvr_dnnl_primitive_execute(x->p, b->stream[thread], N_ROLES, args)
                              : st;
}

int kvr_bf16_products_run(struct kvr_bf16_products *p, int thread, const kvr_bf16 *q,
                          const kvr_bf16 *k, const kvr_bf16 *v, kvr_bf16 *s, float *out)
{
    const dnnl_status_t st = run(p, &p->scores, thread, q, k, s);

    return (int)(st == dnnl_success ? run(p, &p->values, thread, s, v, out) : st);
}
