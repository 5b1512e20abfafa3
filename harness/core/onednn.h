/* onednn.h - limits oneDNN to the selected instruction set.
 *
 *     kvr_onednn_limit();    before the first computation with oneDNN
 *
 * With --cpu or KVREEL_CPU the whole program, including oneDNN, behaves as on a CPU without newer
 * instructions. Otherwise oneDNN uses all instructions of the CPU, within DNNL_MAX_CPU_ISA. The
 * library accepts a limit only once: a later selection affects kvreel's own kernels alone.
 *
 *     KVR_TRY(kvr_onednn_done(kvr_dnnl_stream_wait(s), "gemm", "stream"));     onednn_guard.h */
#ifndef KVR_CORE_ONEDNN_H
#define KVR_CORE_ONEDNN_H

#include <stdbool.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Only the first call has an effect. Thread-safe. */
void kvr_onednn_limit(void);

/* Whether oneDNN multiplies BF16 by instructions of this CPU, within its limits (--cpu,
 * ONEDNN_MAX_CPU_ISA). Otherwise its BF16 primitives are missing or emulated. Applies the limit. */
bool kvr_onednn_has_bf16(void);

/* Converts a dnnl_status_t to KVR_ENOMEM, KVR_EUNSUPPORTED (not implemented) or KVR_EINTERNAL; the
 * message names the caller and the operation. */
enum kvr_status kvr_onednn_done(int status, const char *who, const char *what);

#ifdef __cplusplus
}
#endif
#endif
