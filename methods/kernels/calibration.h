/* calibration.h - common code of stages that read a calibration file. */
#ifndef KVR_METHODS_KERNELS_CALIBRATION_H
#define KVR_METHODS_KERNELS_CALIBRATION_H

#include "methods/codec.h"

/* Value of a stage's calibration option with which the stage reads no file, but fits all its
 * parameters to each block. */
#define KVR_CALIBRATION_FIT "fit"
enum { KVR_CALIBRATION_PATH = 120 };

/* Returns whether the value of a calibration option is the path of a file. The value is empty for a
 * stage without this option. */
bool kvr_calibration_is_file(const char *value);

/* Checks the path of a calibration file. Fails with KVR_EINVAL if the path is longer than
 * KVR_CALIBRATION_PATH, or contains a blank or one of the characters ,|+()= of the codec syntax.
 * The error message names the option. */
enum kvr_status kvr_calibration_check(const char *option, const char *value);

/* Checks that a stage can read the calibration of its layer. Fails with KVR_EUNSUPPORTED if `place`
 * does not state the layer, and with KVR_EINVAL if the path exists but is not a regular file. */
enum kvr_status kvr_calibration_find(const char *option, const char *path,
                                     const struct kvr_place *place);

#endif
