/* device_check.h - decides from recorded facts whether this build can use a device, so that every
 * refusal can be tested without one.
 *
 *     struct kvr_device_facts f = { .driver = 13000, .runtime = 13000, .n_devices = 1, ... };
 *     KVR_TRY(kvr_device_check_facts(&f));     KVR_EUNSUPPORTED: found and needed */
#ifndef KVR_DEVICE_DEVICE_CHECK_H
#define KVR_DEVICE_DEVICE_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Oldest compute capability with the kernels' instructions (BF16 tensor cores, cp.async). */
enum { KVR_DEVICE_OLDEST_MAJOR = 8, KVR_DEVICE_OLDEST_MINOR = 0 };

struct kvr_device_facts {
    int driver, runtime; /* CUDA version numbers: 13000 is 13.0; driver 0: no driver */
    bool driver_refused; /* the runtime rejects the driver as too old */
    int n_devices;
    const char *visible; /* CUDA_VISIBLE_DEVICES, NULL if unset */
    const char *name;    /* name of device 0; NULL without a device */
    int major, minor;    /* compute capability of device 0; 0 without a device */
    bool no_image;       /* a kernel has no code for device 0 */
    const char *archs;   /* architectures of the kernels, in nvcc's form: "800,900,1000" */
    const char *error;   /* any other CUDA error; NULL: there was none */
};

enum kvr_status kvr_device_check_facts(const struct kvr_device_facts *f);

/* "800,900,1000" as "8.0, 9.0, 10.0"; n bytes at buf. Returns buf. */
const char *kvr_device_archs(const char *archs, char *buf, size_t n);

/* KVR_ENOMEM, with requested, free and total bytes. */
enum kvr_status kvr_device_too_small(const char *device, size_t asked, size_t free_bytes,
                                     size_t total_bytes);

#ifdef __cplusplus
}
#endif
#endif
