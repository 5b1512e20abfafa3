/* kernels.h - the CUDA part of the output of `version` and `doctor`. */
#ifndef KVR_CLI_KERNELS_H
#define KVR_CLI_KERNELS_H

#include <stddef.h>

#include "harness/core/status.h"

/* "emulated; ..." or "nvcc 13.0 for 8.0, 9.0, 10.0"; n bytes at buf. Returns buf. */
const char *kvr_kernels_text(char *buf, size_t n);

/* Name, memory and versions of the device that runs these kernels, or the reason why there is
 * none. */
enum kvr_status kvr_kernels_device(char *buf, size_t n);

#endif
