/* calibration.c - see calibration.h. */
#include "methods/kernels/calibration.h"

#include <string.h>
#include <sys/stat.h>

bool kvr_calibration_is_file(const char *value)
{
    return value[0] && strcmp(value, KVR_CALIBRATION_FIT) != 0;
}

enum kvr_status kvr_calibration_check(const char *option, const char *value)
{
    if (strlen(value) > KVR_CALIBRATION_PATH || strpbrk(value, ",|+()= "))
        return kvr_fail(KVR_EINVAL,
                        "%s '%s' has %zu characters; need a path of at most %d characters, without "
                        "blanks and ,|+()=",
                        option, value, strlen(value), KVR_CALIBRATION_PATH);
    return KVR_OK;
}

enum kvr_status kvr_calibration_find(const char *option, const char *path,
                                     const struct kvr_place *place)
{
    struct stat sb;

    if (!place->n_layers)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "%s '%s': the file has one entry per layer, but the caller gives no layer "
                        "index (kvr_place.n_layers is 0); use the value `fit`, which needs no file",
                        option, path);
    /* accept only regular files, because opening a FIFO would block */
    if (stat(path, &sb) == 0 && !S_ISREG(sb.st_mode))
        return kvr_fail(KVR_EINVAL, "%s '%s': not a regular file", option, path);
    return KVR_OK;
}
