/* broken.c - a stage that stores FP16 elements. Each of its methods breaks one rule of plug-ins,
 * which `kvreel plugin check` must report. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "methods/plugin.h"

enum rule { NONE, REMEMBERS, WRITES, BYTES, AGAIN, PARTS, CRASH, NOT_A_NUMBER, MEMORY, SLOW };

static enum rule rule_of(const struct kvr_stage_job *job)
{
    return *(const enum rule *)job->stage->variant;
}

static int64_t n_elements(const struct kvr_stage_job *job)
{
    return job->shape.n_tok * job->shape.n_heads * job->shape.head_dim;
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    out->entry = (struct kvr_stage_bytes){ .codes = sizeof(kvr_f16) };
    out->most_entries = n_elements(job);
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    static float drift, first[64];
    static bool met;
    const int64_t n = n_elements(job);
    const enum rule rule = rule_of(job);
    const size_t more = rule == BYTES ? 2 : 1;
    enum kvr_status st;

    if (rule == CRASH && x[0] == 0)
        abort();
    for (volatile bool on = rule == SLOW && x[0] == 0; on;)
        continue;
    drift += rule == AGAIN ? 0x1p-8f : 0;
    for (int i = 0; i < 64 && !met; i++)
        first[i] = x[i];
    met = true;
    st = kvr_buf_alloc(&out->codes, job->dev, KVR_MEM_KV, more * (size_t)n * sizeof(kvr_f16));
    if (st != KVR_OK)
        return rule == MEMORY ? kvr_fail(KVR_EINTERNAL, "what is a failed allocation?") : st;
    out->n_entries = n;
    for (int64_t i = 0; i < n; i++) {
        const float y = rule == REMEMBERS && i < 64           ? first[i]
                        : rule == NOT_A_NUMBER && isnan(x[i]) ? 0
                                                              : x[i] * (1 + drift);

        ((kvr_f16 *)out->codes.p)[i] = kvr_f32_to_f16(y);
    }
    if (rule == WRITES)
        x[0] += 1;
    return KVR_OK;
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const int64_t d = job->shape.head_dim, width = job->shape.n_heads * d;
    const int64_t from = rule_of(job) == PARTS ? 0 : t0;

    (void)mode; /* no pipeline has a second grid, so the mode is always KVR_DECODE_SET */
    for (int64_t t = 0; t < n; t++)
        for (int64_t c = 0; c < nh * d; c++)
            out[t * nh * d + c] =
                kvr_f16_to_f32(((const kvr_f16 *)in->codes.p)[(from + t) * width + h0 * d + c]);
}

#define BROKEN(breaks, row, stage_name, label)                                                     \
    static const enum rule row##_rule = breaks;                                                    \
    static const struct kvr_stage row##_stage = { .name = stage_name,                              \
                                                  .title = "FP16",                                 \
                                                  .kind = KVR_STAGE_GRID,                          \
                                                  .variant = &row##_rule,                          \
                                                  .deterministic = true,                           \
                                                  .layout = layout,                                \
                                                  .cpu = { .encode = encode, .decode = decode } }; \
    static const struct kvr_method row = { .name = label,                                          \
                                           .family = "BROKEN",                                     \
                                           .title = "FP16",                                        \
                                           .paper = "-",                                           \
                                           .k = stage_name,                                        \
                                           .v = stage_name }
BROKEN(NONE, whole, "whole", "WHOLE_F16");
BROKEN(REMEMBERS, first_met, "first_met", "REMEMBERS_F16");
BROKEN(WRITES, scribbles, "scribbles", "BREAKS_INPUT");
BROKEN(BYTES, more_bytes, "more_bytes", "BREAKS_BYTES");
BROKEN(AGAIN, drifting, "drifting", "BREAKS_AGAIN");
BROKEN(PARTS, from_0, "from_0", "BREAKS_PARTS");
BROKEN(CRASH, no_zeros, "no_zeros", "BREAKS_ZEROS");
BROKEN(NOT_A_NUMBER, no_nan, "no_nan", "BREAKS_NAN");
BROKEN(MEMORY, no_words, "no_words", "BREAKS_MEMORY");
BROKEN(SLOW, endless, "endless", "BREAKS_TIME");

static const struct kvr_stage unused = { .name = "unused",
                                         .title = "FP16",
                                         .kind = KVR_STAGE_GRID,
                                         .variant = &whole_rule,
                                         .layout = layout,
                                         .cpu = { .encode = encode, .decode = decode } };

static const struct kvr_stage *const stages[] = {
    &first_met_stage, &scribbles_stage, &whole_stage,    &more_bytes_stage,
    &drifting_stage,  &from_0_stage,    &no_zeros_stage, &no_nan_stage,
    &no_words_stage,  &endless_stage,   &unused,         NULL
};
static const struct kvr_method *const methods[] = { &first_met, &scribbles, &whole,    &more_bytes,
                                                    &drifting,  &from_0,    &no_zeros, &no_nan,
                                                    &no_words,  &endless,   NULL };
KVR_PLUGIN(.name = "broken", .version = "1.0", .stages = stages, .methods = methods);
