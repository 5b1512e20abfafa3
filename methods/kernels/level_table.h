/* level_table.h - a file of calibrated levels, as written by `kvreel profile levels`.
 *
 *     # comments start with a hash
 *     k 0  -0.81 -0.42 -0.13 0.13 0.42 0.81   # keys or values, layer, levels
 *     v 0  ...
 *
 * One line for the keys and one for the values of each layer, in any order; levels ascend within -1
 * .. 1, the range of a vector without its outliers. */
#ifndef KVR_METHODS_KERNELS_LEVEL_TABLE_H
#define KVR_METHODS_KERNELS_LEVEL_TABLE_H

#include "methods/codec.h"

/* level [n]: levels of place->layer. KVR_ENOTFOUND, KVR_EIO: no such file; KVR_EFORMAT with the
 * line: no such line, a number of levels other than n, or another number of layers.
 * KVR_EUNSUPPORTED: the layer is unknown. */
enum kvr_status kvr_level_table_read(const char *path, enum kvr_side side,
                                     const struct kvr_place *place, int n, double *level);

#endif
