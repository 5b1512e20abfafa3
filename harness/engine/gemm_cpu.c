/* gemm_cpu.c - linear layers on the CPU, computed in tiles by oneDNN matmul primitives with packed
 * weights.
 *
 * The N dimension of a layer is divided into tiles of TILE_N columns. Weights of a tile are packed
 * in the layout that the primitive prefers. The M dimension is divided into equal tiles of at most
 * TILE_M rows. Tile sizes do not depend on the number of threads. oneDNN chooses its blocking by
 * the number of OpenMP threads, so primitives are created and run with this number set to one
 * (docs/decisions.md has measurements).
 *
 * In BF16 with AMX, input and weights are BF16 and oneDNN multiplies them by AMX tiles. Without
 * AMX, or if oneDNN is limited to an older instruction set, input and weights are rounded to
 * BF16 and stored as F32. */
#include "harness/engine/gemm_impl.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness/core/isa.h"
#include "harness/core/onednn.h"
#include "harness/core/onednn_guard.h"

enum { TILE_M = 64, TILE_N = 384, MAX_THREADS = 64 };

/* A oneDNN matmul primitive for one tile shape. A thread sets the data addresses of the memory
 * objects src and dst for each tile, so every thread has its own objects. */
struct prim {
    int64_t m;
    int n, k, ld_y;
    bool bias;
    dnnl_primitive_t p;
    dnnl_memory_desc_t weights;
    size_t scratch_bytes;
    dnnl_memory_t src[MAX_THREADS], dst[MAX_THREADS], scratch[MAX_THREADS];
};

struct gemm {
    struct kvr_gemm base;
    dnnl_engine_t engine;
    int n_threads; /* maximum number of threads per call */
    dnnl_stream_t stream[MAX_THREADS];
    struct kvr_buf scratch[MAX_THREADS];
    struct kvr_buf rounded; /* input of the current call, rounded to BF16 */
    bool narrow;            /* input and weights are stored as BF16, otherwise as F32 */
    struct prim **prims;
    int n_prims, cap_prims;
    char library[32];
};

struct tile {
    int n0, n;
    dnnl_memory_t w, b;
};

struct linear {
    struct kvr_linear base;
    int n_tiles;
    struct tile *tile;
    struct kvr_buf packed, bias;
};

static struct gemm *gemm_of(const struct kvr_linear *l)
{
    return (struct gemm *)l->g;
}

static const struct linear *linear_of(const struct kvr_linear *l)
{
    return (const struct linear *)l;
}

static enum kvr_status check(dnnl_status_t s, const char *what)
{
    return kvr_onednn_done(s, "gemm", what);
}

#define DNNL_TRY(call) KVR_TRY(check(call, #call))

/* Sets the number of OpenMP threads to one and returns the previous number. oneDNN reads this
 * setting when it creates a primitive and, on some machines, when it runs a primitive. */
static int one_thread(void)
{
    int n = omp_get_max_threads();

    if (n != 1)
        omp_set_num_threads(1);
    return n;
}

static void threads_back(int n)
{
    if (n != 1)
        omp_set_num_threads(n);
}

/* Whether weights and input are stored as BF16. */
static bool narrow_here(void)
{
    return kvr_isa_has_tiles() && kvr_onednn_has_bf16();
}

static void prim_free(struct prim *p)
{
    if (!p)
        return;
    for (int i = 0; i < MAX_THREADS; i++) {
        if (p->src[i])
            dnnl_memory_destroy(p->src[i]);
        if (p->dst[i])
            dnnl_memory_destroy(p->dst[i]);
        if (p->scratch[i])
            dnnl_memory_destroy(p->scratch[i]);
    }
    if (p->p)
        dnnl_primitive_destroy(p->p);
    free(p);
}

