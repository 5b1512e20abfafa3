/* device_check.h - decides whether this build can use a GPU. The decision needs only a description
 * of the GPU and its driver, so that each error can be tested without a GPU.
 *
 *     struct kvr_device_facts f = { .driver = 13000, .runtime = 13000, .n_devices = 1, ... };
 *     KVR_TRY(kvr_device_check_facts(&f));     KVR_EUNSUPPORTED: what was found and is needed */
#ifndef KVR_DEVICE_DEVICE_CHECK_H
#define KVR_DEVICE_DEVICE_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Oldest supported compute capability, 8.0, because the kernels use BF16 tensor cores and
 * cp.async. */
enum { KVR_DEVICE_OLDEST_MAJOR = 8, KVR_DEVICE_OLDEST_MINOR = 0 };

struct kvr_device_facts {
    int driver, runtime; /* CUDA version numbers, such as 13000 for 13.0; `driver` is 0 if no driver
                          * is installed */
    bool driver_refused; /* whether the CUDA runtime rejects the driver as too old */
    int n_devices;
    const char *visible; /* environment variable CUDA_VISIBLE_DEVICES; NULL if unset */
    const char *name;    /* name of device 0; NULL without a device */
    int major, minor;    /* compute capability of device 0, or 0 without a device */
    bool no_image;       /* whether the kernels have no code for the architecture of device 0 */
    const char *archs;   /* architectures of the kernels in nvcc's form, such as "800,900,1000" */
    const char *error;   /* message of a CUDA error that no other field describes; NULL if there is
                          * none */
};

enum kvr_status kvr_device_check_facts(const struct kvr_device_facts *f);

/* Writes nvcc's list of architectures, such as "800,900,1000", in the form "8.0, 9.0, 10.0" to buf
 * [n], and returns buf. */
const char *kvr_device_archs(const char *archs, char *buf, size_t n);

/* Returns KVR_ENOMEM with a message that states the requested, free and total bytes of device
 * memory. */
enum kvr_status kvr_device_too_small(const char *device, size_t asked, size_t free_bytes,
                                     size_t total_bytes);

#ifdef __cplusplus
}
#endif
#endif
