/* attend_scratch_cuda.c - determines which attention jobs are supported on a CUDA stream, and
 * computes the size of the scratch memory. */
#include "harness/cache/attend_scratch_cuda.h"

#include <stdlib.h>

#include "harness/cache/attend_bytes.h"
#include "harness/cache/attend_mma.h"
#include "harness/cache/attend_wgmma.h"

enum { BYTE_TILES = 128 }; /* maximum number of INT8 tiles in scratch */

/* Returns a softmax state in scratch. Kernels read rows in units of 16 bytes, so the rows `acc`
 * precede the arrays with one number per row. */
static struct kvr_cuda_sums sums_at(float *rows_of_d, float *numbers, size_t rows)
{
    return (struct kvr_cuda_sums){ .state = {
                                       .mx = numbers, .sum = numbers + rows, .acc = rows_of_d } };
}

struct kvr_cuda_head_rows kvr_cuda_head_rows_of(const struct kvr_attend_job *job,
                                                const struct kvr_attend_scratch *s)
{
    const size_t rows = (size_t)job->n_query * (size_t)job->n_heads;
    const size_t wide = rows * (size_t)job->head_dim;
    float *tiles = s->tiles.p, *numbers = s->state.p, *base = numbers + (5 * rows + 3) / 4 * 4;

    return (struct kvr_cuda_head_rows){
        .k = tiles,
        .v = tiles + KVR_CUDA_PIECE * kvr_cuda_row_floats(job),
        .s2 = tiles + 2 * KVR_CUDA_PIECE * kvr_cuda_row_floats(job),
        .row_bias = numbers,
        .plain = sums_at(base, numbers + rows, rows),
        .rotated_v = sums_at(base + wide, numbers + 3 * rows, rows),
        .q_rot = base + 2 * wide,
    };
}

enum kvr_status kvr_cuda_attend_check(const struct kvr_attend_needs *n)
{
    if (n->int8 && !n->staged)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "attend int8 on a device: path fused is not supported; use path staged or "
                        "attend float");
    if (n->int8 && n->correction)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "attend int8 on a device: the method's correction '%s' is not supported; "
                        "use a method without correction or attend float",
                        n->correction->name);
    if (n->int8 && n->head_dim != KVR_BYTE_D)
        return kvr_fail(KVR_EUNSUPPORTED, "attend int8 on a device: head_dim is %d, need %d",
                        n->head_dim, KVR_BYTE_D);
    if (n->by_head && n->exact == KVR_BF16 && n->head_dim % 2)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "attention on a device: if heads keep different tokens, head_dim must be even, not %d",
            n->head_dim);
    if (n->causal || n->group > 1)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "attention with %d query heads on %d KV heads%s runs only on the CPU: "
            "devices have no kernels for grouped queries or for causal attention in a chunk",
            n->n_heads * (n->group > 1 ? n->group : 1), n->n_heads, n->causal ? ", causal," : "");
    if (!n->staged && n->exact != KVR_BF16)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "path fused on a device needs a BF16 cache, but this cache is %s; use path staged",
            kvr_dtype_name(n->exact));
    if (!n->staged && n->correction && n->correction->by_scales == KVR_BY_SCALES_EXACT)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "correction '%s' is a diagnostic that path fused on a device does not "
                        "support; use path staged",
                        n->correction->name);
    return KVR_OK;
}

/* Whether attention reads BF16 queries. It reads F32 queries for INT8 attention, for column sums,
 * and if heads retain different tokens (by_head). All corrections need F32 queries, except Taylor
 * corrections on path `fused`. */
bool kvr_cuda_attends_bf16(const struct kvr_attend_needs *n)
{
    const struct kvr_correction *c = n->correction;
    const bool by_cores = n->head_dim % 16 == 0 && n->head_dim <= KVR_ATTEND_MMA_MAX_D;

    return n->exact == KVR_BF16 && by_cores && !n->int8 && !n->by_head && !n->columns &&
           (!c || (!n->staged && !c->rows_cuda && c->by_scales == KVR_BY_SCALES_TAYLOR));
}

