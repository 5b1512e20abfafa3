/* abba.h - ABBA timing: the ratio of two times from consecutive runs.
 *
 *     KVR_TRY(kvr_abba_open(&t, n_blocks));
 *     KVR_TRY(kvr_abba_run(&t, seed, time_one, ctx));
 *     ... t.ratio, t.pair[0 .. t.n_pairs) ...
 *     kvr_abba_free(&t);
 *
 * A block runs A B B A or B A A B, drawn by the seed; A is the reference, B the method. It has two
 * pairs, (A, B) and (B, A), each of two consecutive runs. Linear drift of the machine raises the
 * ratio of one pair and lowers that of the other by the same factor, so the drift cancels in the
 * block's geometric mean. A ratio of runs that are far apart in time contains the whole drift. */
#ifndef KVR_RUN_ABBA_H
#define KVR_RUN_ABBA_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/status.h"

/* Times one run of the method, or of the reference. */
typedef enum kvr_status kvr_abba_time(void *ctx, bool method, int64_t *ns);

struct kvr_abba {
    int n_pairs;                       /* two per block */
    int64_t *method_ns, *reference_ns; /* [n_pairs]; pair i is (reference_ns[i], method_ns[i]) */
    double *pair;                      /* [n_pairs] method / reference */
    double ratio;                      /* geometric mean of the pairs */
};

enum kvr_status kvr_abba_open(struct kvr_abba *t, int n_blocks);
void kvr_abba_free(struct kvr_abba *t); /* accepts {0} */

/* KVR_EINVAL: a time that is not positive. */
enum kvr_status kvr_abba_run(struct kvr_abba *t, uint64_t seed, kvr_abba_time *time, void *ctx);

#endif
