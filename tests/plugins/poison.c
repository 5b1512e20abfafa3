/* poison.c - a codec that decodes a NaN, for a sweep with a broken method. */
#include <math.h>

#include "methods/plugin.h"

static void no_bytes(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    (void)job, (void)out;
}

static enum kvr_status poison_encode(const struct kvr_stage_job *job, float *x,
                                     struct kvr_stage_data *out)
{
    (void)job, (void)x, (void)out;
    return KVR_OK;
}

/* out [n,nh,D]: overwrites the first value of the first decoded token. */
static void poison_decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                          int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                          float *out)
{
    (void)job, (void)in, (void)t0, (void)n, (void)h0, (void)nh, (void)mode;
    out[0] = NAN;
}

static const struct kvr_stage poison = {
    .name = "poison",
    .title = "one value is no number when it is read back",
    .kind = KVR_STAGE_SHIFT,
    .deterministic = true,
    .layout = no_bytes,
    .cpu = { .encode = poison_encode, .decode = poison_decode },
};

static const struct kvr_method poisoned = {
    .name = "POISONED_INT4",
    .family = "POISONED",
    .title = "a method that is broken",
    .paper = "-",
    .k = "sym(bits=4)",
    .v = "poison | sym(bits=4)",
};

static const struct kvr_stage *const stages[] = { &poison, NULL };
static const struct kvr_method *const methods[] = { &poisoned, NULL };
KVR_PLUGIN(.name = "poison", .version = "1.0", .stages = stages, .methods = methods);
