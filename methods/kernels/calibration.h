/* calibration.h - what stages that read a calibration's file have in common. */
#ifndef KVR_METHODS_KERNELS_CALIBRATION_H
#define KVR_METHODS_KERNELS_CALIBRATION_H

#include "methods/codec.h"

/* What stands in the place of a file: all is fitted to the block. */
#define KVR_CALIBRATION_FIT "fit"
enum { KVR_CALIBRATION_PATH = 120 };

/* Does an option's value name a file? A stage without the option leaves it empty. */
bool kvr_calibration_is_file(const char *value);

/* The path stands in the codec's text, among commas and brackets: KVR_EINVAL where it is longer
 * than KVR_CALIBRATION_PATH or holds one of them. `option` is what the message calls it. */
enum kvr_status kvr_calibration_check(const char *option, const char *value);

/* Is the place known that has lines or tensors of its own, and the file a file? KVR_EUNSUPPORTED,
 * KVR_EINVAL. */
enum kvr_status kvr_calibration_find(const char *option, const char *path,
                                     const struct kvr_place *place);

#endif
