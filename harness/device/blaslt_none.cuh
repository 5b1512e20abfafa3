/* blaslt_none.cuh - stubs of the functions of blaslt.h for builds without cuBLASLt. */
#ifndef KVR_DEVICE_BLASLT_NONE_CUH
#define KVR_DEVICE_BLASLT_NONE_CUH

#include "harness/device/blaslt.h"

static const char no_blaslt[] = "not there when this program was built";

static enum kvr_status none(void)
{
    return kvr_fail(KVR_EUNSUPPORTED, "cuBLASLt: %s", no_blaslt);
}

enum kvr_status kvr_blaslt_find(char *words, size_t n)
{
    if (n)
        *words = 0;
    return none();
}

enum kvr_status kvr_blaslt_open(struct kvr_blaslt **out, struct kvr_stream *)
{
    *out = NULL;
    return none();
}

void kvr_blaslt_close(struct kvr_blaslt **lt)
{
    *lt = NULL;
}

enum kvr_status kvr_blaslt_plan(struct kvr_blaslt_plan **out, struct kvr_blaslt *,
                                const struct kvr_blaslt_shape *)
{
    *out = NULL;
    return none();
}

void kvr_blaslt_plan_close(struct kvr_blaslt_plan **p)
{
    *p = NULL;
}

enum kvr_status kvr_blaslt_run(struct kvr_blaslt *, const struct kvr_blaslt_plan *, const void *,
                               const void *, const void *, void *, void *)
{
    return none();
}

#endif
