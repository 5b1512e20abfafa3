/* device_check.h - can this build use the device that was found? A judgement on facts alone, so
 * that every refusal can be tried on a machine without a device.
 *
 *     struct kvr_device_facts f = { .driver = 13000, .runtime = 13000, .n_devices = 1, ... };
 *     KVR_TRY(kvr_device_judge(&f));     KVR_EUNSUPPORTED: what was found, what is needed */
#ifndef KVR_DEVICE_DEVICE_CHECK_H
#define KVR_DEVICE_DEVICE_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The oldest device whose instructions the kernels use (BF16 on tensor cores, cp.async). */
enum { KVR_DEVICE_OLDEST_MAJOR = 8, KVR_DEVICE_OLDEST_MINOR = 0 };

struct kvr_device_facts {
    int driver, runtime; /* as CUDA writes versions: 13000 is 13.0; driver 0: there is none */
    bool driver_refused; /* the runtime itself says that the driver is too old for it */
    int n_devices;
    const char *visible; /* CUDA_VISIBLE_DEVICES, NULL when it is not set */
    const char *name;    /* of device 0; NULL without one, and so below */
    int major, minor;    /* its compute capability */
    bool no_image;       /* a kernel found no code for it */
    const char *archs;   /* what the kernels were built for, as nvcc writes it: "800,900,1000" */
    const char *error;   /* anything else that CUDA said; NULL: nothing */
};

enum kvr_status kvr_device_judge(const struct kvr_device_facts *f);

/* "800,900,1000" as "8.0, 9.0, 10.0"; n bytes at buf. Returns buf. */
const char *kvr_device_archs(const char *archs, char *buf, size_t n);

/* The same for memory: KVR_ENOMEM, with all three numbers. */
enum kvr_status kvr_device_too_small(const char *device, size_t asked, size_t free_bytes,
                                     size_t total_bytes);

#ifdef __cplusplus
}
#endif
#endif
