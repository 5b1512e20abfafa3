/* info.h - what a device is, and what the kernels of this program were built with. */
#ifndef KVR_DEVICE_INFO_H
#define KVR_DEVICE_INFO_H

#include <stdbool.h>
#include <stddef.h>

enum { KVR_UUID_LEN = 48, KVR_MAX_DEVICES = 16 };

struct kvr_device_info {
    char name[128];      /* "NVIDIA H200"; "emulated" where it is; "none" on the CPU */
    int major, minor;    /* compute capability; 0.0 on the CPU, and so below; emulated: asked for */
    int driver, runtime; /* versions */
    int n_sm;            /* multiprocessors */
    size_t l2_bytes;
    size_t total_bytes, free_bytes;
    size_t taken_peak_bytes; /* the most that this process has had from the device */
};

struct kvr_device_build {
    bool emulated;
    int nvcc;          /* as CUDA writes versions: 13000 is 13.0; 0: emulated */
    const char *archs; /* as nvcc writes them: "800,900,1000"; "" emulated */
};

#endif
