/* mma_reference.h - shared by the tests of attention on tensor cores: keys and values of a case, attention in double,
 * error bounds.
 *
 * u = 2^-24; h = 2^-9, the relative error of rounding to BF16. S is the largest sum of |q_d k_d| / sqrt(D), C the
 * largest correction, B = |log m| + |row bias|, top = max |v|:
 *
 *     score         D products are added in F32, with an error of at most 4 u of S each, since a tensor core may
 *                   truncate; scale, bias and maximum add 8 u (S + C + B). The Taylor correction rounds two
 *                   factors: 2 h C.
 *     weight        the errors of its score and of the maximum, together e; 2^x adds 8 u
 *     P V           a weight is rounded to BF16 in the numerator only: h
 *     log sum       the log of all weights: e + 8 u + n u. Softmax hides a common factor, this does not.
 *     output        a quotient of two sums of n weights: at most
 *                   top ((1 + h) exp(2 e + 16 u + 2 n u) - 1)
 *
 * These bounds hold against sums in double of q, k and v rounded to BF16 (k and v as the CPU decodes them). The
 * CPU's attention rounds none of them: 2 h S more per score, 2 h C per correction, and h for v. */
#ifndef KVR_TESTS_MMA_REFERENCE_H
#define KVR_TESTS_MMA_REFERENCE_H

#include "harness/cache/attend.h"
#include "harness/cache/attend_mma.h"
#include "harness/cache/attend_wgmma.h"
#include "tests/cuda/both.h"

static const double mma_u = 0x1p-24, mma_half = 0x1p-9;

#define RAW NULL

struct mma_case {
    const char *k, *v; /* RAW: rows of type `raw` */
    enum kvr_dtype raw;
    struct kvr_attend_shape a;
    int64_t n_tok, t0, n;
    float log_m;
    bool study, bias, taylor, hostile; /* hostile: with all fills */
};

/* Keys or values of a case: coded, decoded, on the device. */
struct mma_held {
    struct kvr_codec *codec;
    struct kvr_packed packed, on_device;
    float *x, *read; /* the original; as decoded [n_tok,H,D] */
    void *raw;       /* on the host */
    struct kvr_attend_mma_source source;
};

void mma_hold(struct mma_held *out, const struct mma_case *c, const char *text, enum kvr_side side,
              enum fill fill, struct kvr_dev *dev);
void mma_release(struct mma_held *h);

/* An uninitialized softmax state on the device. */
struct kvr_attend_state mma_state(const struct kvr_attend_shape *a);
/* A call between separate begin and end passes. */
struct kvr_attend_io mma_between(const float *q, const struct kvr_attend_state *st);

static inline double to_bf16(float x)
{
    return (double)kvr_bf16_to_f32(kvr_f32_to_bf16(x));
}

/* Terms of the error bound. */
struct mma_sizes {
    double S, C, B, top;
};

/* One query of one head in double, with q, k, v rounded to BF16; extends *z. */
void mma_one_query(const struct mma_case *c, const float *q, double bias, const float *k,
                   const float *v, const float *s2, int h, double *out, double *lse,
                   struct mma_sizes *z);
/* Bound of a score's error against sums in double, or against the CPU. */
double mma_score_bound(const struct mma_case *c, const struct mma_sizes *z, bool cpu);
/* The same of the output. */
double mma_bound(const struct mma_case *c, const struct mma_sizes *z, bool cpu);
/* Fails unless |want - got| <= tol; NaN matches NaN. */
void mma_within(const double *want, const float *got, int64_t n, double tol, const char *what);
/* Fails unless the bits are equal; NaN matches NaN. */
void mma_same_bits(const float *want, const float *got, int64_t n, const char *what);

/* Whether attend_wgmma.cu runs here: on sm_90 and emulated. */
bool mma_lists_here(void);

/* Launcher of a list of spans. */
enum { BY_SPAN, BY_LIST, BY_ROWS };

void mma_by_kernel(const struct kvr_attend_shape *a, int how, const struct kvr_attend_io *io,
                   const struct kvr_attend_mma_span *span, int n_spans, float *parts,
                   size_t n_parts);
/* A call may initialize and normalize in separate passes or inside its launches, with an uninitialized state:
 * results are bit-identical. BF16 queries give the bits of the same numbers as F32, rounded. */
void mma_ends_alike(const struct kvr_attend_shape *a, int how,
                    const struct kvr_attend_mma_span *span, int n_spans, float *parts,
                    size_t n_parts, const float *q, const char *what);

/* Parts of cases_mma(): lists of spans in one launch; kvr_attend() on a device. */
void mma_add_lists(TCase *tc);
void mma_add_paths(TCase *tc);

#endif
