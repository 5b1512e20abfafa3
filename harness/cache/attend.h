/* attend.h - attention over spans, on any device.
 *
 * Spans come in a fixed order and every query keeps its own (running max, running sum,
 * accumulated output), so the result depends neither on threads nor on timing. Rotated keys
 * are met by rotated queries; rotated values are rotated back once, in the output.
 *
 * attend_cpu.c is the definition; attend_spans_cuda.c walks the same spans on a CUDA stream, piece
 * by piece, with the kernels of attend_cuda.h and attend_mma.h. Each is a table (attend_impl.h). */
#ifndef KVR_CACHE_ATTEND_H
#define KVR_CACHE_ATTEND_H

#include "harness/cache/query_norm.h"
#include "harness/cache/segment.h"
#include "harness/device/phase.h"
#include "methods/corrections/correction.h"

/* Scratch that lives as long as the cache; its device says where attention runs. */
struct kvr_attend_scratch {
    struct kvr_dev *dev;
    struct kvr_buf tiles; /* staged: one piece, decoded */
    struct kvr_buf state; /* per head and query: max, sum, output, query */
    int64_t max_query;    /* of a device with `heads` */
    struct kvr_buf heads; /* a device, spans of single heads: one head's part of what all share */
    struct kvr_buf parts; /* a device, BF16: what parts of the keys come to (attend_split.h) */
    struct kvr_buf coded; /* a device, int8: keys and values as bytes (byte_rows.h) */
};

/* Of a job's phases: all of it, and decoding into scratch, which the first encloses. */
enum { KVR_ATTEND_PHASE, KVR_ATTEND_DECODE, KVR_ATTEND_PHASES };

struct kvr_attend_job {
    int n_heads, head_dim; /* H, D: of keys and values */
    int group;             /* query heads that read one of them; 0: 1 */
    int64_t n_query;       /* T */
    const float *q;        /* [T,H,group,D] */
    float *out;            /* [T,H,group,D] */
    const kvr_bf16 *q16;   /* the same two as BF16 instead, at multiples of 16 bytes; else NULL */
    kvr_bf16 *out16;
    struct kvr_query_norm norm; /* of q16 */
    const struct kvr_span *spans;
    int n_spans;
    const struct kvr_correction *correction; /* NULL: none */
    bool int8;                               /* coded tokens as bytes (attend_dot.h) */
    bool fused;        /* decode inside the attention loop; else stage bounded pieces in scratch */
    bool by_head;      /* some spans hold one head alone (kvr_segment.head0) */
    bool tensor_cores; /* a device may multiply BF16 numbers, summing in F32 */
    struct kvr_phases *phases; /* KVR_ATTEND_PHASE..; NULL: nothing is timed */
    float *past; /* [T,H,group]: share of a query's weights before the causal span, which must be
                    there, and last; NULL: nobody asks */
};

enum { KVR_ATTEND_MAX_D = 256 };

/* What jobs will ask for at most. */
struct kvr_attend_needs {
    int n_heads, head_dim;
    int group;         /* query heads that read one of the heads; 0: 1 */
    int64_t max_query; /* times the group */
    bool causal;
    enum kvr_dtype exact;                    /* of what is held uncoded */
    bool staged;                             /* not fused */
    bool rotated;                            /* some codec rotates */
    const struct kvr_correction *correction; /* NULL: none */
    bool int8;
    int64_t max_coded;     /* tokens that may be coded */
    bool by_head, columns; /* spans of single heads; kvr_attend_columns */
};

/* What kvr_attend_reserve allocates. */
struct kvr_attend_bytes {
    size_t tiles, state, heads, parts, coded;
};
struct kvr_attend_bytes kvr_attend_scratch_bytes(const struct kvr_attend_needs *n,
                                                 enum kvr_backend backend);

/* Can it be done there? KVR_EUNSUPPORTED with the reason. */
enum kvr_status kvr_attend_check(const struct kvr_attend_needs *n, enum kvr_backend backend);
/* Can these be decoded inside the attention loop of that device, with this correction (NULL: none)?
 * KVR_EUNSUPPORTED with the reason. */
enum kvr_status kvr_attend_fuses(const struct kvr_dev *dev, const struct kvr_codec *k,
                                 const struct kvr_codec *v, const struct kvr_correction *c,
                                 int n_heads, int head_dim);

/* May jobs with these needs have BF16 queries and output, where nobody asks for columns? */
bool kvr_attend_takes_bf16(const struct kvr_attend_needs *n, enum kvr_backend backend);

/* Make scratch large enough; called when the cache opens. */
enum kvr_status kvr_attend_reserve(struct kvr_attend_scratch *s, struct kvr_dev *dev,
                                   const struct kvr_attend_needs *n);
void kvr_attend_release(struct kvr_attend_scratch *s);
/* What goes wrong shows at kvr_dev_sync. */
void kvr_attend(const struct kvr_attend_job *job, struct kvr_attend_scratch *s);

/* What queries give each key. */
struct kvr_column_job {
    const struct kvr_attend_job *attend; /* its queries and spans; nothing is attended to */
    int queries;                         /* of so many, evenly spread; 0: all */
    bool newest;                         /* of the last so many instead */
    int64_t current0;                    /* token index of what raw spans begin with */
    float *sum, *max; /* [tokens,H] of the host: weights are added to, and compared with them */
};

/* Adds up the weights that softmax gives each token of the spans, from scores as kvr_attend has
 * them, query heads of one head of keys alike. Scratch is that of an attention with the same
 * needs. Waits for a device. */
enum kvr_status kvr_attend_columns(const struct kvr_column_job *job, struct kvr_attend_scratch *s);
/* How many queries that is. */
int64_t kvr_column_rows(const struct kvr_column_job *job);
/* The i-th of them, as a query of the job. */
int64_t kvr_column_row(const struct kvr_column_job *job, int64_t i);

#endif
