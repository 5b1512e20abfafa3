/* head_map.h - a file of head classes, as written by `kvreel profile heads`.
 *
 *     # comments start with a hash
 *     sddsd d   # layer 0
 *     ssddd s   # layer 1
 *
 * One line per layer, one letter per head; blanks between letters and lines without letters are
 * ignored. */
#ifndef KVR_METHODS_KERNELS_HEAD_MAP_H
#define KVR_METHODS_KERNELS_HEAD_MAP_H

#include "methods/policy.h"

/* Values of the option that name no file: classes are determined while the method runs, or are
 * those published with the paper. */
#define KVR_HEAD_MAP_ONLINE "online"
#define KVR_HEAD_MAP_PUBLISHED "labels"

/* class [H]: the line of ctx->layer. `letters`: the allowed letters. KVR_ENOTFOUND: no such file;
 * KVR_EFORMAT with the line: other letters, or another number of heads or layers than the model. */
enum kvr_status kvr_head_map_read(const char *path, const char *letters,
                                  const struct kvr_policy_ctx *ctx, char *class);

#endif