enum kvr_status kvr_cuda_attend_fuses(const struct kvr_dev *dev, const struct kvr_codec *k,
                                      const struct kvr_codec *v, const struct kvr_correction *c,
                                      int n_heads, int head_dim)
{
    const struct kvr_block_shape block = { KVR_ATTEND_MMA_TILE, n_heads, head_dim };
    const struct kvr_packed pk = { .codec = k, .shape = block },
                            pv = { .codec = v, .shape = block };
    const struct kvr_attend_mma_span span = { .k.packed = &pk,
                                              .v.packed = &pv,
                                              .n = block.n_tok,
                                              .taylor = c && c->by_scales == KVR_BY_SCALES_TAYLOR };
    const size_t shared = kvr_stream_block_shared(kvr_dev_stream(dev));
    const struct kvr_attend_shape shape = { 1, n_heads, head_dim };

    if (kvr_attend_mma_accepts(shared, &shape, &span))
        return KVR_OK;
    if (kvr_attend_mma_accepts(SIZE_MAX, &shape, &span))
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "attention: the fused kernel for K %s, V %s needs %zu bytes of shared memory per "
            "block, this device has %zu; use path staged",
            k->text, v->text, kvr_attend_mma_shared_bytes(SIZE_MAX, &shape, &span), shared);
    return kvr_fail(KVR_EUNSUPPORTED,
                    "attention: the fused device kernel needs head_dim a multiple of 16 up to %d "
                    "(here %d) and does not support K %s, V %s; use path staged",
                    KVR_ATTEND_MMA_MAX_D, head_dim, k->text, v->text);
}

/* Whether coded spans are staged as BF16. */
static bool stages_bf16(const struct kvr_attend_needs *n)
{
    return n->staged && n->max_staged && n->exact == KVR_BF16 && n->head_dim % 16 == 0 &&
           n->head_dim <= KVR_ATTEND_MMA_MAX_D && !n->int8 && !n->correction;
}

/* Returns the capacity of the BF16 scratch in tokens: all staged tokens, or as many whole tiles as
 * the size limit allows. */
static int64_t staged_tokens(const struct kvr_attend_needs *n)
{
    const int64_t heads = n->by_head ? 1 : n->n_heads, all = n->max_staged;
    const int64_t row = 2 * heads * n->head_dim * (int64_t)sizeof(kvr_bf16);
    const int64_t most = n->staged_bytes / row / KVR_ATTEND_LIST_KEYS * KVR_ATTEND_LIST_KEYS;

    if (!n->staged_bytes || all <= most)
        return all;
    return most > KVR_ATTEND_LIST_KEYS ? most : KVR_ATTEND_LIST_KEYS;
}

/* Returns the size of the heads' row lists, in floats. */
static size_t head_lists(const struct kvr_attend_needs *n)
{
    return ((size_t)(n->max_query * n->n_heads) + 3) / 4 * 4;
}

/* Returns the number of INT8 tiles in scratch: the tiles of all coded tokens, plus two pieces for
 * partly filled tiles, but at most BYTE_TILES. */
static int64_t byte_tiles(const struct kvr_attend_needs *n)
{
    const int64_t all = n->max_coded / KVR_BYTE_TILE + 2 * KVR_CUDA_PIECE_TILES;

    return all < BYTE_TILES ? all : BYTE_TILES;
}

struct kvr_attend_bytes kvr_cuda_scratch_bytes(const struct kvr_attend_needs *n)
{
    const size_t d = (size_t)n->head_dim, rows = (size_t)n->n_heads * (size_t)n->max_query;
    const bool narrow = stages_bf16(n), rotated = n->rotated && (!narrow || n->wide || n->columns);
    const size_t tiles = n->correction ? 3 : 2, wide = rotated ? 3 : n->columns ? 2 : 1;
    const size_t row = (size_t)n->n_heads * d * sizeof(float),
                 pieces = tiles * KVR_CUDA_PIECE * row;
    const size_t piece = narrow && n->wide ? KVR_CUDA_WIDE_PIECE * row : 0;
    const struct kvr_attend_shape shape = { n->max_query, n->by_head ? 1 : n->n_heads,
                                            n->head_dim };

    return (struct kvr_attend_bytes){
        .tiles = n->columns || (n->staged && !narrow) ? (pieces > piece ? pieces : piece) : piece,
        .rows = narrow ? 2 * (size_t)staged_tokens(n) * (size_t)(n->by_head ? 1 : n->n_heads) * d *
                             sizeof(kvr_bf16)
                       : 0,
        .state = ((5 * rows + 3) / 4 * 4 + wide * rows * d) * sizeof(float),
        .heads = n->by_head ? (head_lists(n) + 4 * (size_t)n->max_query * d) * sizeof(float) : 0,
        .parts =
            n->exact == KVR_BF16 || n->int8 ? kvr_attend_parts_floats(&shape) * sizeof(float) : 0,
        .coded = n->int8 ? kvr_byte_rows_size(shape.n_heads, byte_tiles(n)) : 0,
    };
}

