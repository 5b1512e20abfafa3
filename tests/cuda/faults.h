/* faults.h - kernels with one planted fault or none, for tests/cuda/test_emu.c. Emulated only. */
#ifndef KVR_TESTS_FAULTS_H
#define KVR_TESTS_FAULTS_H

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FAULT_THREADS = 64, FAULT_BLOCKS = 4 };

/* `commit` launches FAULT_BLOCKS blocks of FAULT_THREADS threads on x, which has one float per
 * thread. */
struct fault {
    const char *name;
    void (*commit)(struct kvr_stream *s, float *x);
    const char *expect; /* part of the expected error message, or NULL if the kernel has no fault */
};
extern const struct fault faults[];
extern const int n_faults;

/* y[block] = sum of x over the block's threads, by a tree in shared memory and then by shuffles. */
void fault_sum(struct kvr_stream *s, const float *x, float *y);
/* Every thread adds 1 to out[thread % 3] atomically. */
void fault_count(struct kvr_stream *s, int *out);
/* order[k] = the k-th thread to run. Kernels must not depend on this order. */
void fault_order(struct kvr_stream *s, int *next, int *order);
/* Sets the emulator's count of executed thread blocks just below its maximum, so that the next
 * launch resets the count. */
void fault_age(struct kvr_stream *s);
/* Stores the results of every warp operation (shuffles, votes, ...) to out [8, FAULT_THREADS]. */
void fault_warp(struct kvr_stream *s, int *out);

#ifdef __cplusplus
}
#endif
#endif
