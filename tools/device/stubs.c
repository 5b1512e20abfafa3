/* stubs.c - what the tests link but a machine without kvreel's libraries cannot have: what stands around
 * oneDNN. */
#include "harness/core/onednn.h"
#include "harness/core/onednn_guard.h"

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
