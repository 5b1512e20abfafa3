/* abba.h - ABBA timing: the ratio of two times from consecutive runs.
 *
 *     KVR_TRY(kvr_abba_open(&t, n_blocks));
 *     KVR_TRY(kvr_abba_run(&t, seed, time_one, ctx));
 *     ... t.ratio, t.pair[0 .. t.n_pairs) ...
 *     kvr_abba_free(&t);
 *
 * A block is four runs in the order A B B A or B A A B, where A is the reference and B the method.
 * The order is random, determined by the seed. A block has two pairs of consecutive runs, (A, B)
 * and (B, A). Linear drift of the machine's speed raises the ratio B / A of one pair and lowers the
 * ratio of the other pair by the same factor. The drift therefore cancels in the geometric mean of
 * the block. In the ratio of two runs that are far apart in time, the drift does not cancel. */
#ifndef KVR_RUN_ABBA_H
#define KVR_RUN_ABBA_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/status.h"

/* Callback that runs the method, or the reference if `method` is false, and sets *ns to the time in
 * nanoseconds. */
typedef enum kvr_status kvr_abba_time(void *ctx, bool method, int64_t *ns);

struct kvr_abba {
    int n_pairs;                       /* two per block */
    int64_t *method_ns, *reference_ns; /* times [n_pairs] in nanoseconds; pair i is
                                        * (reference_ns[i], method_ns[i]) */
    double *pair;                      /* ratios [n_pairs] of times, method / reference */
    double ratio;                      /* geometric mean of the ratios in `pair` */
};

enum kvr_status kvr_abba_open(struct kvr_abba *t, int n_blocks);
void kvr_abba_free(struct kvr_abba *t); /* accepts {0} */

/* Runs all blocks and computes the ratios. Returns KVR_EINVAL if a measured time is not
 * positive. */
enum kvr_status kvr_abba_run(struct kvr_abba *t, uint64_t seed, kvr_abba_time *time, void *ctx);

#endif
