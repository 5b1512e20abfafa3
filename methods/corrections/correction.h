/* correction.h - removes the bias that quantized keys add to attention scores.
 *
 * Keys decoded with an error delta give score errors e_j = q . delta_j / sqrt(D). Softmax
 * exponentiates them and E[exp(e)] > 1, so the quantized past takes attention from the BF16 current
 * chunk (Tuncer, Becker, Pfeil, arXiv:2605.26266). With c(q, j) = log E[exp(e_j)],
 *
 *     score(q, k_j) = q . k^_j / sqrt(D) - c(q, j)
 *
 * Below, q is the query divided by sqrt(D), s_jc the scale of channel c of key j:
 *
 *     taylor   c = 1/24 sum_c q_c^2 s_jc^2                    second order in the scale
 *     exact    c = sum_c log(sinh(a_c) / a_c), a_c = q_c s_jc / 2
 *     flat     the mean of taylor over the segment's keys: one number per query and segment
 *     energy   c = q . (mean k^ - mean k) + 1/2 sum_c q_c^2 (var_c k^ - var_c k)
 *
 * with mean and variance over the tokens of one segment and head. taylor, exact and flat assume an
 * error that is nearly uniform and independent of the key, which the codec has to declare (struct
 * kvr_coding_noise); energy works for any codec that allows measuring. For rotated codecs
 * everything, including the query, is in rotated space. Exactly stored elements have scale 0. */
#ifndef KVR_METHODS_CORRECTIONS_CORRECTION_H
#define KVR_METHODS_CORRECTIONS_CORRECTION_H

#include "methods/codec.h"
#include "methods/corrections/corrections_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keys of one head of a segment, and the scores of several queries against them. */
struct kvr_correction_job {
    const struct kvr_packed *k;
    const kvr_f16 *moments; /* [number of moments][H][D], from prepare */
    int64_t t0;             /* keys [t0, t0 + n) of the segment */
    int n, h;
    const float *q, *q2; /* [m][D]: queries / sqrt(D) in the codec's space, and their squares */
    int m, d;
    float *s; /* scores; query i, key j at s[i * stride + j]; c is subtracted in place */
    int64_t stride;
};

enum { KVR_CORRECTION_MAX_KEYS = 64, KVR_CORRECTION_MAX_D = 256 };

struct kvr_correction {
    const char *name, *title;
    bool measures; /* true: uses measured moments; false: the codec must have a scale */
    int moments;   /* FP16 numbers per channel stored with a segment */
    /* moments [number of moments][H][D] of a coded segment; x [T,H,D]: the original keys in the
     * codec's space. NULL if moments is 0. */
    void (*prepare)(const struct kvr_packed *k, const float *x, kvr_f16 *moments);
    void (*apply)(const struct kvr_correction_job *job);

    /* CUDA versions (corrections_cuda.h). rows_cuda is NULL if attention computes the correction
     * from squared scales according to by_scales. */
    enum kvr_by_scales by_scales;
    kvr_correction_prepare_cuda_fn *prepare_cuda;
    kvr_correction_rows_cuda_fn *rows_cuda;
};

extern const struct kvr_correction *const kvr_corrections[]; /* NULL-terminated */
extern const char *const kvr_correction_names[];             /* "none", "taylor", ... */
/* Correction at an index into kvr_correction_names; NULL for 0 (none). */
const struct kvr_correction *kvr_correction_at(int index);

/* Whether keys of this codec can be corrected; KVR_EUNSUPPORTED with the reason if not. Lossless
 * codecs are accepted: the correction is 0. */
enum kvr_status kvr_correction_check(const struct kvr_correction *c, const struct kvr_codec *codec);

/* Squared scales of keys [t0, t0+n) of head h by channel: out [n][D]; 0 for exactly stored
 * elements. */
void kvr_squared_scales(const struct kvr_packed *k, int h, int64_t t0, int n, float *out);

#ifdef __cplusplus
}
#endif
#endif
