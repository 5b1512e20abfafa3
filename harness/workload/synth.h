/* synth.h - a trace without a model: keys, queries and values drawn to given statistics.
 *
 *     KVR_TRY(kvr_synth_measure(&s, trace, NULL, NULL));     or kvr_synth_outliers(&s, ...)
 *     KVR_TRY(kvr_synth_write(&s, &info, frames, passes, "big.kvtrace", NULL, NULL, &bytes));
 *     kvr_synth_free(&s);
 *
 * Of a token at place s of frame t, by layer and head, with unit normal processes z that are
 * independent of each other but for q's share of k's:
 *
 *     x[t,s,c] = mean[c] + dev[c] z[t,s,c],     z[t] = rho z[t-1] + sqrt(1 - rho^2) e[t]
 *     z_q = r z_k + sqrt(1 - r^2) z'            x one of k, v, q
 *
 * Pass i of n sees a z + sqrt(1 - a^2) e for z, a the agreement of pass i with the clean one. So
 * channels keep their offsets and spreads, outlier channels among them, frames resemble the frames
 * before, and queries are drawn to their own tokens' keys and through them to earlier frames.
 * Structure between places and between channels is not in it. */
#ifndef KVR_WORKLOAD_SYNTH_H
#define KVR_WORKLOAD_SYNTH_H

#include "harness/workload/trace/check.h"

/* Places in the statistics. */
enum { KVR_SYNTH_K, KVR_SYNTH_V, KVR_SYNTH_Q, KVR_SYNTH_SIDES };

struct kvr_synth {
    int n_layers, n_heads, head_dim; /* L, H (of queries), D that were measured */
    int n_passes;
    float *mean,
        *dev;      /* [L][side][H][D]; keys' and values' under each query head that reads them */
    float *rho;    /* [L][side][H] */
    float *toward; /* [L][H]: r */
    float agreement[KVR_TRACE_MAX_PASSES]; /* [n_passes], the clean one's 1 */
};
void kvr_synth_free(struct kvr_synth *s); /* accepts {0} */

/* Statistics of a trace's chunks, one call in memory at a time; frames are correlated within
 * chunks, rho 0 where those have one. KVR_EINVAL: no clean pass with queries. */
enum kvr_status kvr_synth_measure(struct kvr_synth *out, const struct kvr_trace *t,
                                  kvr_trace_progress_fn *progress, void *ctx);

/* One layer and head of unit spread, after KIVI (arXiv:2402.02750): `outliers` channels of the keys have
 * offsets of +-size and a spread of size / 4; values have none. Neighbouring frames correlate by rho,
 * queries with their keys by r. All passes of a chunk are equal. */
enum kvr_status kvr_synth_outliers(struct kvr_synth *out, int head_dim, int outliers, double size,
                                   double rho, double r);

/* info.layout may be larger than what was measured: layers are stretched, heads and channels
 * repeated. `passes` of a chunk; the last is clean. One frame of every layer is in memory, and one
 * call. Deterministic in info.seed. */
enum kvr_status kvr_synth_write(const struct kvr_synth *s, const struct kvr_trace_info *info,
                                int frames, int passes, const char *dir,
                                kvr_trace_progress_fn *progress, void *ctx, int64_t *bytes);

#endif
