/* names.h - maps the device names of commands and sweeps to devices.
 *
 *     struct kvr_dev *dev;
 *     KVR_TRY(kvr_dev_open_named(&dev, "emulated"));
 *     kvr_dev_name(dev)                               "emulated"
 *
 * "cuda" and "emulated" are one backend, linked with nvcc's kernels or emulated ones. A program has
 * one of them and refuses the other name, so that results are never mislabelled. */
#ifndef KVR_DEVICE_NAMES_H
#define KVR_DEVICE_NAMES_H

#include <stdbool.h>

#include "harness/device/dev.h"
#include "harness/device/info.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const char *const kvr_device_names[]; /* "cpu", "cuda", "emulated", NULL */
#define KVR_DEVICE_HELP "cpu, cuda or emulated"

/* Finds the backend of a device name; its device need not be available. False if there is no such
 * name; *out is then unchanged. */
bool kvr_device_backend(const char *name, enum kvr_backend *out);

/* KVR_EINVAL: no such name; KVR_EUNSUPPORTED: not in this program, with build instructions. */
enum kvr_status kvr_device_check_name(const char *name);

/* Errors as above, or of kvr_dev_open(). */
enum kvr_status kvr_dev_open_named(struct kvr_dev **out, const char *name);

/* Never NULL. */
const char *kvr_dev_name(const struct kvr_dev *dev);

/* Description of a device, as stored in rows. */
struct kvr_device_words {
    char name[128];  /* "NVIDIA H200"; "emulated"; "none" on the CPU */
    char driver[64]; /* "13.0, runtime 13.0"; "none" without a driver */
    int n;           /* selectable devices with UUIDs */
    char uuid[KVR_MAX_DEVICES][KVR_UUID_LEN];
};

/* Describes an open device. */
enum kvr_status kvr_dev_describe(struct kvr_dev *dev, struct kvr_device_words *out);

/* Describes a device by name. A child process queries the device, so that this process holds no
 * device memory. Must not be called after this process has opened a GPU, whose driver does not
 * survive fork(). */
enum kvr_status kvr_device_query(const char *name, struct kvr_device_words *out);

#ifdef __cplusplus
}
#endif
#endif
