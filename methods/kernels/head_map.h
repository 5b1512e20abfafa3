/* head_map.h - a file that says of which class each head is, as `kvreel profile heads` writes it.
 *
 *     # what follows this is no part of it
 *     sddsd d   # layer 0
 *     ssddd s   # layer 1
 *
 * A line for each layer, a letter for each head; blanks between letters mean nothing, nor do lines
 * without a letter. */
#ifndef KVR_METHODS_KERNELS_HEAD_MAP_H
#define KVR_METHODS_KERNELS_HEAD_MAP_H

#include "methods/policy.h"

/* What stands in the place of a file: classes by what is seen while the method runs; the classes
 * that a paper gives. */
#define KVR_HEAD_MAP_ONLINE "online"
#define KVR_HEAD_MAP_PUBLISHED "labels"

/* class [H]: the line of ctx->layer. `letters`: those that may stand there. KVR_ENOTFOUND: no such
 * file; KVR_EFORMAT with the line: other letters, as many as the model has not heads or layers. */
enum kvr_status kvr_head_map_read(const char *path, const char *letters,
                                  const struct kvr_policy_ctx *ctx, char *class);

#endif
