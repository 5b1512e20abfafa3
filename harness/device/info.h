/* info.h - properties of a device, and of the build of kvreel's CUDA kernels. */
#ifndef KVR_DEVICE_INFO_H
#define KVR_DEVICE_INFO_H

#include <stdbool.h>
#include <stddef.h>

enum { KVR_UUID_LEN = 48, KVR_MAX_DEVICES = 16 };

struct kvr_device_info {
    char name[128];      /* "NVIDIA H200"; "emulated"; "none" on the CPU */
    int major, minor;    /* compute capability; on the emulated device, the value of the environment
                          * variable KVREEL_EMULATED_CAPABILITY. On the CPU, all numbers of this
                          * structure are 0 */
    int driver, runtime; /* CUDA version numbers: 13000 is 13.0 */
    int n_sm;            /* number of streaming multiprocessors */
    size_t l2_bytes;
    size_t total_bytes, free_bytes;
    size_t taken_peak_bytes; /* peak of taken_bytes since the device was opened */
    size_t taken_bytes;      /* bytes of device memory that the allocation pool has reserved */
};

struct kvr_device_build {
    bool emulated;
    int nvcc;          /* version of the compiler nvcc: 13000 is 13.0; 0 if `emulated` */
    const char *archs; /* architectures in nvcc's form: "800,900,1000"; "" if emulated */
};

#endif
