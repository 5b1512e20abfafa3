/* sins.h - kernels with one planted fault each, or none, for tests/cuda/test_emu.c. Emulated only. */
#ifndef KVR_TESTS_SINS_H
#define KVR_TESTS_SINS_H

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SIN_THREADS = 64, SIN_BLOCKS = 4 };

/* Each launches SIN_BLOCKS blocks of SIN_THREADS on x, one float per thread. */
struct sin {
    const char *name;
    void (*commit)(struct kvr_stream *s, float *x);
    const char *expect; /* part of the message; NULL: no fault */
};
extern const struct sin sins[];
extern const int n_sins;

/* y[block] = sum of its threads' x: a tree in shared memory, then shuffles. */
void sin_sum(struct kvr_stream *s, const float *x, float *y);
/* out[i] += 1 atomically by every thread, i = thread % 3. */
void sin_count(struct kvr_stream *s, int *out);
/* order[k] = the k-th thread to run: an order that kernels must not depend on. */
void sin_order(struct kvr_stream *s, int *next, int *order);
/* Advance the block serial to its last value. */
void sin_age(struct kvr_stream *s);
/* Every warp operation: out [8, SIN_THREADS]. */
void sin_warp(struct kvr_stream *s, int *out);

#ifdef __cplusplus
}
#endif
#endif
