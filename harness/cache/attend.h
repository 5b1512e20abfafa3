/* attend.h - attention over spans (runs of stored tokens), on CPU or GPU.
 *
 * Spans are processed in a fixed order, and every query has its own softmax state: running maximum,
 * running sum and accumulated output. Results therefore depend neither on the number of threads nor
 * on timing. A codec may rotate keys or values before it quantizes them, for example by a Hadamard
 * transform. Rotated keys are multiplied with rotated queries. The output over rotated values is
 * rotated back once, at the end.
 *
 * A job is one attention call: T queries over a list of spans. The cache's path (enum kvr_path)
 * determines where quantized tokens are dequantized. Path `staged` dequantizes a bounded number of
 * tokens at a time into scratch. Path `fused` dequantizes inside the attention loop.
 *
 * The reference implementation is attend_cpu.c. On a CUDA stream, attend_spans_cuda.c launches the
 * kernels of attend_cuda.h, attend_mma.h, attend_wgmma.h and attend_bytes.h for the same spans.
 * Each backend is a table of functions (attend_impl.h). */
#ifndef KVR_CACHE_ATTEND_H
#define KVR_CACHE_ATTEND_H

#include "harness/cache/query_norm.h"
#include "harness/cache/segment.h"
#include "harness/device/phase.h"
#include "methods/corrections/correction.h"

/* Scratch buffers that live as long as the cache. Attention runs on the device `dev` of these
 * buffers. */
struct kvr_attend_scratch {
    struct kvr_dev *dev;
    struct kvr_buf tiles; /* path `staged`: keys and values of a bounded number of tokens,
                           * dequantized to F32 */
    struct kvr_buf rows;  /* path `staged` on a CUDA device, if uncompressed tokens are BF16: keys
                           * of quantized tokens dequantized to BF16, followed by the values of
                           * these tokens */
    struct kvr_buf state; /* softmax state (maximum, sum, output) and scaled query, for each head
                           * and query */
    int64_t max_query;    /* kvr_attend_needs.max_query for which `heads` was allocated */
    struct kvr_buf heads; /* on a device, if heads retain different tokens: gathered queries,
                           * outputs, keys and values of one head at a time */
    struct kvr_buf parts; /* partial results of split-KV in BF16 attention on a device
                           * (attend_split.h) */
    struct kvr_buf coded; /* keys and values quantized to bytes for int8 attention on a device
                           * (byte_rows.h) */
};

/* Phases of a job that are timed separately. KVR_ATTEND_PHASE is the whole job. KVR_ATTEND_DECODE
 * is the part of the job that dequantizes tokens into scratch. */
enum { KVR_ATTEND_PHASE, KVR_ATTEND_DECODE, KVR_ATTEND_PHASES };

struct kvr_attend_job {
    int n_heads, head_dim; /* number of KV heads H, and channels per head D */
    int group;             /* number of query heads per KV head; 0 means 1 */
    int64_t n_query;       /* number of queries T */
    const float *q;        /* [T,H,group,D] */
    float *out;            /* [T,H,group,D] */
    const kvr_bf16 *q16;   /* q16 and out16: BF16 arrays, 16-byte aligned, that replace the F32
                            * arrays `q` and `out`; NULL: F32 is used */
    kvr_bf16 *out16;
    struct kvr_query_norm norm; /* applied to q16 */
    const struct kvr_span *spans;
    int n_spans;
    const struct kvr_correction *correction; /* NULL: no correction */
    bool int8;                               /* whether attention to quantized tokens uses int8
                                              * matrix products (attend_dot.h) */
    bool bf16;         /* whether CPU attention has BF16 operands and F32 accumulators
                        * (attend_bf16.h) */
    bool fused;        /* whether to dequantize inside the attention loop (path `fused`); otherwise
                        * tokens are dequantized into scratch */
    bool by_head;      /* whether heads retain different tokens, so that a span may have the tokens
                        * of one head only (kvr_segment.head0) */
    bool tensor_cores; /* whether a CUDA device may use BF16 tensor cores with F32 accumulation */
    struct kvr_phases *phases; /* receives the times of the phases KVR_ATTEND_PHASE and
                                * KVR_ATTEND_DECODE; NULL disables timing */
    float *past; /* [T,H,group]: receives, for each query and query head, the sum of the softmax
                  * weights of all tokens before the current chunk. The current chunk must be the
                  * last span, with a causal mask. NULL: no sums are computed */
};

enum { KVR_ATTEND_MAX_D = 256 };

/* Upper bounds on the sizes of a cache's attention jobs, and the optional features that these jobs
 * use, such as causal masking or rotated keys. */
