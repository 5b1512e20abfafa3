/* onednn.c - see onednn.h. */
#include "harness/core/onednn.h"

#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>

#include "harness/core/isa.h"

#if defined(__x86_64__)
static const dnnl_cpu_isa_t limit_of[KVR_N_ISA] = {
    [KVR_ISA_OF_PORTABLE] = dnnl_cpu_isa_sse41,
    [KVR_ISA_OF_AVX2] = dnnl_cpu_isa_avx2,
    [KVR_ISA_OF_AVXVNNI] = dnnl_cpu_isa_avx2_vnni,
    [KVR_ISA_OF_AVX512] = dnnl_cpu_isa_avx512_core,
    [KVR_ISA_OF_VNNI] = dnnl_cpu_isa_avx512_core_vnni,
    [KVR_ISA_OF_AMX_BF16] = dnnl_cpu_isa_avx512_core_amx,
    [KVR_ISA_OF_AMX_INT8] = dnnl_cpu_isa_avx512_core_amx,
};

/* Limits oneDNN to the instruction set that the user has forced. The call fails if oneDNN is
 * already in use; then its earlier limit stays. */
static void limit(void)
{
    if (kvr_isa_forced())
        dnnl_set_max_cpu_isa(limit_of[kvr_isa()]);
}
#else
static void limit(void)
{
}
#endif

void kvr_onednn_limit(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, limit);
}

bool kvr_onednn_has_bf16(void)
{
    kvr_onednn_limit();
#if defined(__x86_64__)
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) ==
           dnnl_cpu_isa_avx512_core_bf16;
#else
    return false;
#endif
}

enum kvr_status kvr_onednn_done(int status, const char *who, const char *what)
{
    if (status == dnnl_success)
        return KVR_OK;
    if (status == dnnl_out_of_memory)
        return kvr_fail(KVR_ENOMEM, "%s: oneDNN is out of memory in %s", who, what);
    if (status == dnnl_unimplemented)
        return kvr_fail(KVR_EUNSUPPORTED, "%s: oneDNN does not implement %s on this CPU", who,
                        what);
    return kvr_fail(KVR_EINTERNAL, "%s: oneDNN: %s failed with status %d", who, what, status);
}
