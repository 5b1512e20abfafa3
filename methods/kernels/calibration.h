/* calibration.h - shared by stages that read a calibration file. */
#ifndef KVR_METHODS_KERNELS_CALIBRATION_H
#define KVR_METHODS_KERNELS_CALIBRATION_H

#include "methods/codec.h"

/* Value of the option that names no file: everything is then fitted to the block. */
#define KVR_CALIBRATION_FIT "fit"
enum { KVR_CALIBRATION_PATH = 120 };

/* Whether the option's value names a file; "" for stages without the option. */
bool kvr_calibration_is_file(const char *value);

/* KVR_EINVAL if the path contains a comma or bracket, which the codec's text reserves, or is longer
 * than KVR_CALIBRATION_PATH. The message uses `option`. */
enum kvr_status kvr_calibration_check(const char *option, const char *value);

/* KVR_EUNSUPPORTED if the layer is unknown, KVR_EINVAL if the path is not a regular file. */
enum kvr_status kvr_calibration_find(const char *option, const char *path,
                                     const struct kvr_place *place);

#endif
