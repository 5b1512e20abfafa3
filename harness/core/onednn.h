/* onednn.h - oneDNN keeps to the instruction set that was chosen by name.
 *
 *     kvr_onednn_limit();    before the first call of oneDNN that computes
 *
 * With --cpu or KVREEL_CPU the program behaves as on a CPU that has no more, its library's products
 * included. Where nothing was chosen by name oneDNN uses what there is (and DNNL_MAX_CPU_ISA). The
 * library takes a limit once: what is forced afterwards changes our own loops alone.
 *
 *     KVR_TRY(kvr_onednn_done(kvr_dnnl_stream_wait(s), "gemm", "stream"));     onednn_guard.h */
#ifndef KVR_CORE_ONEDNN_H
#define KVR_CORE_ONEDNN_H

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Does something at the first call alone. From any thread. */
void kvr_onednn_limit(void);

/* A dnnl_status_t as ours: KVR_ENOMEM or KVR_EINTERNAL, with who called and what failed. */
enum kvr_status kvr_onednn_done(int status, const char *who, const char *what);

#ifdef __cplusplus
}
#endif
#endif
