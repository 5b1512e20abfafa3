/* stubs.c - what the tests link but a machine without kvreel's libraries cannot have: OpenSSL's
 * sha256, which names files in cells' keys (nothing here makes keys), and what stands
 * around oneDNN. */
#include <stdio.h>

#include "harness/core/onednn.h"
#include "harness/core/onednn_guard.h"
#include "harness/core/sha256.h"

static enum kvr_status zeros(char hex[KVR_SHA256_HEX])
{
    snprintf(hex, KVR_SHA256_HEX, "%064d", 0);
    return KVR_OK;
}

enum kvr_status kvr_sha256_open(struct kvr_sha256 *h)
{
    (void)h;
    return KVR_OK;
}

enum kvr_status kvr_sha256_add(struct kvr_sha256 *h, const void *p, size_t n)
{
    (void)h, (void)p, (void)n;
    return KVR_OK;
}

enum kvr_status kvr_sha256_close(struct kvr_sha256 *h, char hex[KVR_SHA256_HEX])
{
    (void)h;
    return zeros(hex);
}

enum kvr_status kvr_sha256_hex(const void *p, size_t n, char hex[KVR_SHA256_HEX])
{
    (void)p, (void)n;
    return zeros(hex);
}

enum kvr_status kvr_sha256_file(const char *path, char hex[KVR_SHA256_HEX])
{
    (void)path;
    return zeros(hex);
}

dnnl_status_t kvr_dnnl_sgemm(char a_is, char b_is, dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t k,
                             float alpha, const float *a, dnnl_dim_t lda, const float *b,
                             dnnl_dim_t ldb, float beta, float *c, dnnl_dim_t ldc)
{
    return dnnl_sgemm(a_is, b_is, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

enum kvr_status kvr_onednn_done(int status, const char *who, const char *what)
{
    return status == dnnl_success ? KVR_OK : kvr_fail(KVR_EINTERNAL, "%s: %s failed", who, what);
}
