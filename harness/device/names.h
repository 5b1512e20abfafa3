/* names.h - maps the device names "cpu", "cuda" and "emulated" of commands and sweeps to devices.
 *
 *     struct kvr_dev *dev;
 *     KVR_TRY(kvr_dev_open_named(&dev, "emulated"));
 *     kvr_dev_name(dev)                               "emulated"
 *
 * "cuda" and "emulated" are names of the same backend, KVR_CUDA. For "cuda", nvcc compiled the
 * kernels for GPUs; for "emulated", the kernels are emulated on the CPU. A program contains only
 * one of these two sets of kernels and refuses the other device name, so that results are never
 * mislabelled. */
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
/* How a user chooses the device cpu: `run` has no option --device. */
#define KVR_DEVICE_USE_CPU "(--device cpu, or --set device=cpu in a sweep)"

/* Finds the backend of a device name, even if no such device is available. Returns false and leaves
 * *out unchanged if the name is unknown. */
bool kvr_device_backend(const char *name, enum kvr_backend *out);
/* Like kvr_device_backend(), but fails like kvr_name_parse() if the name is unknown; `what` is the
 * beginning of the message. */
enum kvr_status kvr_device_parse(enum kvr_backend *out, const char *what, const char *name);

/* Returns KVR_EINVAL if the device name is unknown. Returns KVR_EUNSUPPORTED with build
 * instructions if this program does not contain that device's kernels. */
enum kvr_status kvr_device_check_name(const char *name);

/* Opens a device by name; returns the errors of kvr_device_check_name() and kvr_dev_open(). */
enum kvr_status kvr_dev_open_named(struct kvr_dev **out, const char *name);

/* Never NULL. */
const char *kvr_dev_name(const struct kvr_dev *dev);

/* Description of a device, which is stored with every result. */
struct kvr_device_words {
    char name[128];  /* the GPU's name, such as "NVIDIA H200"; "emulated" on the emulated device;
                      * "none" on the CPU */
    char driver[64]; /* newest CUDA version that the driver supports, then the version of the CUDA
                      * runtime, as in "13.0, runtime 13.0"; "none" without a driver */
    int n;           /* number of GPUs whose UUIDs are in uuid[] */
    char uuid[KVR_MAX_DEVICES][KVR_UUID_LEN];
};

/* Describes an open device. */
enum kvr_status kvr_dev_describe(struct kvr_dev *dev, struct kvr_device_words *out);

/* Describes a device by name without opening it in this process: a child process queries the
 * device, so that this process uses no device memory. The function must not be called after this
 * process has opened a GPU, because a child of fork() cannot use CUDA if its parent has
 * initialised CUDA. */
enum kvr_status kvr_device_query(const char *name, struct kvr_device_words *out);

#ifdef __cplusplus
}
#endif
#endif
