/* mma_reference.h - shared by the tests of attention on tensor cores: keys and values of a case,
 * attention in double precision, and error bounds.
 *
 * u = 2^-24 is the unit roundoff of F32. h = 2^-9 is half the unit roundoff of BF16, assuming that
 * rounding errors partly cancel in a sum. S is the largest sum of |q_d k_d| / sqrt(D) and C the
 * largest correction. B is the largest |log m - row bias|. Here m is the number of tokens that each
 * key represents, and the row bias is a term per query that is subtracted from its scores. The
 * symbol top is max |v|.
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
 * These bounds hold against sums in double precision of q, k and v rounded to BF16, where k and v
 * are as the CPU decodes them. The CPU's attention does not round q, k and v. In a comparison with
 * the CPU, a score's bound is therefore larger by 2 h S and a correction's by 2 h C. The bound of
 * the output gets another factor 1 + h, for v. */
#ifndef KVR_TESTS_MMA_REFERENCE_H
#define KVR_TESTS_MMA_REFERENCE_H

#include "harness/cache/attend.h"
#include "harness/cache/attend_mma.h"
#include "harness/cache/attend_wgmma.h"
#include "tests/cuda/both.h"

static const double mma_u = 0x1p-24, mma_half = 0x1p-9;

#define RAW NULL

struct mma_case {
    const char *k, *v; /* codecs of keys and of values, or RAW for rows of type `raw` */
    enum kvr_dtype raw;
    struct kvr_attend_shape a;
    int64_t n_tok, t0, n;
    float log_m;
    bool study, bias, taylor, hostile; /* hostile: also run with keys and values that have
                                        * outliers, NaN or infinity */
};

/* Keys or values of a case: original, decoded, and on the device. */
struct mma_held {
    struct kvr_codec *codec;
    struct kvr_packed packed, on_device;
    float *x, *read; /* [n_tok,H,D] x: original values; read: decoded from `packed` or `raw` */
    void *raw;       /* BF16 or F32 rows on the host */
    struct kvr_attend_mma_source source;
};

void mma_hold(struct mma_held *out, const struct mma_case *c, const char *text, enum kvr_side side,
              enum fill fill, struct kvr_dev *dev);
void mma_release(struct mma_held *h);

/* Returns an uninitialized softmax state on the device. */
struct kvr_attend_state mma_state(const struct kvr_attend_shape *a);
/* Returns the arguments of an attention call that neither initializes nor normalizes the softmax
 * state, because kvr_attend_begin_cuda and kvr_attend_finish_cuda do. */
struct kvr_attend_io mma_between(const float *q, const struct kvr_attend_state *st);

static inline double to_bf16(float x)
{
    return (double)kvr_bf16_to_f32(kvr_f32_to_bf16(x));
}

/* Terms S, C, B and top of the error bounds (see the top of this file). */
struct mma_sizes {
    double S, C, B, top;
};

/* Computes attention of one query of one head in double precision, with q, k and v rounded to BF16.
 * Raises each term of *z to this query's value if that is larger. */
void mma_one_query(const struct mma_case *c, const float *q, double bias, const float *k,
                   const float *v, const float *s2, int h, double *out, double *lse,
                   struct mma_sizes *z);
/* Returns a bound on the error of a score relative to attention in double precision, or to the
 * CPU's attention if `cpu` is set. */
double mma_score_bound(const struct mma_case *c, const struct mma_sizes *z, bool cpu);
/* Like mma_score_bound, but for the error of an output element. */
double mma_bound(const struct mma_case *c, const struct mma_sizes *z, bool cpu);
/* Fails unless |want - got| <= tol; NaN matches NaN. */
void mma_within(const double *want, const float *got, int64_t n, double tol, const char *what);
/* Fails unless the bits of want and got are equal. NaN matches NaN. */
void mma_same_bits(const float *want, const float *got, int64_t n, const char *what);

/* Returns whether attend_wgmma.cu runs here: on sm_90 and on the emulated device. */
bool mma_lists_here(void);

/* How mma_by_kernel launches attention over a list of spans: by one kvr_attend_mma_cuda call per
 * span, or by one call of kvr_attend_list_cuda (attend_wgmma.cu) or kvr_attend_rows_cuda. */
enum { BY_SPAN, BY_LIST, BY_ROWS };

void mma_by_kernel(const struct kvr_attend_shape *a, int how, const struct kvr_attend_io *io,
                   const struct kvr_attend_mma_span *span, int n_spans, float *parts,
                   size_t n_parts);
/* Checks that the softmax state may be initialized and normalized by separate kernels or by the
 * attention kernels, with bit-identical results. A call with queries and output in BF16 must return
 * the F32 output for the same query values, rounded to BF16. */
void mma_ends_alike(const struct kvr_attend_shape *a, int how,
                    const struct kvr_attend_mma_span *span, int n_spans, float *parts,
                    size_t n_parts, const float *q, const char *what);

/* Add the tests of cases_lists.c and cases_paths.c to cases_mma(). */
void mma_add_lists(TCase *tc);
void mma_add_paths(TCase *tc);

#endif
