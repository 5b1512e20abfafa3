/* mma_reference.h - helpers for tests of attention on tensor cores: the keys and values of a test
 * case, reference attention in double precision, and error bounds.
 *
 * The error bounds below use these symbols. u = 2^-24 is the unit roundoff of F32. h = 2^-9 stands
 * for a BF16 rounding error: half the unit roundoff 2^-8, because rounding errors partly cancel in
 * a sum. Each of the following maxima is over all queries and keys of a case. S is the maximum of
 * sum_d |q_d k_d| / sqrt(D), where d counts the D channels of a head. C is the maximum correction,
 * a term that is subtracted from a score. A key that represents m tokens has log m added to its
 * score. The row bias of a query is subtracted from the query's scores. B is the maximum of |log m
 * - row bias|. The symbol `top` is the maximum of |v| over the elements of the values v.
 *
 *     score     The dot product and the correction each add D products in F32. Tensor cores may
 *               truncate, so each addition has an error of at most 4 u S or 4 u C. Scale, bias
 *               and maximum add 8 u (S + C + B). The Taylor correction rounds two factors: 2 h C.
 *     weight    e, the errors of its score and of the maximum; 2^x adds 8 u
 *     P V       A weight is rounded to BF16 in the numerator only: h
 *     log sum   the log of the sum of all weights: e + 8 u + n u. A factor common to all weights
 *               cancels in the softmax, but not here.
 *     output    a quotient of two sums of n weights: at most
 *               top ((1 + h) exp(2 e + 16 u + 2 n u) - 1)
 *
 * These are bounds on the difference from attention in double precision, with q, k and v rounded to
 * BF16 and with k and v as the CPU decodes them. The CPU's attention does not round q, k and v. In
 * a comparison with the CPU, the bound of a score is therefore larger by 2 h S, and that of a
 * correction by 2 h C. In the bound of the output, the factor (1 + h) becomes (1 + h)^2, because
 * the CPU does not round v. */
#ifndef KVR_TESTS_MMA_REFERENCE_H
#define KVR_TESTS_MMA_REFERENCE_H

#include "harness/cache/attend.h"
#include "harness/cache/attend_mma.h"
#include "harness/cache/attend_wgmma.h"
#include "tests/cuda/both.h"

static const double mma_u = 0x1p-24, mma_half = 0x1p-9;

#define RAW NULL

struct mma_case {
    const char *k, *v; /* codecs of the keys and of the values; RAW: no codec, the elements have the
                        * data type `raw` */
    enum kvr_dtype raw;
    struct kvr_attend_shape a;
    int64_t n_tok, t0, n;
    float log_m;
    bool study, bias, taylor, hostile; /* hostile: also run with keys and values that have
                                        * outliers, NaN or infinity */
};

/* The keys or the values of a case: original, encoded and decoded on the host, and encoded on the
 * device. */
struct mma_held {
    struct kvr_codec *codec;
    struct kvr_packed packed, on_device;
    float *x, *read; /* [n_tok,H,D]; `x`: original elements; `read`: elements decoded from `packed`,
                      * or `raw` converted to F32 */
    void *raw;       /* without a codec: the elements in BF16 or F32 [n_tok,H,D], on the host */
    struct kvr_attend_mma_source source;
};

void mma_hold(struct mma_held *out, const struct mma_case *c, const char *text, enum kvr_side side,
              enum fill fill, struct kvr_dev *dev);
void mma_release(struct mma_held *h);

/* Returns an uninitialized softmax state on the device. */
struct kvr_attend_state mma_state(const struct kvr_attend_shape *a);
/* Returns arguments with which an attention call only updates the softmax state `st`.
 * kvr_attend_begin_cuda must have initialized the state; kvr_attend_finish_cuda computes the output
 * from it. */
struct kvr_attend_io mma_between(const float *q, const struct kvr_attend_state *st);

static inline double to_bf16(float x)
{
    return (double)kvr_bf16_to_f32(kvr_f32_to_bf16(x));
}

/* The terms S, C, B and top of the error bounds, which the header comment of this file defines. */
struct mma_sizes {
    double S, C, B, top;
};

/* Computes attention of one query of one head in double precision, with q, k and v rounded to BF16.
 * Updates the maxima in *z with the terms of this query. */
void mma_one_query(const struct mma_case *c, const float *q, double bias, const float *k,
                   const float *v, const float *s2, int h, double *out, double *lse,
                   struct mma_sizes *z);
/* Returns the largest allowed difference between a kernel's score and the score of mma_one_query,
 * or of the CPU's attention if `cpu` is set. */
double mma_score_bound(const struct mma_case *c, const struct mma_sizes *z, bool cpu);
/* Like mma_score_bound, but for an element of the attention output. */
double mma_bound(const struct mma_case *c, const struct mma_sizes *z, bool cpu);
/* Fails unless |want - got| <= tol; NaN matches NaN. */
void mma_within(const double *want, const float *got, int64_t n, double tol, const char *what);
/* Fails unless the bits of want and got are equal. NaN matches NaN. */
void mma_same_bits(const float *want, const float *got, int64_t n, const char *what);

/* Returns whether the kernels of attend_wgmma.cu can run on this device: on sm_90 and on the
 * emulated device. */
bool mma_lists_here(void);

/* Kernel by which mma_by_kernel computes attention over a list of spans (ranges of tokens): one
 * call of kvr_attend_mma_cuda per span, or one call of kvr_attend_list_cuda (attend_wgmma.cu) or
 * kvr_attend_rows_cuda for the whole list. */
enum { BY_SPAN, BY_LIST, BY_ROWS };

void mma_by_kernel(const struct kvr_attend_shape *a, int how, const struct kvr_attend_io *io,
                   const struct kvr_attend_mma_span *span, int n_spans, float *parts,
                   size_t n_parts);
/* Checks that the output is bit-identical whether separate kernels or the attention kernels
 * themselves initialize the softmax state and normalize the output. A call with BF16 queries and
 * BF16 output must return the F32 output for the same query values, rounded to BF16. */
void mma_ends_alike(const struct kvr_attend_shape *a, int how,
                    const struct kvr_attend_mma_span *span, int n_spans, float *parts,
                    size_t n_parts, const float *q, const char *what);

/* Add the tests of cases_lists.c and cases_paths.c to cases_mma(). */
void mma_add_lists(TCase *tc);
void mma_add_paths(TCase *tc);

#endif
