/* attend_cuda.h - attention over decoded pieces, on a CUDA stream.
 *
 *     kvr_attend_begin_cuda(s, &shape, state);
 *     for each piece, in a fixed order:
 *         decode into scratch, then
 *         kvr_attend_piece_cuda(s, &shape, q, &piece, state);
 *     kvr_attend_merge_cuda(s, &shape, state, other);       a second state, if there is one
 *     kvr_attend_finish_cuda(s, &shape, state, out);
 *
 * Tensor-core kernels begin and finish within their own launches (struct kvr_attend_io).
 *
 * Every (query, head) keeps a softmax state (running max, running sum, accumulated output), as in
 * attend_cpu.c. Pieces with rotated keys use rotated queries (kvr_fwht_cuda of a copy of q). Pieces
 * with rotated values use a separate state; kvr_fwht_cuda rotates its `acc` back before the merge.
 * Results are deterministic and agree with the CPU up to rounding, since the summation order
 * differs. All arithmetic is F32 without tensor cores; all pointers are device memory. */
#ifndef KVR_CACHE_ATTEND_CUDA_H
#define KVR_CACHE_ATTEND_CUDA_H

#include "harness/device/stream.h"
#include "harness/cache/attend_split.h"
#include "harness/cache/query_norm.h"
#include "methods/corrections/corrections_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_ATTEND_CUDA_MAX_D = 256 };

struct kvr_attend_shape {
    int64_t n_query;       /* T */
    int n_heads, head_dim; /* H; D, at most KVR_ATTEND_CUDA_MAX_D */
};

struct kvr_attend_state {
    float *mx, *sum; /* [T,H] */
    float *acc;      /* [T,H,D] */
};

/* Queries, state and output of an attention call. A call that is one launch of attend_mma_rows or
 * attend_list accesses no other buffers. */
struct kvr_attend_io {
    const float *q;             /* [T,H,D], unscaled; NULL: use q16 */
    const kvr_bf16 *q16;        /* q rounded to BF16, 16-byte aligned */
    struct kvr_query_norm norm; /* applied to q16; needs out16 */
    /* Softmax state between the launches of a call. */
    struct kvr_attend_state state;
    bool begins;     /* first launch: the state is not read */
    float *out;      /* last launch: [T,H,D] = acc / sum, or NULL */
    kvr_bf16 *out16; /* the same in BF16; with both NULL the result stays in the state */
};

/* Whether this launch writes the output instead of the state. */
static inline bool kvr_attend_is_last(const struct kvr_attend_io *io)
{
    return io->out || io->out16;
}

/* io for a launch that is not the last of its call. */
static inline struct kvr_attend_io kvr_attend_io_partial(const struct kvr_attend_io *io)
{
    struct kvr_attend_io some = *io;

    some.out = NULL;
    some.out16 = NULL;
    return some;
}

/* Keys, values, and the terms of a score besides the dot product: log_m is added; row_bias of the
 * query, and the correction that `by_scales` derives from the key's squared scales, are
 * subtracted. */
struct kvr_attend_piece {
    const float *k, *v; /* [n,H,D] */
    int64_t n;
    float log_m;                  /* log of each token's multiplicity */
    const float *row_bias;        /* [T,H]; NULL: 0 */
    enum kvr_by_scales by_scales; /* if not NO, needs s2 */
    const float *s2;              /* [n,H,D], in the space of k and q */
};

/* Sets the state of queries that have seen no keys: maximum -infinity, sums 0. */
void kvr_attend_begin_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                           const struct kvr_attend_state *state);
/* Attends from q [T,H,D], unscaled, to a piece of keys, and updates the state. */
void kvr_attend_piece_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                           const float *q, const struct kvr_attend_piece *piece,
                           const struct kvr_attend_state *state);
/* out [n,H][2]: sum and maximum over all queries of a key's weight e^(score - mx) / sum. The state
 * must have seen every key. piece->v is not read. */
void kvr_attend_columns_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                             const float *q, const struct kvr_attend_piece *piece,
                             const struct kvr_attend_state *state, float *out);
/* Merges `from`, a state over other keys, into `into`. An empty `from` has no effect. */
void kvr_attend_merge_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                           const struct kvr_attend_state *into,
                           const struct kvr_attend_state *from);
/* Merges `from` with io's state, which is unchanged, and writes the normalized output. */
void kvr_attend_merge_end_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                               const struct kvr_attend_io *io, const struct kvr_attend_state *from);
/* Floats needed for `parts`, for any number of keys and up to this many queries. 0: no split-KV for
 * heads of this width. */
size_t kvr_attend_parts_floats(const struct kvr_attend_shape *shape);
/* Split-KV plan over n_tiles, given the available space for partial results. */
struct kvr_attend_split kvr_attend_split_for(const struct kvr_attend_shape *shape, int64_t n_tiles,
                                             size_t n_floats);
/* Merges partial results in order, into the state or the call's output; no-op without split-KV.
 * parts, over all slots of 128 rows: mx [slots,128]; sum [slots,128]; acc [slots,128,D]. */
void kvr_attend_parts_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                           const struct kvr_attend_split *split, const float *parts,
                           const struct kvr_attend_io *io);
/* out [T,H,D] = acc / sum; NaN for queries without keys. */
void kvr_attend_finish_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                            const struct kvr_attend_state *state, float *out);
/* Applies the norm of q16 in a separate pass, into out16, which the call then uses as its queries;
 * returns the remaining call. A CTA may overwrite its own queries with its output. */
struct kvr_attend_io kvr_attend_norm_cuda(struct kvr_stream *s,
                                          const struct kvr_attend_shape *shape,
                                          const struct kvr_attend_io *io);
/* Initializes the state and writes the output, if no launch of the call has done so. */
void kvr_attend_separate_passes_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                                     const struct kvr_attend_io *io);

#ifdef __cplusplus
}
#endif
#endif
