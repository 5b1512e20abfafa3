/* faults.h - kernels with one deliberate error (fault) or none, which test whether the CUDA
 * emulator reports the error (tests/cuda/test_emu.c). They run only on the emulator. */
#ifndef KVR_TESTS_FAULTS_H
#define KVR_TESTS_FAULTS_H

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FAULT_THREADS = 64, FAULT_BLOCKS = 4 };

/* A kernel and the error that the emulator must report for it, if any. `commit` launches it with
 * FAULT_BLOCKS blocks of FAULT_THREADS threads. `x` is a device array with one float per thread, as
 * the kernel's input and output. */
struct fault {
    const char *name;
    void (*commit)(struct kvr_stream *s, float *x);
    const char *expect; /* part of the expected error message, or NULL if the kernel has no fault */
};
extern const struct fault faults[];
extern const int n_faults;

/* Sets y[block] to the sum of x over the block's threads, by a tree in shared memory and then by
 * shuffles. */
void fault_sum(struct kvr_stream *s, const float *x, float *y);
/* Every thread adds 1 to out[thread % 3] atomically. */
void fault_count(struct kvr_stream *s, int *out);
/* Sets order[k] to the index of the k-th thread that the emulator runs, counted in *next, which
 * must be 0. The emulator's seed determines this order, and correct kernels do not depend on it. */
void fault_order(struct kvr_stream *s, int *next, int *order);
/* Sets the emulator's count of executed thread blocks just below its maximum. The next launch must
 * then reset the count. */
void fault_age(struct kvr_stream *s);
/* Stores the results of every warp operation (shuffles, votes, ...) to out [8, FAULT_THREADS]. */
void fault_warp(struct kvr_stream *s, int *out);

#ifdef __cplusplus
}
#endif
#endif
