/* sins.h - kernels that do one thing wrong, or right, for tests/cuda/test_emu.c. Emulated only. */
#ifndef KVR_TESTS_SINS_H
#define KVR_TESTS_SINS_H

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SIN_THREADS = 64, SIN_BLOCKS = 4 };

/* Each launches SIN_BLOCKS blocks of SIN_THREADS on x, floats of as many threads. */
struct sin {
    const char *name;
    void (*commit)(struct kvr_stream *s, float *x);
    const char *expect; /* part of the message; NULL: nothing is wrong */
};
extern const struct sin sins[];
extern const int n_sins;

/* y[block] = sum of its threads' x: by a tree in shared memory, then by shuffles. */
void sin_sum(struct kvr_stream *s, const float *x, float *y);
/* out[i] += 1 atomically by every thread, i = thread % 3. */
void sin_count(struct kvr_stream *s, int *out);
/* order[k] = which thread came k-th: what a kernel must not depend on. */
void sin_order(struct kvr_stream *s, int *next, int *order);
/* As if so many blocks had run that they can hardly be told apart. */
void sin_age(struct kvr_stream *s);
/* Every warp operation: out [8, SIN_THREADS]. */
void sin_warp(struct kvr_stream *s, int *out);

#ifdef __cplusplus
}
#endif
#endif
