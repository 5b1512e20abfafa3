/* level_table.h - a file of calibrated levels, as `kvreel profile levels` writes it.
 *
 *     # what follows this is no part of it
 *     k 0  -0.81 -0.42 -0.13 0.13 0.42 0.81   # keys or values, layer, levels
 *     v 0  ...
 *
 * A line for the keys and one for the values of each layer, in any order; levels ascend and lie in
 * -1 .. 1, the range of a vector without its exact elements. */
#ifndef KVR_METHODS_KERNELS_LEVEL_TABLE_H
#define KVR_METHODS_KERNELS_LEVEL_TABLE_H

#include "methods/codec.h"

/* level [n]: those of place->layer. KVR_ENOTFOUND, KVR_EIO: no such file; KVR_EFORMAT with the
 * line: no such line, other levels than n, another number of layers. KVR_EUNSUPPORTED: it is not
 * known which layer. */
enum kvr_status kvr_level_table_read(const char *path, enum kvr_side side,
                                     const struct kvr_place *place, int n, double *level);

#endif
