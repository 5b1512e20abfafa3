/* info.h - properties of a device, and of the build of kvreel's CUDA kernels. */
#ifndef KVR_DEVICE_INFO_H
#define KVR_DEVICE_INFO_H

#include <stdbool.h>
#include <stddef.h>

enum { KVR_UUID_LEN = 48, KVR_MAX_DEVICES = 16 };

/* On the CPU, all numbers of this structure are 0. */
struct kvr_device_info {
    char name[128];      /* the GPU's name, such as "NVIDIA H200"; "emulated" on the emulated
                          * device; "none" on the CPU */
    int major, minor;    /* compute capability; on the emulated device, the value of the environment
                          * variable KVREEL_EMULATED_CAPABILITY */
    int driver, runtime; /* newest CUDA version that the driver supports, and version of the CUDA
                          * runtime: 13000 is 13.0 */
    int n_sm;            /* number of streaming multiprocessors */
    size_t l2_bytes;
    size_t total_bytes, free_bytes;
    size_t taken_peak_bytes; /* peak of taken_bytes since the device was opened */
    size_t taken_bytes;      /* bytes of device memory that CUDA's memory pool has reserved */
};

struct kvr_device_build {
    bool emulated;
    int nvcc;          /* version of nvcc: 13000 is 13.0; 0 if the kernels are emulated */
    const char *archs; /* GPU architectures of the kernels in nvcc's form: "800,900,1000"; "" if the
                        * kernels are emulated */
};

#endif
