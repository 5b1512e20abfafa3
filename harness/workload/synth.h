/* synth.h - synthetic traces: keys, queries and values drawn with given statistics.
 *
 *     KVR_TRY(kvr_synth_measure(&s, trace, NULL, NULL));     or kvr_synth_outliers(&s, ...)
 *     KVR_TRY(kvr_synth_write(&s, &info, frames, passes, "big.kvtrace", NULL, NULL, &bytes));
 *     kvr_synth_free(&s);
 *
 * For the token at position s of frame t, per layer and head, with standard normal processes z,
 * independent except that q's correlates with k's:
 *
 *     x[t,s,c] = mean[c] + dev[c] z[t,s,c],     z[t] = rho z[t-1] + sqrt(1 - rho^2) e[t]
 *     z_q = r z_k + sqrt(1 - r^2) z'            x: k, v or q
 *
 * Pass i uses a z + sqrt(1 - a^2) e instead of z, where a is its correlation with the clean pass.
 * Channels thus keep their means and deviations, including outlier channels; frames correlate with
 * previous frames; queries correlate with their own tokens' keys and, through them, with earlier
 * frames. Correlations between positions and between channels are not modelled. */
#ifndef KVR_WORKLOAD_SYNTH_H
#define KVR_WORKLOAD_SYNTH_H

#include "harness/workload/trace/check.h"

/* Indices into the statistics. */
enum { KVR_SYNTH_K, KVR_SYNTH_V, KVR_SYNTH_Q, KVR_SYNTH_SIDES };

struct kvr_synth {
    int n_layers, n_heads, head_dim; /* L, H (query heads), D of the measured trace */
    int n_passes;
    float *mean, *dev; /* [L][side][H][D]; those of K and V repeated for every query head */
    float *rho;        /* [L][side][H] */
    float *toward;     /* [L][H]: correlation r of queries and keys */
    float agreement[KVR_TRACE_MAX_PASSES]; /* [n_passes]; 1 for the clean pass */
};
void kvr_synth_free(struct kvr_synth *s); /* accepts {0} */

/* Measures the statistics of a trace, one call in memory at a time. Frame correlation is measured
 * within chunks; rho is 0 if chunks have one frame. KVR_EINVAL: no clean pass with queries. */
enum kvr_status kvr_synth_measure(struct kvr_synth *out, const struct kvr_trace *t,
                                  kvr_trace_progress_fn *progress, void *ctx);

/* Statistics of one layer and head with unit deviation, after KIVI (arXiv:2402.02750): `outliers`
 * channels of the keys have offsets of +-size and a deviation of size / 4; values have no outliers.
 * Adjacent frames correlate by rho, queries with their keys by r. All passes of a chunk have the
 * same keys, values and queries. */
enum kvr_status kvr_synth_outliers(struct kvr_synth *out, int head_dim, int outliers, double size,
                                   double rho, double r);

/* info.layout may be larger than the measured one: layers are stretched, heads and channels
 * repeated. passes: per chunk; the last one is clean. Memory holds one frame of every layer, and
 * one call. Deterministic in info.seed. */
enum kvr_status kvr_synth_write(const struct kvr_synth *s, const struct kvr_trace_info *info,
                                int frames, int passes, const char *dir,
                                kvr_trace_progress_fn *progress, void *ctx, int64_t *bytes);

#endif