static void gemm_close(struct kvr_gemm *base)
{
    struct gemm *g = (struct gemm *)base;

    for (int i = 0; i < g->n_prims; i++)
        prim_free(g->prims[i]);
    free(g->prims);
    for (int i = 0; i < MAX_THREADS; i++) {
        if (g->stream[i])
            dnnl_stream_destroy(g->stream[i]);
        kvr_buf_free(&g->scratch[i]);
    }
    kvr_buf_free(&g->rounded);
    if (g->engine)
        dnnl_engine_destroy(g->engine);
    free(g);
}

static enum kvr_status gemm_open(struct kvr_gemm **out, struct kvr_dev *dev, enum kvr_dtype compute)
{
    const dnnl_version_t *v = dnnl_version();
    struct gemm *g = calloc(1, sizeof *g);
    enum kvr_status st;
    int n = omp_get_num_procs();

    if (!g)
        return kvr_fail(KVR_ENOMEM, "gemm: out of memory");
    g->base = (struct kvr_gemm){ .dev = dev, .compute = compute };
    g->narrow = compute == KVR_BF16 && narrow_here();
    snprintf(g->library, sizeof g->library, "oneDNN %d.%d", v->major, v->minor);
    if (n < omp_get_max_threads())
        n = omp_get_max_threads();
    g->n_threads = n < MAX_THREADS ? n : MAX_THREADS;
    kvr_onednn_limit();
    st = check(kvr_dnnl_engine_create(&g->engine, dnnl_cpu, 0), "engine");
    for (int i = 0; i < g->n_threads && st == KVR_OK; i++)
        st = check(kvr_dnnl_stream_create(&g->stream[i], g->engine, dnnl_stream_default_flags),
                   "stream");
    if (st != KVR_OK) {
        gemm_close(&g->base);
        return st;
    }
    *out = &g->base;
    return KVR_OK;
}

static void free_scratch(struct kvr_gemm *g)
{
    kvr_buf_free(&((struct gemm *)g)->rounded);
}

static const char *library(const struct kvr_gemm *g)
{
    return ((const struct gemm *)g)->library;
}

static void round_all(int64_t n, const float *x, float *to)
{
#pragma omp parallel for simd schedule(static) if (n > 1 << 16)
    for (int64_t i = 0; i < n; i++)
        to[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[i]));
}

static void narrow_all(int64_t n, const float *x, kvr_bf16 *to)
{
    enum { PART = 1 << 13 };

#pragma omp parallel for schedule(static) if (n > 1 << 16)
    for (int64_t i = 0; i < n; i += PART)
        kvr_from_f32(to + i, KVR_BF16, x + i, (size_t)(n - i < PART ? n - i : PART));
}

static size_t input_size(const struct gemm *g)
{
    return g->narrow ? sizeof(kvr_bf16) : sizeof(float);
}

static dnnl_data_type_t input_type(const struct gemm *g)
{
    return g->narrow ? dnnl_bf16 : dnnl_f32;
}

/* Reserves memory for the copy of an input [m,k] that is rounded to BF16 values. F32 compute needs
 * none. */
static enum kvr_status reserve_rounded(struct gemm *g, int64_t m, int k)
{
    if (g->base.compute == KVR_F32)
        return KVR_OK;
    return kvr_buf_reserve(&g->rounded, g->base.dev, KVR_MEM_SCRATCH,
                           (size_t)m * (size_t)k * input_size(g));
}

/* Creates the oneDNN descriptor of a row-major matrix [rows,cols] with row stride ld. */
static enum kvr_status matrix(dnnl_memory_desc_t *md, dnnl_data_type_t type, int64_t rows,
                              int64_t cols, int64_t ld)
{
    const dnnl_dims_t dims = { rows, cols }, strides = { ld, 1 };

    DNNL_TRY(dnnl_memory_desc_init_by_strides(md, 2, dims, type, strides));
    return KVR_OK;
}

/* Builds a primitive. If `weights` is NULL, oneDNN chooses the layout of the weights. The layout
 * depends only on n and k, so weights packed for one m are valid for every m. */
