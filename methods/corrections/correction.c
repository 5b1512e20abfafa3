/* correction.c - the list of corrections, and the steps they read. */
#include "methods/corrections/correction.h"

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

/* First of the ascending indices that is not below `at`. */
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

void kvr_squared_steps(const struct kvr_packed *k, int h, int64_t t0, int n, float *out)
{
    const int d = k->shape.head_dim;
    const int64_t channels = (int64_t)k->shape.n_heads * d;
    struct kvr_steps steps;

    kvr_codec_steps(k, &steps);
    for (int t = 0; t < n; t++)
        for (int c = 0; c < d; c++) {
            const int64_t tok = t0 + t, flat = tok * channels + (int64_t)h * d + c;
            float s = 0;

            if (steps.kind == KVR_STEPS_TOKENS)
                s = kvr_f16_to_f32(steps.step[tok / steps.group * channels + (int64_t)h * d + c]);
            else if (steps.kind == KVR_STEPS_CHANNELS)
                s = kvr_f16_to_f32(steps.step[flat / steps.group]);
            else if (steps.kind == KVR_STEPS_TOKEN)
                s = kvr_f16_to_f32(steps.step[tok]);
            out[t * d + c] = s * s;
        }
    const int64_t end = (t0 + n) * channels;

    for (int64_t i = lower(steps.exact, steps.n_exact, t0 * channels);
         i < steps.n_exact && steps.exact[i] < end; i++) {
        const int64_t c = steps.exact[i] % channels - (int64_t)h * d;

        if (c >= 0 && c < d)
            out[(steps.exact[i] / channels - t0) * d + c] = 0;
    }
}
