/* synth.h - generates synthetic traces, whose keys, queries and values are random with given
 * statistics.
 *
 *     KVR_TRY(kvr_synth_measure(&s, trace, NULL, NULL));     or kvr_synth_outliers(&s, ...)
 *     KVR_TRY(kvr_synth_write(&s, &info, frames, passes, "big.kvtrace", NULL, NULL, &bytes));
 *     kvr_synth_free(&s);
 *
 * Each layer and head has three standard normal processes z: z_k for the keys, z_v for the values
 * and z_q for the queries. The tensors x (keys, values or queries) are computed from them by the
 * formulas below, where t is the frame, s a token's position in the frame, and c the channel. The
 * noise e is independent and standard normal. z' is a process like z_k and independent of it, rho
 * is the correlation of adjacent frames, and r is the correlation of a token's query with its key.
 *
 *     x[t,s,c] = mean[c] + dev[c] z[t,s,c],     z[t] = rho z[t-1] + sqrt(1 - rho^2) e[t]
 *     z_q = r z_k + sqrt(1 - r^2) z'
 *
 * These formulas give the tensors of the cache-update pass. Let alpha be the measured correlation
 * between the keys of a denoising pass and the keys of the chunk's cache-update pass. In this
 * denoising pass, z is replaced by (alpha * z + sqrt(1 - alpha^2) * e'), where e' is new standard
 * normal noise. Channels, including outlier channels, thus have the measured means and standard
 * deviations. In the cache-update pass, the keys and the values at the same position in adjacent
 * frames have the measured correlation rho. A token's query correlates with its key and therefore
 * also with keys of earlier frames. Correlations between positions in a frame and between channels
 * are not modelled. */
#ifndef KVR_WORKLOAD_SYNTH_H
#define KVR_WORKLOAD_SYNTH_H

#include "harness/workload/trace/check.h"

/* Indices of keys, values and queries in the arrays of struct kvr_synth. */
enum { KVR_SYNTH_K, KVR_SYNTH_V, KVR_SYNTH_Q, KVR_SYNTH_SIDES };

struct kvr_synth {
    int n_layers, n_heads, head_dim; /* number of layers L, number of query heads H and head
                                      * dimension D of the trace that was measured */
    int n_passes;
    float *mean, *dev; /* [L][k, v, q][H][D]: mean and standard deviation of each channel; keys and
                        * values have a copy of their KV head's statistics for each query head that
                        * attends to it */
    float *rho;        /* [L][k, v, q][H]: correlation between elements at the same position and
                        * channel in adjacent frames */
    float *toward;     /* [L][H]: correlation r of a token's query with its key, over all tokens and
                        * channels */
    float agreement[KVR_TRACE_MAX_PASSES]; /* [n_passes]: correlation alpha between the keys of each
                                            * pass and those of the chunk's last pass, the
                                            * cache-update pass */
};
void kvr_synth_free(struct kvr_synth *s); /* accepts {0} */

/* Measures the statistics of a trace. Memory use is bounded, because the tensors of only one
 * attention call at a time are in memory. The correlation `rho` is measured between adjacent frames
 * of the same chunk, and is 0 if each chunk has only one frame. Returns KVR_EINVAL if the trace has
 * no cache-update pass with queries. */
enum kvr_status kvr_synth_measure(struct kvr_synth *out, const struct kvr_trace *t,
                                  kvr_trace_progress_fn *progress, void *ctx);

/* Sets *out to prescribed statistics of a model with one layer and one head. The head's keys have
 * outlier channels as described in KIVI (arXiv:2402.02750): in `outliers` channels, the mean is
 * alternately `size` and -`size`, and the standard deviation is max(1, `size` / 4). All other
 * channels have mean 0 and standard deviation 1. The argument `rho` is the correlation between
 * adjacent frames, of keys, values and queries alike; `r` is the correlation of a token's query
 * with its key. All passes of a chunk have the same keys, values and queries. */
enum kvr_status kvr_synth_outliers(struct kvr_synth *out, int head_dim, int outliers, double size,
                                   double rho, double r);

/* Writes a trace with `passes` passes per chunk; the last pass is the cache-update pass. The layout
 * in `info` may have more layers, heads and channels than the measured trace. Layer i of n layers
 * has the statistics of measured layer floor(i * m / n), where m is the number of measured layers.
 * Heads and channels beyond the measured ones reuse the measured statistics cyclically. The
 * function holds one frame of all layers and the tensors of one attention call in memory. The
 * function is deterministic: equal arguments give bit-identical traces. */
enum kvr_status kvr_synth_write(const struct kvr_synth *s, const struct kvr_trace_info *info,
                                int frames, int passes, const char *dir,
                                kvr_trace_progress_fn *progress, void *ctx, int64_t *bytes);

#endif
