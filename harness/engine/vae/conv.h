/* conv.h - convolutions over frames [height, width, channels]: on the CPU by oneDNN, narrow layers in F32 by F64 sums, a strip of
 * rows at a time, on a GPU by cuDNN or an own kernel.
 *
 *     struct kvr_conv_shape s = { .in = 96, .out = 96, .taps = 3, .kernel = 3, ... };
 *     KVR_TRY(kvr_conv_room_open(&room, dev, KVR_F32));
 *     KVR_TRY(kvr_conv_open(&c, room, &s, weight, bias));
 *     KVR_TRY(kvr_conv_run(c, frames, y));
 *     kvr_conv_close(&c);
 *     kvr_conv_room_close(&room);                           after its convolutions
 *
 * `taps` frames that follow each other in time are read at once: a causal convolution gets the two
 * before the newest, NULL where there were none. Zero padding in space keeps the
 * input's size. With `up` 2 the input is first upsampled by 2 in both directions (nearest
 * neighbour).
 *
 * Frames and y are of the room's type. In BF16 weights and bias are rounded, too; sums are F32, and
 * each result is rounded once.
 *
 * Frames and y are memory of the room's device; on CUDA the work is queued. On the CPU strips have
 * so many rows whatever the number of threads, and each is computed by one with a single-threaded
 * primitive: the bytes of y do not depend on the number of threads. */
#ifndef KVR_VAE_CONV_H
#define KVR_VAE_CONV_H

#include "harness/core/dtype.h"
#include "harness/device/mem.h"

struct kvr_conv_shape {
    int in, out, taps, kernel; /* channels of one frame; 1, 2 or 3; 1 or 3 */
    int height, width;         /* of the output */
    int up;                    /* 1 or 2 */
};

/* A frame to read: pixel (i, j) of it is at p + (i width + j) stride. */
struct kvr_conv_frame {
    const void *p; /* NULL: all zeros */
    int stride;    /* elements from pixel to pixel, >= in */
};

/* The frames as a kernel takes them: f [3], zeroed, receives the taps. Returns the first frame that is not
 * NULL; taps if all are. */
static inline int kvr_conv_frames_copy(const struct kvr_conv_shape *s,
                                       const struct kvr_conv_frame *frames,
                                       struct kvr_conv_frame *f)
{
    int first = 0;

    for (int t = 0; t < s->taps; t++)
        f[t] = frames[t];
    while (first < s->taps && !f[first].p)
        first++;
    return first;
}

struct kvr_conv_room; /* what convolutions share: a library's engine, the strips of each thread */
struct kvr_conv;

/* type: KVR_F32 or KVR_BF16 */
enum kvr_status kvr_conv_room_open(struct kvr_conv_room **out, struct kvr_dev *dev,
                                   enum kvr_dtype type);
void kvr_conv_room_close(struct kvr_conv_room **r);
/* What computes the convolutions opened so far: "oneDNN 2.6", "cuDNN 9.10, BF16", "kvreel (...why not
 * cuDNN)". The room's own, until the next call. */
const char *kvr_conv_room_library(struct kvr_conv_room *r);

/* weight [out, in, taps, kernel, kernel], bias [out], the host's: both may go afterwards. */
enum kvr_status kvr_conv_open(struct kvr_conv **out, struct kvr_conv_room *room,
                              const struct kvr_conv_shape *s, const float *weight,
                              const float *bias);
void kvr_conv_close(struct kvr_conv **c);

/* frames [taps], the newest last; y [height, width, out]. */
enum kvr_status kvr_conv_run(struct kvr_conv *c, const struct kvr_conv_frame *frames, void *y);

#endif
