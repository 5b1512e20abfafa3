/* faults.h - kernels with one planted fault each, or none, for tests/cuda/test_emu.c. Emulated only. */
#ifndef KVR_TESTS_FAULTS_H
#define KVR_TESTS_FAULTS_H

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FAULT_THREADS = 64, FAULT_BLOCKS = 4 };

/* Each launches FAULT_BLOCKS blocks of FAULT_THREADS on x, one float per thread. */
struct fault {
    const char *name;
    void (*commit)(struct kvr_stream *s, float *x);
    const char *expect; /* part of the message; NULL: no fault */
};
extern const struct fault faults[];
extern const int n_faults;

/* y[block] = sum of its threads' x: a tree in shared memory, then shuffles. */
void fault_sum(struct kvr_stream *s, const float *x, float *y);
/* out[i] += 1 atomically by every thread, i = thread % 3. */
void fault_count(struct kvr_stream *s, int *out);
/* order[k] = the k-th thread to run: an order that kernels must not depend on. */
void fault_order(struct kvr_stream *s, int *next, int *order);
/* Advance the block serial to its last value. */
void fault_age(struct kvr_stream *s);
/* Every warp operation: out [8, FAULT_THREADS]. */
void fault_warp(struct kvr_stream *s, int *out);

#ifdef __cplusplus
}
#endif
#endif
