/* onednn.h - limits oneDNN to the selected instruction set.
 *
 *     kvr_onednn_limit();    before the first computation with oneDNN
 *
 * If --cpu or KVREEL_CPU selects an instruction set, oneDNN uses no instructions beyond that set.
 * Without such a selection, oneDNN uses all instructions of the CPU that its own environment
 * variable ONEDNN_MAX_CPU_ISA allows. oneDNN accepts a limit only once, so a later selection
 * changes only kvreel's own kernels.
 *
 *     KVR_TRY(kvr_onednn_done(kvr_dnnl_stream_wait(s), "gemm", "stream"));     onednn_guard.h */
#ifndef KVR_CORE_ONEDNN_H
#define KVR_CORE_ONEDNN_H

#include <stdbool.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the limit of oneDNN to the selected instruction set; only the first call has an effect.
 * Thread-safe. */
void kvr_onednn_limit(void);

/* Whether the CPU has BF16 instructions (AVX512-BF16) that --cpu, KVREEL_CPU and ONEDNN_MAX_CPU_ISA
 * allow oneDNN to use. Otherwise, oneDNN's BF16 primitives are missing or emulated. Like
 * kvr_onednn_limit(), the function sets the limit. */
bool kvr_onednn_has_bf16(void);

/* Converts a dnnl_status_t to KVR_OK, KVR_ENOMEM, KVR_EUNSUPPORTED (not implemented) or
 * KVR_EINTERNAL. The message names the caller `who` and the operation `what`. */
enum kvr_status kvr_onednn_done(int status, const char *who, const char *what);

#ifdef __cplusplus
}
#endif
#endif
