/* part.c - the noise function of stages that have no noise model: their quantization error must be
 * measured (KVR_NOISE_MEASURED). */
#include "methods/part.h"

void kvr_noise_measured(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                        struct kvr_coding_noise *out)
{
    (void)job, (void)in;
    out->kind = KVR_NOISE_MEASURED;
}