static enum kvr_status prim_build(struct gemm *g, struct prim *p, const dnnl_memory_desc_t *weights)
{
    dnnl_memory_desc_t src, dst, w, b;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    const dnnl_memory_desc_t *scratch;
    const dnnl_dims_t wdims = { p->k, p->n };
    enum kvr_status st;

    KVR_TRY(matrix(&src, input_type(g), p->m, p->k, p->k));
    KVR_TRY(matrix(&dst, dnnl_f32, p->m, p->n, p->ld_y));
    KVR_TRY(matrix(&b, dnnl_f32, 1, p->n, p->n));
    if (weights)
        w = *weights;
    else
        DNNL_TRY(dnnl_memory_desc_init_by_tag(&w, 2, wdims, input_type(g), dnnl_format_tag_any));
    DNNL_TRY(dnnl_matmul_desc_init(&desc, &src, &w, p->bias ? &b : NULL, &dst));
    DNNL_TRY(kvr_dnnl_primitive_attr_create(&attr));
    st = check(kvr_dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user),
               "scratchpad mode");
    if (st == KVR_OK)
        st = check(kvr_dnnl_primitive_desc_create(&pd, &desc, attr, g->engine, NULL), "matmul");
    dnnl_primitive_attr_destroy(attr);
    if (st != KVR_OK)
        return st;
    st = check(kvr_dnnl_primitive_create(&p->p, pd), "matmul primitive");
    p->weights = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    p->scratch_bytes = dnnl_memory_desc_get_size(scratch);
    for (int i = 0; i < g->n_threads && st == KVR_OK; i++) {
        st = check(kvr_dnnl_memory_create(&p->src[i], &src, g->engine, DNNL_MEMORY_NONE), "src");
        if (st == KVR_OK)
            st =
                check(kvr_dnnl_memory_create(&p->dst[i], &dst, g->engine, DNNL_MEMORY_NONE), "dst");
        if (st == KVR_OK && p->scratch_bytes)
            st = check(kvr_dnnl_memory_create(&p->scratch[i], scratch, g->engine, DNNL_MEMORY_NONE),
                       "scratchpad");
        if (st == KVR_OK && g->scratch[i].n_bytes < p->scratch_bytes)
            st = kvr_buf_reserve(&g->scratch[i], g->base.dev, KVR_MEM_SCRATCH, p->scratch_bytes);
    }
    dnnl_primitive_desc_destroy(pd);
    return st;
}

/* Returns the primitive of a tile shape, which is created at its first use. Not thread-safe. */
static enum kvr_status prim_get(struct gemm *g, int64_t m, int n, int k, int ld_y, bool bias,
                                struct prim **out)
{
    const dnnl_memory_desc_t *weights = NULL;
    enum kvr_status st;
    struct prim *p;
    int n_threads;

    for (int i = 0; i < g->n_prims; i++) {
        p = g->prims[i];
        if (p->n != n || p->k != k)
            continue;
        if (p->m == m && p->ld_y == ld_y && p->bias == bias) {
            *out = p;
            return KVR_OK;
        }
        weights = &p->weights;
    }
    if (g->n_prims == g->cap_prims) {
        int cap = g->cap_prims ? 2 * g->cap_prims : 32;
        struct prim **grown = realloc(g->prims, (size_t)cap * sizeof(struct prim *));

        if (!grown)
            return kvr_fail(KVR_ENOMEM, "gemm: out of memory while allocating %d oneDNN primitives",
                            cap);
        g->prims = grown;
        g->cap_prims = cap;
    }
    p = calloc(1, sizeof *p);
    if (!p)
        return kvr_fail(KVR_ENOMEM, "gemm: out of memory");
    p->m = m;
    p->n = n;
    p->k = k;
    p->ld_y = ld_y;
    p->bias = bias;
    n_threads = one_thread();
    st = prim_build(g, p, weights);
    threads_back(n_threads);
    if (st != KVR_OK) {
        prim_free(p);
        return st;
    }
    g->prims[g->n_prims++] = p;
    *out = p;
    return KVR_OK;
}

