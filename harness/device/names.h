/* names.h - devices by the names that commands and sweeps have for them.
 *
 *     struct kvr_dev *dev;
 *     KVR_TRY(kvr_dev_open_named(&dev, "emulated"));
 *     kvr_dev_name(dev)                               "emulated"
 *
 * "cuda" and "emulated" are one backend, linked with kernels from nvcc or emulated ones; a program
 * has one of the two and refuses the other's name, so that no number passes for another's. */
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

/* The backend of that name, which need not be here. False, and *out left alone: no such name. */
bool kvr_device_backend(const char *name, enum kvr_backend *out);

/* KVR_EINVAL: no such name; KVR_EUNSUPPORTED: not in this program, and how to build it. */
enum kvr_status kvr_device_check_name(const char *name);

/* As above, or what kvr_dev_open() says. */
enum kvr_status kvr_dev_open_named(struct kvr_dev **out, const char *name);

/* Never NULL. */
const char *kvr_dev_name(const struct kvr_dev *dev);

/* Who measured, as rows keep it. */
struct kvr_device_words {
    char name[128];  /* "NVIDIA H200"; "emulated"; "none" on the CPU */
    char driver[64]; /* "13.0, runtime 13.0"; "none" without one */
    int n;           /* devices to choose from, where they have UUIDs */
    char uuid[KVR_MAX_DEVICES][KVR_UUID_LEN];
};

/* Of an open device. */
enum kvr_status kvr_dev_describe(struct kvr_dev *dev, struct kvr_device_words *out);

/* Of a device by name, asked by a child process: the caller takes nothing of the device. Not after
 * this process has opened a GPU, whose driver does not survive a fork. */
enum kvr_status kvr_device_ask(const char *name, struct kvr_device_words *out);

#ifdef __cplusplus
}
#endif
#endif