struct kvr_byte_rows kvr_cuda_byte_rows(const struct kvr_attend_scratch *s, int n_heads)
{
    const int64_t each = (int64_t)kvr_byte_rows_size(n_heads, 1),
                  none = (int64_t)kvr_byte_rows_size(n_heads, 0);

    return kvr_byte_rows_at(s->coded.p, n_heads,
                            ((int64_t)s->coded.n_bytes - none) / (each - none));
}

static enum kvr_status check_bytes(const struct kvr_attend_needs *n,
                                   const struct kvr_attend_scratch *s)
{
    const struct kvr_stream *stream = kvr_dev_stream(s->dev);
    const int heads = n->by_head ? 1 : n->n_heads, capability = kvr_stream_capability(stream);
    const struct kvr_byte_rows rows = kvr_cuda_byte_rows(s, heads);

    if (!kvr_attend_bytes_supported(stream))
        return kvr_fail(KVR_EUNSUPPORTED,
                        "attend int8 on a device: compute capability is %d.%d, need 9.0 and a "
                        "build with sm_90a kernels; use attend float",
                        capability / 10, capability % 10);
    return kvr_attend_bytes_maps(&rows, heads)
               ? KVR_OK
               : kvr_fail(KVR_EUNSUPPORTED,
                          "attend int8 on a device: the CUDA driver cannot create the tensor maps "
                          "for bulk copies (TMA); use attend float");
}

/* Whether the device's tensor-core kernels support BF16 rows of this head dimension. */
static bool multiplies_bf16(const struct kvr_attend_needs *n, const struct kvr_dev *dev)
{
    const struct kvr_attend_shape shape = { 1, n->by_head ? 1 : n->n_heads, n->head_dim };
    const struct kvr_attend_mma_span rows = { .k = { .raw = dev, .dtype = KVR_BF16 },
                                              .v = { .raw = dev, .dtype = KVR_BF16 },
                                              .n = 1 };

    return kvr_attend_mma_accepts(kvr_stream_block_shared(kvr_dev_stream(dev)), &shape, &rows);
}

/* Plans scratch for F32 pieces instead of BF16 rows, because the device has too little shared
 * memory for the BF16 kernels. */
static enum kvr_status stage_as_f32(const struct kvr_attend_needs *n, struct kvr_attend_scratch *s)
{
    struct kvr_attend_needs f32 = *n;
    struct kvr_attend_bytes b;

    f32.exact = KVR_F32;
    b = kvr_cuda_scratch_bytes(&f32);
    kvr_buf_free(&s->rows);
    KVR_TRY(kvr_buf_reserve(&s->tiles, s->dev, KVR_MEM_SCRATCH, b.tiles));
    return kvr_buf_reserve(&s->state, s->dev, KVR_MEM_SCRATCH, b.state);
}

/* Prepares the scratch. The row list of head h has the row indices t H + h of the array [T,H]. */
enum kvr_status kvr_cuda_scratch_prepare(const struct kvr_attend_needs *n,
                                         struct kvr_attend_scratch *s)
{
    const int64_t rows = n->max_query * n->n_heads;
    enum kvr_status st;
    int32_t *list;

    if (n->int8)
        KVR_TRY(check_bytes(n, s));
    if (s->rows.p && !multiplies_bf16(n, s->dev))
        KVR_TRY(stage_as_f32(n, s));
    if (!n->by_head)
        return KVR_OK;
    list = malloc((size_t)rows * sizeof *list);
    if (!list)
        return kvr_fail(KVR_ENOMEM,
                        "attention: out of memory while allocating the indices of %lld query rows",
                        (long long)rows);
    for (int h = 0; h < n->n_heads; h++)
        for (int64_t t = 0; t < n->max_query; t++)
            list[h * n->max_query + t] = (int32_t)(t * n->n_heads + h);
    st = kvr_dev_put(s->dev, s->heads.p, list, (size_t)rows * sizeof *list);
    free(list);
    s->max_query = n->max_query;
    return st;
}

struct kvr_cuda_head kvr_cuda_head_part(const struct kvr_attend_job *job,
                                        const struct kvr_attend_scratch *s, int h)
{
    const struct kvr_attend_needs n = { .n_heads = job->n_heads, .max_query = s->max_query };
    const size_t each = (size_t)s->max_query * (size_t)job->head_dim;
    float *base = (float *)s->heads.p + head_lists(&n);

    return (struct kvr_cuda_head){ (const int32_t *)s->heads.p + h * s->max_query, base,
                                   base + each, base + 2 * each, base + 3 * each };
}
