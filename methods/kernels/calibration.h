/* calibration.h - common code of stages that read a calibration file. */
#ifndef KVR_METHODS_KERNELS_CALIBRATION_H
#define KVR_METHODS_KERNELS_CALIBRATION_H

#include "methods/codec.h"

/* Value of a stage's option that names no file; the stage then fits all its parameters to the
 * block. */
#define KVR_CALIBRATION_FIT "fit"
enum { KVR_CALIBRATION_PATH = 120 };

/* Whether the option's value names a calibration file; the value is empty for a stage without the
 * option. */
bool kvr_calibration_is_file(const char *value);

/* Checks the path of a calibration file. Fails with KVR_EINVAL if the path contains a comma or
 * bracket, which the codec's text reserves, or is longer than KVR_CALIBRATION_PATH. The message
 * names the option. */
enum kvr_status kvr_calibration_check(const char *option, const char *value);

/* Checks that the calibration can be read. Fails with KVR_EUNSUPPORTED if the layer is unknown, and
 * with KVR_EINVAL if the path is not a regular file. */
enum kvr_status kvr_calibration_find(const char *option, const char *path,
                                     const struct kvr_place *place);

#endif
