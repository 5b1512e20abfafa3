/* info.h - properties of a device, and of the kernels' build. */
#ifndef KVR_DEVICE_INFO_H
#define KVR_DEVICE_INFO_H

#include <stdbool.h>
#include <stddef.h>

enum { KVR_UUID_LEN = 48, KVR_MAX_DEVICES = 16 };

struct kvr_device_info {
    char name[128];      /* "NVIDIA H200"; "emulated"; "none" on the CPU */
    int major, minor;    /* compute capability; 0 on the CPU, as are the numbers below; emulated: as
                          * configured */
    int driver, runtime; /* CUDA version numbers: 13000 is 13.0 */
    int n_sm;            /* number of streaming multiprocessors */
    size_t l2_bytes;
    size_t total_bytes, free_bytes;
    size_t taken_peak_bytes; /* peak of taken_bytes */
    size_t taken_bytes;      /* device memory that this device's allocation pool has reserved now */
};

struct kvr_device_build {
    bool emulated;
    int nvcc;          /* CUDA version number: 13000 is 13.0; 0: emulated */
    const char *archs; /* in nvcc's form: "800,900,1000"; "" if emulated */
};

#endif
