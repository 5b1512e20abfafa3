/* correction.h - corrections, which remove the bias that quantized keys add to attention scores.
 *
 * A quantization error delta_j of key j gives the score error e_j = q . delta_j / sqrt(D). Softmax
 * exponentiates scores, and E[exp(e)] > 1 for a random error e with mean 0, so the quantized past
 * takes attention from the BF16 current chunk (Tuncer, Becker, Pfeil, arXiv:2605.26266). A
 * correction therefore subtracts c(q, j), an approximation of log E[exp(e_j)]:
 *
 *     score(q, k_j) = q . k^_j / sqrt(D) - c(q, j)
 *
 * In the following formulas of c(q, j), q is the query divided by sqrt(D), and s_jc is the
 * quantization scale of channel c of key j:
 *
 *     taylor   c = 1/24 sum_c q_c^2 s_jc^2                    second order in the scale
 *     exact    c = sum_c log(sinh(a_c) / a_c), a_c = q_c s_jc / 2
 *     flat     the mean of taylor over the segment's keys: one number per query and segment
 *     energy   c = q . (mean k^ - mean k) + 1/2 sum_c q_c^2 (var_c k^ - var_c k)
 *
 * The means and variances in the formula of `energy` are taken over the tokens of one segment, for
 * each head and channel. The corrections `taylor`, `exact` and `flat` assume that errors are nearly
 * uniform and independent of the keys. They accept only lossless codecs and codecs whose error
 * model (struct kvr_coding_noise) gives the scale of every element. The correction `energy`
 * measures the quantization error and therefore accepts any codec with a known or measurable error.
 * If the codec has a transform, all quantities, including the query, are in the transformed space.
 * Elements that are stored exactly (outliers) count as having scale 0. */
#ifndef KVR_METHODS_CORRECTIONS_CORRECTION_H
#define KVR_METHODS_CORRECTIONS_CORRECTION_H

#include "methods/codec.h"
#include "methods/corrections/corrections_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keys [t0, t0 + n) of head h of a segment, and the scores of m queries for these keys. */
struct kvr_correction_job {
    const struct kvr_packed *k;
    const kvr_f16 *moments; /* statistics of the segment's quantization error, computed by
                             * kvr_correction.prepare, [number of moments][H][D] */
    int64_t t0;             /* index of the first of the n keys within the segment */
    int n, h;
    const float *q, *q2; /* q: queries divided by sqrt(D), [m][D], in the transformed space of the
                          * codec; q2: squares of their elements, [m][D] */
    int m, d;
    float *s; /* scores, from which the function `apply` subtracts the correction c(q, j); the score
               * of query i and key j is s[i * stride + j] */
    int64_t stride;
};

enum { KVR_CORRECTION_MAX_KEYS = 64, KVR_CORRECTION_MAX_D = 256 };

struct kvr_correction {
    const char *name, *title;
    bool measures; /* whether the correction measures the error of the encoded keys; such a
                    * correction does not need the codec's scales */
    int moments;   /* number of FP16 values per channel that the correction stores with every
                    * segment */
    /* Computes moments [number of moments][H][D] of a quantized segment from x [T,H,D], the
     * original keys in the transformed space of the codec. `prepare` is NULL if the correction
     * stores no moments (`moments` is 0). */
    void (*prepare)(const struct kvr_packed *k, const float *x, kvr_f16 *moments);
    void (*apply)(const struct kvr_correction_job *job);

    /* Functions for CUDA (corrections_cuda.h). If by_scales is not KVR_BY_SCALES_NO, attention
     * kernels compute the correction from squared scales, and rows_cuda is NULL. */
    enum kvr_by_scales by_scales;
    kvr_correction_prepare_cuda_fn *prepare_cuda;
    kvr_correction_rows_cuda_fn *rows_cuda;
};

extern const struct kvr_correction *const kvr_corrections[]; /* NULL-terminated */
extern const char *const kvr_correction_names[];             /* "none", "taylor", ... */
/* Returns the correction with the name kvr_correction_names[index], or NULL for index 0
 * ("none"). */
const struct kvr_correction *kvr_correction_at(int index);

/* Checks that the correction supports this codec of keys. Fails with KVR_EUNSUPPORTED if not; the
 * message gives the reason. A lossless codec is accepted, and its correction is 0. */
enum kvr_status kvr_correction_check(const struct kvr_correction *c, const struct kvr_codec *codec);

/* Writes the squared scales of keys [t0, t0+n) of head h to out [n][D]; the scale of an element
 * that is stored exactly is 0. */
void kvr_squared_scales(const struct kvr_packed *k, int h, int64_t t0, int n, float *out);

#ifdef __cplusplus
}
#endif
#endif
