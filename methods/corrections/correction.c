/* correction.c - the list of corrections, the check of the codecs that a correction supports, and
 * the squared quantization scales from which corrections estimate errors. */
#include "methods/corrections/correction.h"

#include <string.h>

#define CORRECTION(name) extern const struct kvr_correction kvr_correction_##name;
#include "methods/corrections/corrections.def"
#undef CORRECTION

#define CORRECTION(name) &kvr_correction_##name,
const struct kvr_correction *const kvr_corrections[] = {
#include "methods/corrections/corrections.def"
    NULL
};
#undef CORRECTION

#define CORRECTION(name) #name,
const char *const kvr_correction_names[] = { "none",
#include "methods/corrections/corrections.def"
                                             NULL };
#undef CORRECTION

const struct kvr_correction *kvr_correction_at(int index)
{
    return index > 0 ? kvr_corrections[index - 1] : NULL;
}

/* Returns the index of the first entry of an ascending list that is at least `at`, or n if there is
 * none. */
static int64_t lower(const int32_t *list, int64_t n, int64_t at)
{
    int64_t lo = 0, hi = n;

    while (lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;

        if (list[mid] < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void decoded_scales(const struct kvr_packed *k, float relative, int h, int64_t t0, int n,
                           float *out)
{
    kvr_codec_decode_rotated(k, t0, n, h, 1, out);
    for (int i = 0; i < n * k->shape.head_dim; i++)
        out[i] = relative * out[i] * (relative * out[i]);
}

static void stored_scales(const struct kvr_packed *k, const struct kvr_coding_noise *noise, int h,
                          int64_t t0, int n, float *out)
{
    const int d = k->shape.head_dim;
    const int64_t channels = (int64_t)k->shape.n_heads * d;

    for (int t = 0; t < n; t++)
        for (int c = 0; c < d; c++) {
            const int64_t tok = t0 + t, at = (int64_t)h * d + c;
            const int64_t i = noise->axis == KVR_AXIS_TOKENS ? tok / noise->group * channels + at
                              : noise->axis == KVR_AXIS_CHANNELS
                                  ? (tok * channels + at) / noise->group
                                  : tok;
            const float s = kvr_f16_to_f32(noise->scale[i]);

            out[t * d + c] = s * s;
        }
}

static void read_scales(const struct kvr_packed *k, int h, int64_t t0, int n, float *out)
{
    kvr_packed_scales(k, t0, n, h, 1, out);
    for (int i = 0; i < n * k->shape.head_dim; i++)
        out[i] *= out[i];
}

void kvr_squared_scales(const struct kvr_packed *k, int h, int64_t t0, int n, float *out)
{
    const int d = k->shape.head_dim;
    const int64_t channels = (int64_t)k->shape.n_heads * d, end = (t0 + n) * channels;
    struct kvr_coding_noise noise;

    kvr_codec_noise(k, &noise);
    if (noise.kind == KVR_NOISE_UNIFORM)
        stored_scales(k, &noise, h, t0, n, out);
    else if (noise.kind == KVR_NOISE_SCALES)
        read_scales(k, h, t0, n, out);
    else if (noise.kind == KVR_NOISE_RELATIVE)
        decoded_scales(k, noise.relative, h, t0, n, out);
    else
        memset(out, 0, (size_t)(n * d) * sizeof *out);
    for (int64_t i = lower(noise.exact, noise.n_exact, t0 * channels);
         i < noise.n_exact && noise.exact[i] < end; i++) {
        const int64_t c = noise.exact[i] % channels - (int64_t)h * d;

        if (c >= 0 && c < d)
            out[(noise.exact[i] / channels - t0) * d + c] = 0;
    }
}

enum kvr_status kvr_correction_check(const struct kvr_correction *c, const struct kvr_codec *codec)
{
    const struct kvr_packed nothing = { .codec = codec, .shape = { 0, 1, 1 } };
    struct kvr_coding_noise noise;

    kvr_codec_noise(&nothing, &noise);
    if (noise.kind == KVR_NOISE_UNKNOWN)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "correction %s: codec '%s' has no function noise() that describes its "
                        "quantization error; use correction=none",
                        c->name, codec->text);
    if (noise.kind == KVR_NOISE_MEASURED && !c->measures)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "correction %s: the quantization error of codec '%s' cannot be computed "
                        "from its scales; use correction=energy",
                        c->name, codec->text);
    if (noise.rope_rotated && c->by_scales == KVR_BY_SCALES_EXACT)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "correction %s: codec '%s' quantizes keys before RoPE, which then mixes "
                        "the errors of two channels; use correction=taylor, flat or energy",
                        c->name, codec->text);
    return KVR_OK;
}
