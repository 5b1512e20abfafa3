/* kernels.h - describes the CUDA kernels and the GPU, for `kvreel version` and `kvreel doctor`. */
#ifndef KVR_CLI_KERNELS_H
#define KVR_CLI_KERNELS_H

#include <stddef.h>

#include "harness/core/status.h"

/* Describes the build of the CUDA kernels in buf [n], such as "nvcc 13.0 for 8.0, 9.0, 10.0" or
 * "emulated; ...". Returns buf. */
const char *kvr_kernels_text(char *buf, size_t n);

/* Writes name, memory and versions of the GPU that runs the kernels to buf [n], or the reason why
 * there is no GPU. */
enum kvr_status kvr_kernels_device(char *buf, size_t n);

#endif
