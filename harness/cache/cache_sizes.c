/* cache_sizes.c - determines what attention over a cache must support, and computes the sizes of
 * the cache's buffers. */
#include "harness/cache/cache_sizes.h"

#include "harness/cache/moments.h"

static bool any_rotated(const struct kvr_scheme *p)
{
    for (int t = 0; t < p->n_tiers; t++)
        if (kvr_codec_rotated(p->k[t]) || kvr_codec_rotated(p->v[t]))
            return true;
    return false;
}

/* Whether the codec of any tier needs F32 scratch for attention. A codec needs this scratch unless
 * it stores BF16 rows or decodes to BF16 in a single kernel. */
static bool any_wide(const struct kvr_scheme *p, int n_heads, int head_dim, bool by_head)
{
    const int heads = by_head ? 1 : n_heads;

    for (int t = 0; t < p->n_tiers; t++)
        for (int v = 0; v < 2; v++) {
            const struct kvr_codec *c = v ? p->v[t] : p->k[t];

            if (!kvr_codec_is_bf16(c) && !kvr_codec_decodes_bf16(c, heads, head_dim))
                return true;
        }
    return false;
}

/* Returns the maximum number of coded tokens that one attention call reads: the tokens in the
 * window, or all tokens if the method's retention, not the window, limits the cache. */
static int64_t max_staged(const struct kvr_scheme *p, const struct kvr_cache_shape *s)
{
    const bool cut = s->window_frames && s->window_frames < s->capacity_frames;
    struct kvr_thin_needs thin;
    bool coded = p->retention.part != NULL;

    for (int t = 0; t < p->n_tiers; t++)
        coded = coded || !kvr_codec_is_bf16(p->k[t]) || !kvr_codec_is_bf16(p->v[t]);
    if (!coded)
        return 0;
    if (kvr_retention_thins(&p->retention, &thin) && thin.beyond_window)
        return (int64_t)s->capacity_frames * s->tokens_per_frame;
    return (int64_t)(cut ? s->window_frames : s->capacity_frames) * s->tokens_per_frame;
}

struct kvr_attend_needs kvr_cache_attend_needs(const struct kvr_scheme *scheme,
                                               const struct kvr_cache_shape *s, enum kvr_path path)
{
    struct kvr_thin_needs thin;

    kvr_retention_thins(&scheme->retention, &thin);
    return (struct kvr_attend_needs){
        .n_heads = kvr_cache_kv_heads(s),
        .head_dim = s->head_dim,
        .group = s->n_heads / kvr_cache_kv_heads(s),
        .max_query = (int64_t)s->frames_per_chunk * s->tokens_per_frame *
                     (s->n_heads / kvr_cache_kv_heads(s)),
        .causal = s->causal,
        .exact = s->exact,
        .staged = path != KVR_PATH_FUSED,
        .rotated = any_rotated(scheme),
        .wide = any_wide(scheme, kvr_cache_kv_heads(s), s->head_dim, thin.by_head),
        .correction = kvr_correction_at(scheme->opts.correction),
        .int8 = s->attend == KVR_ATTEND_INT8,
        .max_coded = (int64_t)s->capacity_frames * s->tokens_per_frame,
        .staged_bytes = s->staged_bytes,
        .max_staged = path == KVR_PATH_STAGED ? max_staged(scheme, s) : 0,
        .by_head = thin.by_head,
        .columns = thin.columns,
    };
}

/* Returns the maximum bytes of scratch over the codecs of all tiers, for encoding n tokens at
 * once. */
static size_t work_bytes(const struct kvr_scheme *p, int64_t n, int heads, int head_dim)
{
    const struct kvr_block_shape shape = { n, heads, head_dim };
    int64_t most = 0;

    for (int t = 0; t < p->n_tiers; t++)
        for (int v = 0; v < 2; v++) {
            const int64_t floats = kvr_codec_work_floats(v ? p->v[t] : p->k[t], &shape);

            most = floats > most ? floats : most;
        }
    return (size_t)most * sizeof(float);
}

