/* level_table.h - reads a file of calibrated quantization levels, which `kvreel profile levels`
 * writes.
 *
 *     # comments start with a hash
 *     k 0  -0.81 -0.42 -0.13 0.13 0.42 0.81   # keys or values, layer, levels
 *     v 0  ...
 *
 * For each layer, the file has one line for the keys and one for the values, in any order. Levels
 * ascend in the interval [-1, 1]. Before a channel or token is quantized, its elements other than
 * outliers are scaled to this interval. */
#ifndef KVR_METHODS_KERNELS_LEVEL_TABLE_H
#define KVR_METHODS_KERNELS_LEVEL_TABLE_H

#include "methods/codec.h"

/* Reads the n levels of layer place->layer for keys or values (`side`) into level [n]. Fails with
 * KVR_ENOTFOUND or KVR_EIO if the file cannot be read, and with KVR_EUNSUPPORTED if `place` does
 * not state the layer. Fails with KVR_EFORMAT if a line is missing, or if the number of levels or
 * layers in the file differs from the expected number; the message gives the line. */
enum kvr_status kvr_level_table_read(const char *path, enum kvr_side side,
                                     const struct kvr_place *place, int n, double *level);

#endif
