/* stubs.c - what the tests link but a machine without kvreel's libraries cannot have. */
#include <stdio.h>

#include "harness/core/sha256.h"
#include "harness/engine/gemm_impl.h"

/* Names a plug-in's file in a cell's key. Nothing here makes keys. */
enum kvr_status kvr_sha256_file(const char *path, char hex[KVR_SHA256_HEX])
{
    (void)path;
    snprintf(hex, KVR_SHA256_HEX, "%064d", 0);
    return KVR_OK;
}

/* oneDNN's layers: the device's own are held to sums in double. */
static enum kvr_status no_layers(struct kvr_gemm **out, struct kvr_dev *dev, enum kvr_dtype compute)
{
    (void)dev, (void)compute;
    *out = NULL;
    return kvr_fail(KVR_EUNSUPPORTED, "gemm: no oneDNN here");
}
const struct kvr_gemm_kind kvr_gemm_cpu = { .open = no_layers };