struct kvr_cache_sizes kvr_cache_sizes_of(const struct kvr_scheme *scheme,
                                          const struct kvr_cache_shape *s, enum kvr_path path,
                                          enum kvr_backend backend)
{
    const size_t width = (size_t)kvr_cache_kv_heads(s) * (size_t)s->head_dim;
    const size_t frame = (size_t)s->tokens_per_frame;
    const size_t chunk = (size_t)s->frames_per_chunk * frame * width;
    const size_t capacity = (size_t)s->capacity_frames * frame, all = capacity * width;
    const size_t size = kvr_dtype_size(s->exact);
    const bool dense = kvr_path_copies(path), study = kvr_scheme_is_study(scheme);
    const size_t several = (size_t)kvr_tiers_max_chunks(&scheme->tiers) * chunk;
    const size_t origin = (size_t)kvr_scheme_origin_tokens(scheme) * width;
    const size_t span = several <= chunk ? chunk : several < all ? several : all;
    const size_t coded = study ? all : origin ? chunk + origin - width : span;
    const struct kvr_attend_needs needs = kvr_cache_attend_needs(scheme, s, path);
    const struct kvr_correction *c = kvr_correction_at(scheme->opts.correction);
    struct kvr_thin_needs thin;
    const bool thins = kvr_retention_thins(&scheme->retention, &thin);
    const size_t heads = (size_t)kvr_cache_kv_heads(s), sets = thin.by_head ? heads : 1;
    const size_t keys = thin.key_frames ? chunk + (size_t)thin.key_frames * frame * width : all;
    const size_t picked = thins ? chunk / (size_t)s->head_dim * sizeof(int32_t) : 0;

    return (struct kvr_cache_sizes){
        .demeaned = scheme->opts.current == KVR_CURRENT_DEMEAN ? chunk * size : 0,
        .current = chunk * size,
        .values = (dense || study ? all : chunk) * sizeof(float),
        .dense = dense ? all * size : 0,
        .held = dense ? capacity : 0,
        .map = capacity,
        .work = work_bytes(scheme, (int64_t)(coded / width), kvr_cache_kv_heads(s), s->head_dim),
        .gather =
            scheme->tiers.part || scheme->retention.part || origin ? 2 * coded * sizeof(float) : 0,
        .back = kvr_moments_back_bytes(c, coded, backend),
        .keep = thins ? capacity * sets : 0,
        .rows = thins ? 2 * chunk * sizeof(float) : 0,
        .pick = picked,
        .pick_host = kvr_backend_in_host(backend) ? 0 : picked,
        .all_keys = !thin.all_keys ? 0
                    : keys < all   ? keys * sizeof(float)
                                   : all * sizeof(float),
        .all_values = thin.all_values ? all * sizeof(float) : 0,
        .weights = thin.weights ? capacity * sets * sizeof(int32_t) : 0,
        .columns = thin.columns ? 2 * capacity * heads * sizeof(float) : 0,
        .attend = kvr_attend_scratch_bytes(&needs, backend),
    };
}

size_t kvr_cache_scratch_bytes(const struct kvr_scheme *scheme, const struct kvr_cache_shape *shape,
                               enum kvr_path path, enum kvr_backend backend)
{
    const struct kvr_cache_sizes b = kvr_cache_sizes_of(scheme, shape, path, backend);
    /* Buffers in host memory are counted only if the device is the CPU. */
    const size_t host_bytes = b.held + b.map + b.keep + b.weights + b.columns;

    return 2 * (b.current + b.values + b.dense) + (kvr_backend_in_host(backend) ? host_bytes : 0) +
           b.demeaned + b.work + b.gather + b.back + b.rows + b.pick + b.all_keys + b.all_values +
           b.attend.tiles + b.attend.state + b.attend.heads + b.attend.parts + b.attend.coded +
           b.attend.rows;
}