/* Reorders rows [t->n0, t->n0 + t->n) of the layer's weights w [N,K] into the layout that primitive
 * p requires. */
static enum kvr_status pack_tile(struct linear *l, struct tile *t, const struct prim *p,
                                 const float *w)
{
    struct gemm *g = gemm_of(&l->base);
    const dnnl_dims_t dims = { l->base.k, t->n }, strides = { 1, l->base.k };
    dnnl_memory_desc_t plain;
    dnnl_memory_t from = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t reorder = NULL;
    enum kvr_status st;

    DNNL_TRY(dnnl_memory_desc_init_by_strides(&plain, 2, dims, dnnl_f32, strides));
    st = check(
        kvr_dnnl_memory_create(&from, &plain, g->engine, (void *)(w + (int64_t)t->n0 * l->base.k)),
        "weights memory");
    if (st == KVR_OK)
        st = check(kvr_dnnl_reorder_primitive_desc_create(&pd, &plain, g->engine, &p->weights,
                                                          g->engine, NULL),
                   "reorder");
    if (st == KVR_OK)
        st = check(kvr_dnnl_primitive_create(&reorder, pd), "reorder primitive");
    if (st == KVR_OK) {
        dnnl_exec_arg_t args[2] = { { DNNL_ARG_FROM, from }, { DNNL_ARG_TO, t->w } };

        st = check(kvr_dnnl_primitive_execute(reorder, g->stream[0], 2, args), "reorder run");
    }
    if (reorder)
        dnnl_primitive_destroy(reorder);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    if (from)
        dnnl_memory_destroy(from);
    return st;
}

static size_t round64(size_t n)
{
    return (n + 63) / 64 * 64;
}

static enum kvr_status linear_fill(struct linear *l, const float *w, const float *b)
{
    struct gemm *g = gemm_of(&l->base);
    struct prim *p;
    size_t total = 0, at = 0;

    for (int i = 0; i < l->n_tiles; i++) {
        l->tile[i].n0 = i * TILE_N;
        l->tile[i].n = l->base.n - i * TILE_N < TILE_N ? l->base.n - i * TILE_N : TILE_N;
        KVR_TRY(prim_get(g, TILE_M, l->tile[i].n, l->base.k, l->base.n, l->base.has_bias, &p));
        total += round64(dnnl_memory_desc_get_size(&p->weights));
    }
    KVR_TRY(kvr_buf_alloc(&l->packed, g->base.dev, KVR_MEM_WEIGHTS, total));
    if (b) {
        KVR_TRY(kvr_buf_alloc(&l->bias, g->base.dev, KVR_MEM_WEIGHTS,
                              (size_t)l->base.n * sizeof(float)));
        for (int i = 0; i < l->base.n; i++)
            ((float *)l->bias.p)[i] = b[i];
        if (g->base.compute == KVR_BF16)
            round_all(l->base.n, l->bias.p, l->bias.p);
    }
    for (int i = 0; i < l->n_tiles; i++) {
        struct tile *t = &l->tile[i];
        dnnl_memory_desc_t bias;

        KVR_TRY(prim_get(g, TILE_M, t->n, l->base.k, l->base.n, l->base.has_bias, &p));
        DNNL_TRY(kvr_dnnl_memory_create(&t->w, &p->weights, g->engine, (char *)l->packed.p + at));
        at += round64(dnnl_memory_desc_get_size(&p->weights));
        KVR_TRY(pack_tile(l, t, p, w));
        if (b) {
            KVR_TRY(matrix(&bias, dnnl_f32, 1, t->n, t->n));
            DNNL_TRY(kvr_dnnl_memory_create(&t->b, &bias, g->engine, (float *)l->bias.p + t->n0));
        }
    }
    return KVR_OK;
}

static void linear_close(struct kvr_linear *base)
{
    struct linear *l = (struct linear *)base;

    for (int i = 0; l->tile && i < l->n_tiles; i++) {
        if (l->tile[i].w)
            dnnl_memory_destroy(l->tile[i].w);
        if (l->tile[i].b)
            dnnl_memory_destroy(l->tile[i].b);
    }
    free(l->tile);
    kvr_buf_free(&l->packed);
    kvr_buf_free(&l->bias);
    free(l);
}

