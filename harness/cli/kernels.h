/* kernels.h - what `version` and `doctor` say of the CUDA side of this program. */
#ifndef KVR_CLI_KERNELS_H
#define KVR_CLI_KERNELS_H

#include <stddef.h>

#include "harness/core/status.h"

/* "emulated; ..." or "nvcc 13.0 for 8.0, 9.0, 10.0"; n bytes at buf. Returns buf. */
const char *kvr_kernels_text(char *buf, size_t n);

/* The device that these kernels run on: its name, size and versions. The reason where none is. */
enum kvr_status kvr_kernels_device(char *buf, size_t n);

#endif