struct kvr_attend_needs {
    int n_heads, head_dim;
    int group;         /* number of query heads per KV head; 0 means 1 */
    int64_t max_query; /* maximum number of queries that one KV head has in a job: T times
                        * `group` */
    bool causal;
    enum kvr_dtype exact; /* type of the keys and values that the cache stores without
                           * compression */
    bool staged;          /* path `staged` (not `fused`) */
    bool rotated;         /* whether a codec of the method rotates keys or values */
    bool wide;            /* whether a codec of the method cannot decode to BF16 directly
                           * (kvr_codec_decodes_bf16), so that path `staged` needs F32 scratch */
    int64_t staged_bytes; /* path `staged` on a CUDA device: maximum bytes of the BF16 scratch; 0:
                           * the scratch has room for all quantized tokens */
    const struct kvr_correction *correction; /* NULL: no correction */
    bool int8;
    int64_t max_coded;     /* maximum number of quantized tokens that a job attends to */
    int64_t max_staged;    /* path `staged`: maximum number of tokens that a job dequantizes into
                            * scratch; 0 on other paths */
    bool by_head, columns; /* by_head: whether heads retain different tokens; columns: whether
                            * kvr_attend_columns is called */
};

/* Sizes in bytes of the buffers of struct kvr_attend_scratch. */
struct kvr_attend_bytes {
    size_t tiles, state, heads, parts, coded, rows;
};
/* Computes the bytes of each buffer that kvr_attend_reserve would allocate on `backend`. */
struct kvr_attend_bytes kvr_attend_scratch_bytes(const struct kvr_attend_needs *n,
                                                 enum kvr_backend backend);

/* Checks that the backend supports the jobs that `n` describes. On KVR_EUNSUPPORTED the error
 * message gives the reason. */
enum kvr_status kvr_attend_check(const struct kvr_attend_needs *n, enum kvr_backend backend);
/* Checks that `dev` supports path `fused`: its attention loop can dequantize keys of codec `k` and
 * values of codec `v`, and apply the correction `c` (NULL: no correction). On KVR_EUNSUPPORTED the
 * error message gives the reason. */
enum kvr_status kvr_attend_fuses(const struct kvr_dev *dev, const struct kvr_codec *k,
                                 const struct kvr_codec *v, const struct kvr_correction *c,
                                 int n_heads, int head_dim);

/* Returns whether kvr_attend accepts BF16 queries and output (q16, out16) in the jobs that `n`
 * describes. kvr_attend_columns accepts only F32 queries. */
bool kvr_attend_accepts_bf16(const struct kvr_attend_needs *n, enum kvr_backend backend);

/* Allocates scratch buffers that suffice for every job within the bounds `n`. A cache calls the
 * function once, when it opens. */
enum kvr_status kvr_attend_reserve(struct kvr_attend_scratch *s, struct kvr_dev *dev,
                                   const struct kvr_attend_needs *n);
/* Frees the scratch. */
void kvr_attend_release(struct kvr_attend_scratch *s);
/* Computes the output of a job. The next kvr_dev_sync returns errors of the device. */
void kvr_attend(const struct kvr_attend_job *job, struct kvr_attend_scratch *s);

/* Arguments of kvr_attend_columns, which computes, for each key token and KV head, the sum and the
 * maximum of the token's softmax weights. To save time, the sum and the maximum may cover only a
 * sample of the job's queries. */
struct kvr_column_job {
    const struct kvr_attend_job *attend; /* gives the queries and spans; `out` is not written */
    int queries;                         /* number of queries in the sample; 0: all T */
    bool newest;                         /* true: the sample is the last queries of the job; false:
                                          * it is evenly spaced */
    int64_t current0;                    /* index in the rollout of the current chunk's first
                                          * token */
    float *sum, *max;                    /* sum and maximum of the softmax weights, both updated,
                                          * [tokens of the rollout,H] in host memory */
};

/* Adds each key token's softmax weights to job->sum and updates their maximum in job->max. A KV
 * head covers the sampled queries of all its query heads. Scores are computed as in kvr_attend. The
 * scratch must have been reserved with kvr_attend_needs.columns true. Synchronises. */
enum kvr_status kvr_attend_columns(const struct kvr_column_job *job, struct kvr_attend_scratch *s);
/* Returns the number of queries in the sample of `job`. */
int64_t kvr_column_rows(const struct kvr_column_job *job);
/* Returns the index, in [0, T), of query i of the sample. */
int64_t kvr_column_row(const struct kvr_column_job *job, int64_t i);

#endif
