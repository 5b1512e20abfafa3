/* predict_study.c - reconstructs the peak memory that the study reports.
 *
 * Each peak that the study reports is a constant plus the allocated bytes of the cache. The study's
 * code did not pack codes: each code was an integer, whose type changed between three eras (A, B,
 * C) of the study's runs. Runs of era A have int16 codes and a cache for all frames of the video.
 * Runs of era B used unpublished code, which allocated 6 to 8 GiB of transient memory for an
 * unknown purpose. Runs of era C have int8 codes. Where they store which tokens a policy
 * selected, a mask has one byte per token, and a list of indices one int64 per token.
 *
 * For the first prompt, the constant is the peak of the BF16 run, 19,902,781,440 B, minus its
 * cache, 12,076,646,400 B. From the second prompt on, the previous prompt's FP32 video (165 x 3 x
 * 480 x 832) and BF16 latents (42 x 16 x 60 x 104) were still allocated, and are added to the
 * constant. The reported peak is the maximum over the prompts. */
#include "harness/cache/predict.h"

#include <string.h>

enum {
    FRAMES = 42,
    VIDEO_BYTES = 165 * 3 * 480 * 832 * 4,
    LATENT_BYTES = FRAMES * 16 * 60 * 104 * 2,
};
static const size_t bf16_peak = 19902781440, bf16_cache = 12076646400;

enum era { A, B, C };

/* Methods that the study measured with the code of era A or B (see above). It measured all other
 * methods with the code of era C. */
static const struct {
    const char *method;
    enum era era;
} eras[] = {
    { "BF16", A },
    { "RTN_INT2", A },
    { "RTN_INT4", A },
    { "KIVI_INT2", A },
    { "KIVI_INT4", A },
    { "QUAROT_KV_INT2", A },
    { "QUAROT_KV_INT4", A },
    { "RTN_K2_V4", B },
    { "RTN_INT4_RECENT2", B },
    { "RTN_INT4_REFRESH", B },
    { "KIVI_K2_V4", B },
    { "KIVI_INT4_REFRESH", B },
    { "QUAROT_KV_INT4_RECENT2", B },
    { "QUAROT_KV_INT4_REFRESH", B },
};

static enum era era_of(const char *method)
{
    for (size_t i = 0; i < sizeof eras / sizeof *eras; i++)
        if (!strcmp(eras[i].method, method))
            return eras[i].era;
    return C;
}

/* Returns the bytes of a coded tensor in the study's code, with `code_bytes` bytes per code. The
 * number of tokens is padded to a multiple of 16. */
static size_t tensor_bytes(const struct kvr_packed *p, size_t code_bytes)
{
    const struct kvr_block_shape *s = &p->shape;
    const size_t width = (size_t)s->n_heads * (size_t)s->head_dim;
    const size_t padded = (size_t)(s->n_tok + 15) / 16 * 16;
    size_t total;

    if (!p->codec)
        return 0;
    total = kvr_packed_nominal(p).meta;
    if (kvr_codec_is_raw(p->codec))
        return total + (size_t)s->n_tok * width * sizeof(kvr_bf16);
    for (int i = 0; i < p->codec->n_stages; i++) /* the study's code has one tensor of codes per
                                                  * quantizer */
        if (p->codec->stage[i].stage->kind == KVR_STAGE_GRID)
            total += padded * width * code_bytes;
    return total;
}

static enum kvr_status add_layer(const struct kvr_scheme *scheme, struct kvr_dev *dev, int layer,
                                 struct kvr_layer_scratch *scratch, size_t code_bytes,
                                 struct kvr_study_peak *out)
{
    const struct kvr_geometry *wan = &kvr_wan_1_3b;
    const struct kvr_layer_geometry g = {
        .layer = layer,
        .n_layers = wan->n_layers,
        .n_heads = wan->n_heads,
        .head_dim = wan->head_dim,
        .tokens_per_frame = wan->tokens_per_frame,
        .frames_per_chunk = wan->frames_per_chunk,
        .capacity = (int64_t)FRAMES * wan->tokens_per_frame,
    };
    struct kvr_layer l;
    enum kvr_status st;

    KVR_TRY(kvr_layer_open(&l, dev, scheme, &g, scratch, true));
    st = kvr_layer_recode(&l, NULL, NULL, g.capacity);
    out->packed_peak += kvr_layer_nominal(&l);
    out->resident += l.study_side_bytes;
    for (int i = 0; i < l.n; i++)
        out->resident +=
            tensor_bytes(&l.seg[i].k, code_bytes) + tensor_bytes(&l.seg[i].v, code_bytes);
    kvr_layer_close(&l);
    return st;
}

enum kvr_status kvr_predict_study_peak(const struct kvr_scheme *scheme, struct kvr_study_peak *out)
{
    static const char *const names[] = { "A", "B", "C" };
    static const char *const stored[] = {
        "codes stored as int16, in buffers for all frames",
        "unknown: the study's code for this method is unpublished",
        "codes stored as int8, token masks as bytes, token indices as int64",
    };
    const enum era era = era_of(scheme->method->name);
    struct kvr_layer_scratch scratch = { 0 };
    struct kvr_dev *dev = NULL;
    enum kvr_status st = KVR_OK;

    if (!kvr_scheme_is_study(scheme))
        return kvr_fail(KVR_EINVAL,
                        "%s: the study's peak memory is predicted only for methods as the study "
                        "implemented them (NAME@study); use %s@study",
                        scheme->name, scheme->method->name);
    *out = (struct kvr_study_peak){
        .era = names[era],
        .stored = scheme->k[0] && kvr_codec_is_raw(scheme->k[0]) ? "BF16" : stored[era],
        .known = era != B,
        .non_kv = bf16_peak - bf16_cache,
        .left_over = VIDEO_BYTES + LATENT_BYTES,
    };
    KVR_TRY(kvr_dev_open(&dev, KVR_CPU));
    for (int l = 0; l < kvr_wan_1_3b.n_layers && st == KVR_OK; l++)
        st = add_layer(scheme, dev, l, &scratch, era == A ? 2 : 1, out);
    kvr_layer_scratch_free(&scratch);
    kvr_dev_close(&dev);
    out->packed_peak += out->non_kv;
    if (out->known)
        out->peak = out->resident + out->non_kv + out->left_over;
    else
        out->resident = 0;
    return st;
}
