/* head_map.h - reads a file of head classes, which `kvreel profile heads` writes.
 *
 *     # comments start with a hash
 *     sddsd d   # layer 0
 *     ssddd s   # layer 1
 *
 * The file has one line per layer, with one letter per head. Blanks between letters, and lines
 * without letters, are ignored. */
#ifndef KVR_METHODS_KERNELS_HEAD_MAP_H
#define KVR_METHODS_KERNELS_HEAD_MAP_H

#include "methods/policy.h"

/* Values of the option `map` with which no file is read. With "online", the method determines the
 * classes while it runs. With "labels", it uses the classes that the method's authors published. */
#define KVR_HEAD_MAP_ONLINE "online"
#define KVR_HEAD_MAP_PUBLISHED "labels"

/* Reads the line of layer ctx->layer to class [H]. Fails with KVR_ENOTFOUND if there is no such
 * file. Fails with KVR_EFORMAT if a letter is not in `letters`, or if the number of heads or layers
 * differs from the model's; the message gives the line. */
enum kvr_status kvr_head_map_read(const char *path, const char *letters,
                                  const struct kvr_policy_ctx *ctx, char *class);

#endif