/* Packs the weights and bias of a layer. In BF16, weights and bias are first rounded to BF16. */
static enum kvr_status linear_pack(struct linear *l, const float *w, const float *b)
{
    struct gemm *g = gemm_of(&l->base);
    const int64_t n = (int64_t)l->base.n * l->base.k;
    struct kvr_buf rounded = { 0 };
    enum kvr_status st;

    if (g->base.compute == KVR_F32)
        return linear_fill(l, w, b);
    KVR_TRY(kvr_buf_alloc(&rounded, g->base.dev, KVR_MEM_IO, (size_t)n * sizeof *w));
    round_all(n, w, rounded.p);
    st = linear_fill(l, rounded.p, b);
    kvr_buf_free(&rounded);
    return st;
}

static enum kvr_status linear_open(struct kvr_linear **out, struct kvr_gemm *g, int n, int k,
                                   const float *w, const float *b)
{
    struct linear *l = calloc(1, sizeof *l);
    enum kvr_status st;
    int n_threads;

    if (!l)
        return kvr_fail(KVR_ENOMEM, "gemm: out of memory");
    l->base = (struct kvr_linear){ .g = g, .n = n, .k = k, .has_bias = b != NULL };
    l->n_tiles = (n + TILE_N - 1) / TILE_N;
    l->tile = calloc((size_t)l->n_tiles, sizeof *l->tile);
    n_threads = one_thread();
    st = l->tile ? linear_pack(l, w, b) : kvr_fail(KVR_ENOMEM, "gemm: out of memory");
    threads_back(n_threads);
    if (st != KVR_OK) {
        linear_close(&l->base);
        return st;
    }
    *out = &l->base;
    return KVR_OK;
}

/* Division of m rows into `count` tiles. The first `n_long` tiles have `rows` + 1 rows, and the
 * other tiles have `rows` rows. */
struct split {
    int64_t count, rows, n_long;
};

static struct split split_rows(int64_t m)
{
    struct split s = { .count = (m + TILE_M - 1) / TILE_M };

    s.rows = m / s.count;
    s.n_long = m % s.count;
    return s;
}

/* Primitives p[longer][last] of a layer. `longer` is 1 for tiles with `rows` + 1 rows (struct
 * split). `last` is 1 for the last tile of columns. */
struct layer_prims {
    struct prim *p[2][2];
};

static enum kvr_status layer_prims(const struct linear *l, const struct split *s,
                                   struct layer_prims *out)
{
    for (int longer = 0; longer < 2; longer++) {
        if (longer && !s->n_long)
            continue;
        for (int last = 0; last < 2; last++) {
            const struct tile *t = &l->tile[last ? l->n_tiles - 1 : 0];

            KVR_TRY(prim_get(gemm_of(&l->base), s->rows + longer, t->n, l->base.k, l->base.n,
                             l->base.has_bias, &out->p[longer][last]));
        }
    }
    return KVR_OK;
}

static enum kvr_status prepare(const struct kvr_linear *l, int64_t m)
{
    const struct split s = split_rows(m);
    struct layer_prims unused;

    KVR_TRY(reserve_rounded(gemm_of(l), m, l->k));
    return layer_prims(linear_of(l), &s, &unused);
}

