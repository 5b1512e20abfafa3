/* correction.h - what coded keys add to their scores on average, taken off again.
 *
 * Keys read back with an error delta give score errors e_j = q . delta_j / sqrt(D); softmax
 * exponentiates them and E[exp(e)] > 1, so the coded past steals attention from the uncoded
 * current chunk (Tuncer, Becker, Pfeil, arXiv:2605.26266). With c(q, j) = log E[exp(e_j)],
 *
 *     score(q, k_j) = q . k^_j / sqrt(D) - c(q, j)
 *
 * Below q is the query divided by sqrt(D), s_jc the scale of channel c of key j:
 *
 *     taylor   c = 1/24 sum_c q_c^2 s_jc^2                    second order in the scale
 *     exact    c = sum_c log(sinh(a_c) / a_c), a_c = q_c s_jc / 2
 *     flat     the mean of taylor over the segment's keys: one number per query and segment
 *     energy   c = q . (mean k^ - mean k) + 1/2 sum_c q_c^2 (var_c k^ - var_c k)
 *
 * with mean and variance over the tokens of one segment and head. taylor, exact and flat hold
 * when the error is about uniform and independent of the key, whose codec has to say so (struct
 * kvr_noise); energy for any codec that says that it may be measured. Rotated
 * codecs: everything is in rotated space, the query too. Elements held exactly have scale 0. */
#ifndef KVR_METHODS_CORRECTIONS_CORRECTION_H
#define KVR_METHODS_CORRECTIONS_CORRECTION_H

#include "methods/codec.h"
#include "methods/corrections/corrections_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Some keys of one head of a segment, and the scores of some queries against them. */
struct kvr_correction_job {
    const struct kvr_packed *k;
    const kvr_f16 *moments; /* [kind's moments][H][D], made by prepare */
    int64_t t0;             /* keys [t0, t0 + n) of the segment */
    int n, h;
    const float *q, *q2; /* [m][D]: queries / sqrt(D) in the codec's space, and their squares */
    int m, d;
    float *s; /* scores; query i, key j at s[i * stride + j]; c is subtracted */
    int64_t stride;
};

enum { KVR_CORRECTION_MAX_KEYS = 64, KVR_CORRECTION_MAX_D = 256 };

struct kvr_correction {
    const char *name, *title;
    bool measures; /* it measures the error; else the codec has to name its scale */
    int moments;   /* FP16 numbers per channel that a segment keeps for it */
    /* moments [moments][H][D] of a coded segment; x [T,H,D] are the keys as they were, already
     * in the codec's space. NULL when moments is 0. */
    void (*prepare)(const struct kvr_packed *k, const float *x, kvr_f16 *moments);
    void (*apply)(const struct kvr_correction_job *job);

    /* The same on a CUDA stream (corrections_cuda.h). rows_cuda is NULL where by_scales says what
     * attention makes of a key's squared scales. */
    enum kvr_by_scales by_scales;
    kvr_correction_prepare_cuda_fn *prepare_cuda;
    kvr_correction_rows_cuda_fn *rows_cuda;
};

extern const struct kvr_correction *const kvr_corrections[]; /* NULL-terminated */
extern const char *const kvr_correction_names[];             /* "none", "taylor", ... */
/* Index into kvr_correction_names; NULL for 0 (none). */
const struct kvr_correction *kvr_correction_at(int index);

/* May keys of this codec be corrected so? KVR_EUNSUPPORTED with the reason. A codec without error
 * may be: there is nothing to correct. */
enum kvr_status kvr_correction_check(const struct kvr_correction *c, const struct kvr_codec *codec);

/* squared scales of keys [t0, t0+n) of head h by channel: out [n][D], 0 where there is no error. */
void kvr_squared_scales(const struct kvr_packed *k, int h, int64_t t0, int n, float *out);

#ifdef __cplusplus
}
#endif
#endif
