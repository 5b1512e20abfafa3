/* synth.h - generates synthetic traces, whose keys, queries and values are random with given
 * statistics.
 *
 *     KVR_TRY(kvr_synth_measure(&s, trace, NULL, NULL));     or kvr_synth_outliers(&s, ...)
 *     KVR_TRY(kvr_synth_write(&s, &info, frames, passes, "big.kvtrace", NULL, NULL, &bytes));
 *     kvr_synth_free(&s);
 *
 * In each layer and head, keys, values and queries x are generated from standard normal processes
 * z, by the formulas below. There t is the frame, s a token's position in the frame, c the channel,
 * and e, e' and z' are independent standard normal noise. The processes are independent, except
 * that z_q of the queries correlates with z_k of the keys.
 *
 *     x[t,s,c] = mean[c] + dev[c] z[t,s,c],     z[t] = rho z[t-1] + sqrt(1 - rho^2) e[t]
 *     z_q = r z_k + sqrt(1 - r^2) z'            x: k, v or q
 *
 * The cache-update pass uses z itself. Let alpha be the measured correlation of denoising pass i
 * with the chunk's cache-update pass. Denoising pass i replaces z by alpha z + sqrt(1 - alpha^2)
 * e'. Channels, including outlier channels, thus have the measured means and standard deviations.
 * Adjacent frames have correlation rho. A token's query correlates with its key and therefore also
 * with keys of earlier frames. Correlations between positions in a frame and between channels are
 * not modelled. */
#ifndef KVR_WORKLOAD_SYNTH_H
#define KVR_WORKLOAD_SYNTH_H

#include "harness/workload/trace/check.h"

/* Indices of the tensors k, v and q in the statistics. */
enum { KVR_SYNTH_K, KVR_SYNTH_V, KVR_SYNTH_Q, KVR_SYNTH_SIDES };

struct kvr_synth {
    int n_layers, n_heads, head_dim; /* number of layers L, number of query heads H and head
                                      * dimension D of the trace that was measured */
    int n_passes;
    float *mean, *dev; /* [L][k, v, q][H][D]: mean and standard deviation per channel; a KV head's
                        * statistics are repeated for each query head that attends to it */
    float *rho;        /* [L][k, v, q][H]: correlation of adjacent frames */
    float *toward;     /* [L][H]: correlation r of a token's query and key */
    float agreement[KVR_TRACE_MAX_PASSES]; /* [n_passes]: correlation alpha of each pass with
                                            * the chunk's cache-update pass, the last pass */
};
void kvr_synth_free(struct kvr_synth *s); /* accepts {0} */

/* Measures the statistics of a trace. Memory use is bounded, because the tensors of only one
 * attention call at a time are in memory. The frame correlation rho is measured between adjacent
 * frames of one chunk, and is 0 if chunks have one frame. Returns KVR_EINVAL if the trace has no
 * cache-update pass with queries. */
enum kvr_status kvr_synth_measure(struct kvr_synth *out, const struct kvr_trace *t,
                                  kvr_trace_progress_fn *progress, void *ctx);

/* Sets statistics for a model with one layer and one head. The head's keys have outlier channels as
 * described in KIVI (arXiv:2402.02750): `outliers` channels have means of alternately size and
 * -size, and a standard deviation of max(1, size / 4). All other channels have mean 0 and standard
 * deviation 1. In keys, values and queries, adjacent frames have correlation rho. The correlation
 * of a token's query and key is r. All passes of a chunk have the same keys, values and queries. */
enum kvr_status kvr_synth_outliers(struct kvr_synth *out, int head_dim, int outliers, double size,
                                   double rho, double r);

/* Writes a trace with `passes` passes per chunk; the last pass is the cache-update pass. The layout
 * in `info` may have more layers, heads and channels than the measured trace. Layer i of n then has
 * the statistics of the measured layer at relative depth i / n, and the statistics of heads and
 * channels are repeated. The function holds one frame of all layers and the tensors of one
 * attention call in memory. The function is deterministic: equal arguments give bit-identical
 * traces. */
enum kvr_status kvr_synth_write(const struct kvr_synth *s, const struct kvr_trace_info *info,
                                int frames, int passes, const char *dir,
                                kvr_trace_progress_fn *progress, void *ctx, int64_t *bytes);

#endif