static dnnl_status_t run_tile(struct gemm *g, int who, const struct split *s,
                              const struct linear *l, const struct layer_prims *prims,
                              int64_t index, const char *x, float *y)
{
    int64_t mt = index % s->count;
    int nt = (int)(index / s->count);
    bool longer = mt < s->n_long;
    int64_t row0 = mt * s->rows + (longer ? mt : s->n_long);
    const struct tile *t = &l->tile[nt];
    struct prim *p = prims->p[longer][nt == l->n_tiles - 1];
    dnnl_exec_arg_t args[5];
    int n = 0;
    dnnl_status_t st = kvr_dnnl_memory_set_data_handle(
        p->src[who], (void *)(x + (size_t)row0 * (size_t)l->base.k * input_size(g)));

    if (st == dnnl_success)
        st = kvr_dnnl_memory_set_data_handle(p->dst[who], y + row0 * l->base.n + t->n0);
    args[n++] = (dnnl_exec_arg_t){ DNNL_ARG_SRC, p->src[who] };
    args[n++] = (dnnl_exec_arg_t){ DNNL_ARG_WEIGHTS, t->w };
    args[n++] = (dnnl_exec_arg_t){ DNNL_ARG_DST, p->dst[who] };
    if (l->base.has_bias)
        args[n++] = (dnnl_exec_arg_t){ DNNL_ARG_BIAS, t->b };
    if (p->scratch_bytes) {
        if (st == dnnl_success)
            st = kvr_dnnl_memory_set_data_handle(p->scratch[who], g->scratch[who].p);
        args[n++] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, p->scratch[who] };
    }
    if (st == dnnl_success)
        st = kvr_dnnl_primitive_execute(p->p, g->stream[who], n, args);
    return st;
}

static enum kvr_status run(struct kvr_gemm *base, int64_t m, const float *x, int n_layers,
                           const struct kvr_linear *const *l, float *const *y)
{
    struct gemm *g = (struct gemm *)base;
    struct layer_prims prims[KVR_LINEAR_MAX_FUSED];
    int64_t first[KVR_LINEAR_MAX_FUSED + 1] = { 0 };
    const struct split s = split_rows(m);
    int n_threads, team, bad = 0; /* bad: bit 0 if a tile failed, bit 1 if memory was exhausted */

    KVR_TRY(reserve_rounded(g, m, l[0]->k));
    if (g->narrow)
        narrow_all(m * l[0]->k, x, g->rounded.p);
    else if (g->rounded.p)
        round_all(m * l[0]->k, x, g->rounded.p);
    if (g->rounded.p)
        x = g->rounded.p;
    for (int i = 0; i < n_layers; i++) {
        KVR_TRY(layer_prims(linear_of(l[i]), &s, &prims[i]));
        first[i + 1] = first[i] + s.count * linear_of(l[i])->n_tiles;
    }
    n_threads = omp_get_max_threads();
    team = n_threads < g->n_threads ? n_threads : g->n_threads;
    if (first[n_layers] == 1)
        /* Only a call with a single tile changes the team size, because some OpenMP runtimes
         * recreate their threads after a change. */
        team = 1;
    if (team == 1)
        one_thread();
#pragma omp parallel for schedule(static) num_threads(team) reduction(| : bad) if (team > 1)
    for (int64_t at = 0; at < first[n_layers]; at++) {
        dnnl_status_t one;
        int i = 0;

        while (at >= first[i + 1])
            i++;
        one = run_tile(g, omp_get_thread_num(), &s, linear_of(l[i]), &prims[i], at - first[i],
                       (const char *)x, y[i]);
        if (one != dnnl_success)
            bad |= one == dnnl_out_of_memory ? 3 : 1;
    }
    if (team == 1)
        threads_back(n_threads);
    if (bad)
        return kvr_fail(bad & 2 ? KVR_ENOMEM : KVR_EINTERNAL,
                        "gemm: oneDNN failed in a matrix product of M x N x K = %lld x %d x %d%s",
                        (long long)m, l[0]->n, l[0]->k, bad & 2 ? ": out of memory" : "");
    return KVR_OK;
}

const struct kvr_gemm_kind kvr_gemm_cpu = {
    .bf16_weights = narrow_here,
    .open = gemm_open,
    .close = gemm_close,
    .linear_open = linear_open,
    .linear_open_there = linear_open,
    .linear_close = linear_close,
    .prepare = prepare,
    .run = run,
    .free_scratch = free_scratch,
    .library = library,
};
