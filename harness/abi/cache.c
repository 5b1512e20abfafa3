/* cache.c - the KV cache of all layers and of a whole rollout. */
#include "harness/abi/abi.h"

#include <stdlib.h>

#include "harness/cache/cache.h"

struct kvreel_cache {
    struct kvr_dev *dev;
    struct kvr_cache *cache;
    int n_layers;
};

static enum kvr_status open_cache(kvreel_cache *c, const struct kvr_scheme *scheme,
                                  const struct kvreel_cache_shape *s)
{
    struct kvr_cache_shape shape = {
        .n_layers = s->n_layers,
        .n_heads = s->n_heads,
        .head_dim = s->head_dim,
        .n_kv_heads = s->n_kv_heads,
        .causal = s->causal != 0,
        .tokens_per_frame = s->tokens_per_frame,
        .frames_per_chunk = s->frames_per_chunk,
        .capacity_frames = s->capacity_frames,
        .window_frames = s->window_frames,
        .sink_frames = s->sink_frames,
        .evict = s->evict != 0,
        .exact = s->exact_f32 ? KVR_F32 : KVR_BF16,
    };
    enum kvr_path path = KVR_PATH_STAGED;

    if (s->path)
        KVR_TRY(kvr_path_parse(&path, "cache: unknown attention path", s->path));
    if (s->attend)
        KVR_TRY(kvr_attend_parse(&shape.attend, "cache: unknown attention arithmetic", s->attend));
    c->n_layers = s->n_layers;
    KVR_TRY(kvr_dev_open(&c->dev, KVR_CPU));
    return kvr_cache_open(&c->cache, c->dev, scheme, &shape, path);
}

int kvreel_cache_open(kvreel_cache **out, const kvreel_method *m,
                      const struct kvreel_cache_shape *shape)
{
    struct kvreel_cache_shape s;
    enum kvr_status st;

    *out = NULL;
    KVR_TRY(kvr_abi_take("kvreel_cache_shape", &s, sizeof s, shape, shape->size));
    *out = calloc(1, sizeof **out);
    st = *out ? open_cache(*out, m->scheme, &s) : kvr_fail(KVR_ENOMEM, "cache: out of memory");
    if (st != KVR_OK)
        kvreel_cache_close(out);
    return st;
}

void kvreel_cache_close(kvreel_cache **c)
{
    if (!*c)
        return;
    kvr_cache_close(&(*c)->cache);
    kvr_dev_close(&(*c)->dev);
    free(*c);
    *c = NULL;
}

void kvreel_cache_reset(kvreel_cache *c)
{
    kvr_cache_reset(c->cache);
}

int kvreel_cache_begin(kvreel_cache *c, int32_t chunk, int32_t frame0, int32_t n_frames,
                       int32_t index, int32_t clean)
{
    return kvr_cache_begin_pass(c->cache, &(struct kvr_pass){ .chunk = chunk,
                                                              .frame0 = frame0,
                                                              .n_frames = n_frames,
                                                              .index = index,
                                                              .clean = clean != 0 });
}

int kvreel_cache_append(kvreel_cache *c, int32_t layer, const float *k, const float *v)
{
    return kvr_cache_append(c->cache, layer, k, v);
}

int kvreel_cache_attend(kvreel_cache *c, int32_t layer, const float *q, float *out)
{
    return kvr_cache_attend(c->cache, layer, q, out);
}

int kvreel_cache_commit(kvreel_cache *c, int32_t layer)
{
    return kvr_cache_commit(c->cache, layer);
}

int kvreel_cache_end(kvreel_cache *c)
{
    return kvr_cache_end_pass(c->cache);
}

int kvreel_cache_read(const kvreel_cache *c, int32_t layer, float *k, float *v, int64_t *n)
{
    if (layer < 0 || layer >= c->n_layers)
        return kvr_fail(KVR_EINVAL,
                        "cache: layer %d does not exist: need 0 <= layer < n_layers (%d)", layer,
                        c->n_layers);
    return kvr_cache_read(c->cache, layer, k, v, n);
}

int kvreel_cache_bytes(const kvreel_cache *c, struct kvreel_bytes *out)
{
    struct kvr_cache_bytes b;

    kvr_cache_bytes(c->cache, &b);
    return kvr_abi_give("kvreel_bytes", out, out->size,
                        &(struct kvreel_bytes){ .tokens = b.tokens,
                                                .bf16 = b.bf16,
                                                .nominal = b.nominal,
                                                .resident = b.resident,
                                                .codes = b.resident_kv },
                        sizeof *out);
}

int kvreel_cache_times(const kvreel_cache *c, int64_t *encode_ns, int64_t *decode_ns,
                       int64_t *attend_ns)
{
    struct kvr_cache_times t;

    KVR_TRY(kvr_cache_times(c->cache, &t));
    *encode_ns = t.encode_ns;
    *decode_ns = t.decode_ns;
    *attend_ns = t.attend_ns;
    return KVR_OK;
}

int kvreel_to_f32(float *to, const void *from, const char *type, size_t n)
{
    enum kvr_dtype t;

    if (!kvr_dtype_parse(type, &t) || (t != KVR_F32 && t != KVR_F64 && t != KVR_F16 &&
                                       t != KVR_BF16 && t != KVR_F8_E4M3 && t != KVR_F8_E5M2))
        return kvr_fail(KVR_EINVAL,
                        "kvreel_to_f32: '%s' is not a floating-point type, need F32, F64, F16, "
                        "BF16, F8_E4M3 or F8_E5M2",
                        type);
    kvr_to_f32(to, from, t, n);
    return KVR_OK;
}
