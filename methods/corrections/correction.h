/* correction.h - corrections, which remove the bias that quantized keys add to attention scores.
 *
 * A quantization error delta_j of key j gives the score error e_j = q . delta_j / sqrt(D). Softmax
 * exponentiates scores, and E[exp(e)] > 1, so the quantized past takes attention from the BF16
 * current chunk (Tuncer, Becker, Pfeil, arXiv:2605.26266). A correction therefore subtracts c(q,
 * j), an approximation of log E[exp(e_j)]:
 *
 *     score(q, k_j) = q . k^_j / sqrt(D) - c(q, j)
 *
 * In the formulas of c, q is the query divided by sqrt(D), and s_jc is the scale of channel c of
 * key j:
 *
 *     taylor   c = 1/24 sum_c q_c^2 s_jc^2                    second order in the scale
 *     exact    c = sum_c log(sinh(a_c) / a_c), a_c = q_c s_jc / 2
 *     flat     the mean of taylor over the segment's keys: one number per query and segment
 *     energy   c = q . (mean k^ - mean k) + 1/2 sum_c q_c^2 (var_c k^ - var_c k)
 *
 * The means and variances are over the tokens of one segment and head. The corrections taylor,
 * exact and flat assume an error that is nearly uniform and independent of the key; the codec has
 * to declare such an error (struct kvr_coding_noise). The correction energy works for any codec
 * whose error can be measured. For rotated codecs, all quantities, including the query, are in
 * rotated space. Elements that are stored exactly have scale 0. */
#ifndef KVR_METHODS_CORRECTIONS_CORRECTION_H
#define KVR_METHODS_CORRECTIONS_CORRECTION_H

#include "methods/codec.h"
#include "methods/corrections/corrections_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keys of one head of a segment, and the scores of m queries for them. */
struct kvr_correction_job {
    const struct kvr_packed *k;
    const kvr_f16 *moments; /* moments of the segment, [number of moments][H][D], as written by
                             * `prepare` */
    int64_t t0;             /* index of the first of the keys [t0, t0 + n) in the segment */
    int n, h;
    const float *q, *q2; /* queries / sqrt(D) in the codec's space, and their squares, [m][D]
                          * each */
    int m, d;
    float *s; /* scores; the score of query i and key j is s[i * stride + j], and c is subtracted in
               * place */
    int64_t stride;
};

enum { KVR_CORRECTION_MAX_KEYS = 64, KVR_CORRECTION_MAX_D = 256 };

struct kvr_correction {
    const char *name, *title;
    bool measures; /* true if the correction uses measured moments; false if the codec must have a
                    * scale */
    int moments;   /* number of FP16 values per channel that a segment stores */
    /* Computes moments [number of moments][H][D] of a quantized segment from x [T,H,D], the
     * original keys in the codec's space. `prepare` is NULL if the correction stores no moments
     * (`moments` is 0). */
    void (*prepare)(const struct kvr_packed *k, const float *x, kvr_f16 *moments);
    void (*apply)(const struct kvr_correction_job *job);

    /* Functions for CUDA (corrections_cuda.h). If attention computes the correction from squared
     * scales, as by_scales states, rows_cuda is NULL. */
    enum kvr_by_scales by_scales;
    kvr_correction_prepare_cuda_fn *prepare_cuda;
    kvr_correction_rows_cuda_fn *rows_cuda;
};

extern const struct kvr_correction *const kvr_corrections[]; /* NULL-terminated */
extern const char *const kvr_correction_names[];             /* "none", "taylor", ... */
/* The correction at an index into kvr_correction_names; NULL for 0 (none). */
const struct kvr_correction *kvr_correction_at(int index);

/* Checks that keys of this codec can be corrected; the message of KVR_EUNSUPPORTED gives the reason
 * if not. A lossless codec is accepted, and its correction is 0. */
enum kvr_status kvr_correction_check(const struct kvr_correction *c, const struct kvr_codec *codec);

/* Writes the squared scales of keys [t0, t0+n) of head h to out [n][D]; the scale of an element
 * that is stored exactly is 0. */
void kvr_squared_scales(const struct kvr_packed *k, int h, int64_t t0, int n, float *out);

#ifdef __cplusplus
}
#endif
#endif
