/* attend.h - attention over spans, on any device.
 *
 * Spans are processed in a fixed order, and every query keeps its softmax state (running max,
 * running sum, accumulated output), so results depend neither on threads nor on timing. Rotated
 * keys meet rotated queries; the output over rotated values is rotated back once.
 *
 * attend_cpu.c is the reference; attend_spans_cuda.c processes the same spans on a CUDA stream,
 * piece by piece, with the kernels of attend_cuda.h and attend_mma.h. Each backend is a table
 * (attend_impl.h). */
#ifndef KVR_CACHE_ATTEND_H
#define KVR_CACHE_ATTEND_H

#include "harness/cache/query_norm.h"
#include "harness/cache/segment.h"
#include "harness/device/phase.h"
#include "methods/corrections/correction.h"

/* Scratch that lives as long as the cache; its device determines where attention runs. */
struct kvr_attend_scratch {
    struct kvr_dev *dev;
    struct kvr_buf tiles; /* staged: one decoded piece, F32 */
    struct kvr_buf rows;  /* staged on a device, BF16 cache: K, then V, of all coded spans */
    struct kvr_buf state; /* per head and query: max, sum, output, query */
    int64_t max_query;    /* maximum number of queries: the length of each head's part of `heads` */
    struct kvr_buf heads; /* device, single-head spans: one head's slice of shared data */
    struct kvr_buf parts; /* device, BF16: partial results of split-KV (attend_split.h) */
    struct kvr_buf coded; /* device, int8: keys and values as bytes (byte_rows.h) */
};

/* Phases of a job: total, and decoding into scratch, which is part of the total. */
enum { KVR_ATTEND_PHASE, KVR_ATTEND_DECODE, KVR_ATTEND_PHASES };

struct kvr_attend_job {
    int n_heads, head_dim; /* H, D: of keys and values */
    int group;             /* query heads per KV head; 0: 1 */
    int64_t n_query;       /* T */
    const float *q;        /* [T,H,group,D] */
    float *out;            /* [T,H,group,D] */
    const kvr_bf16 *q16;   /* q and out in BF16, 16-byte aligned; else NULL */
    kvr_bf16 *out16;
    struct kvr_query_norm norm; /* applied to q16 */
    const struct kvr_span *spans;
    int n_spans;
    const struct kvr_correction *correction; /* NULL: no correction */
    bool int8;                               /* attend to coded tokens in int8 (attend_dot.h) */
    bool bf16;         /* CPU: products of BF16, summed in F32 (attend_bf16.h) */
    bool fused;        /* decode inside the attention loop; else stage bounded pieces in scratch */
    bool by_head;      /* some spans hold a single head (kvr_segment.head0) */
    bool tensor_cores; /* a device may use BF16 tensor cores with F32 accumulation */
    struct kvr_phases *phases; /* timed phases, from KVR_ATTEND_PHASE on; NULL: nothing is timed */
    float *past; /* [T,H,group]: share of attention on tokens before the causal span, which is the
                  * last span; NULL: not needed */
};

enum { KVR_ATTEND_MAX_D = 256 };

/* Upper bounds of the sizes of later jobs, and the features that those jobs use. */
struct kvr_attend_needs {
    int n_heads, head_dim;
    int group;         /* query heads per KV head; 0: 1 */
    int64_t max_query; /* maximum number of queries, multiplied by the group */
    bool causal;
    enum kvr_dtype exact; /* type of uncoded tokens */
    bool staged;          /* not fused */
    bool rotated;         /* some codec has a rotation */
    bool wide;            /* some codec has no decoder to BF16 (kvr_codec_decodes_bf16) */
    int64_t staged_bytes; /* staged on a device: limit of the BF16 scratch; 0: all coded tokens */
    const struct kvr_correction *correction; /* NULL: no correction */
    bool int8;
    int64_t max_coded;     /* maximum number of coded tokens */
    int64_t max_staged;    /* maximum number of a call's tokens that are not rows of type `exact` */
    bool by_head, columns; /* some spans hold a single head; kvr_attend_columns is used */
};

/* What kvr_attend_reserve allocates. */
struct kvr_attend_bytes {
    size_t tiles, state, heads, parts, coded, rows;
};
struct kvr_attend_bytes kvr_attend_scratch_bytes(const struct kvr_attend_needs *n,
                                                 enum kvr_backend backend);

/* Whether the backend supports these needs; otherwise KVR_EUNSUPPORTED with the reason. */
enum kvr_status kvr_attend_check(const struct kvr_attend_needs *n, enum kvr_backend backend);
/* Whether the device's attention loop can decode these codecs, with this correction (NULL: without
 * a correction); otherwise KVR_EUNSUPPORTED with the reason. */
enum kvr_status kvr_attend_fuses(const struct kvr_dev *dev, const struct kvr_codec *k,
                                 const struct kvr_codec *v, const struct kvr_correction *c,
                                 int n_heads, int head_dim);

/* Whether jobs with these needs may have BF16 queries and output. Jobs of kvr_attend_columns may
 * not. */
bool kvr_attend_accepts_bf16(const struct kvr_attend_needs *n, enum kvr_backend backend);

/* Allocates the scratch of all jobs with these needs; called when the cache opens. */
enum kvr_status kvr_attend_reserve(struct kvr_attend_scratch *s, struct kvr_dev *dev,
                                   const struct kvr_attend_needs *n);
void kvr_attend_release(struct kvr_attend_scratch *s);
/* Errors surface at kvr_dev_sync. */
void kvr_attend(const struct kvr_attend_job *job, struct kvr_attend_scratch *s);

/* Attention received by each key. */
struct kvr_column_job {
    const struct kvr_attend_job *attend; /* queries and spans; no output is computed */
    int queries;                         /* number of evenly spaced queries; 0: all */
    bool newest;                         /* use the newest queries instead */
    int64_t current0;                    /* token index of the first raw token */
    float *sum, *max;                    /* [tokens,H] host memory: sum and maximum of weights,
                                          * updated by the job */
};

/* Accumulates the softmax weight of each token over the queries and over all query heads of its KV
 * head, with scores as in kvr_attend. Uses attention's scratch for the same needs. Synchronises. */
enum kvr_status kvr_attend_columns(const struct kvr_column_job *job, struct kvr_attend_scratch *s);
/* Number of sampled queries. */
int64_t kvr_column_rows(const struct kvr_column_job *job);
/* Query index of the i-th sample. */
int64_t kvr_column_row(const struct kvr_column_job *job, int64_t i);

#endif
