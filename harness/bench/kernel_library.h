/* kernel_library.h - calls the oneDNN function that is equivalent to a CPU kernel, for benchmarks.
 *
 *     struct kvr_kernel_library *l;
 *     KVR_TRY(kvr_kernel_library_open(&l, c, &kit));       l NULL: no equivalent
 *     KVR_TRY(kvr_kernel_library_run(l));
 *     kvr_kernel_library_close(&l);
 *
 * The functions use the arguments in `kit` (struct kvr_case_kit) without copying them. The oneDNN
 * function therefore overwrites the output that the kernel wrote. */
#ifndef KVR_BENCH_KERNEL_LIBRARY_H
#define KVR_BENCH_KERNEL_LIBRARY_H

#include "harness/bench/kernel_case.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_kernel_library;

enum kvr_status kvr_kernel_library_open(struct kvr_kernel_library **out,
                                        const struct kvr_kernel_case *c,
                                        const struct kvr_case_kit *k);
enum kvr_status kvr_kernel_library_run(const struct kvr_kernel_library *l);
const char *kvr_kernel_library_name(const struct kvr_kernel_library *l); /* "oneDNN gelu" */
void kvr_kernel_library_close(struct kvr_kernel_library **l);

#ifdef __cplusplus
}
#endif
#endif
