/* kernels.h - describes the CUDA kernels and the GPU, for `kvreel version` and `kvreel doctor`. */
#ifndef KVR_CLI_KERNELS_H
#define KVR_CLI_KERNELS_H

#include <stddef.h>

#include "harness/core/status.h"

/* Writes a description of how the CUDA kernels were built to buf [n]. Examples are "nvcc 13.0 for
 * 8.0, 9.0, 10.0" (8.0, 9.0 and 10.0 are compute capabilities) and "emulated on the CPU; ...".
 * Returns buf. */
const char *kvr_kernels_text(char *buf, size_t n);

/* Writes the GPU's name, memory, compute capability and CUDA versions to buf [n]. If there is no
 * GPU, the error message gives the reason. */
enum kvr_status kvr_kernels_device(char *buf, size_t n);

#endif
