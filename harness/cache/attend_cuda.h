/* attend_cuda.h - attention on a CUDA stream over slices of the KV cache, which are dequantized one
 * after the other.
 *
 *     kvr_attend_begin_cuda(s, &shape, state);
 *     for each KV slice, in a fixed order:
 *         dequantize the slice into scratch;
 *         kvr_attend_piece_cuda(s, &shape, q, &piece, state);
 *     if a second state exists:
 *         kvr_attend_merge_cuda(s, &shape, state, second);
 *     kvr_attend_finish_cuda(s, &shape, state, out);
 *
 * The tensor-core kernels need no calls of kvr_attend_begin_cuda and kvr_attend_finish_cuda: their
 * first launch initializes the softmax state and their last launch writes the output (struct
 * kvr_attend_io).
 *
 * Every query of every head has an online-softmax state, as in attend_cpu.c: the running maximum,
 * the denominator and the accumulated output. A codec may store rotated keys or values (transforms
 * `hadamard` and `rotate`). For KV slices with rotated keys, the caller passes a copy of the
 * queries that kvr_codec_transform() has rotated. KV slices with rotated values update a second
 * softmax state. The caller rotates the accumulated output of the second state back by
 * kvr_codec_transform() before the two states are merged. Results are deterministic. GPU and CPU
 * results differ by rounding, because the order of summation differs. The functions of this header
 * compute in F32 without tensor cores. All pointers are device pointers. */
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
    int64_t n_query;       /* number of queries T */
    int n_heads, head_dim; /* number of heads H; number of channels per head D, at most
                            * KVR_ATTEND_CUDA_MAX_D */
};

struct kvr_attend_state {
    float *mx, *sum; /* [T,H] */
    float *acc;      /* [T,H,D] */
};

/* Queries, softmax state and output of an attention call, which consists of one or more launches.
 * An attention call that is a single launch of the kernel attend_mma_rows or attend_list neither
 * reads nor writes the softmax state. */
struct kvr_attend_io {
    const float *q;             /* F32 queries [T,H,D], not yet multiplied by 1/sqrt(D); NULL if the
                                 * queries are in q16 */
    const kvr_bf16 *q16;        /* BF16 queries [T,H,D], 16-byte aligned; NULL if the queries are in
                                 * q */
    struct kvr_query_norm norm; /* parameters of RMSNorm and RoPE, which attention applies to q16;
                                 * requires out16, where kvr_attend_norm_cuda writes the normalized
                                 * queries */
    /* Softmax state that a launch passes to the next launch of the call. */
    struct kvr_attend_state state;
    bool begins; /* true in the first launch of the call, which does not read the state */
    /* normalized output acc / sum [T,H,D] of the call's last launch; NULL in earlier launches */
    float *out;
    /* BF16 alternative to `out`; if both outputs are NULL, the launch stores its softmax state */
    kvr_bf16 *out16;
};

/* Whether this launch writes the output instead of the softmax state. */
static inline bool kvr_attend_is_last(const struct kvr_attend_io *io)
{
    return io->out || io->out16;
}

/* Returns a copy of `io` whose output pointers are NULL. The attention of a layer may take several
 * launches; all but the last get this copy. */
static inline struct kvr_attend_io kvr_attend_io_partial(const struct kvr_attend_io *io)
{
    struct kvr_attend_io some = *io;

    some.out = NULL;
    some.out16 = NULL;
    return some;
}

/* Dequantized keys and values of a KV slice, and the terms of their scores. A score is q . k /
 * sqrt(D) + log_m - row_bias - correction. The correction is a function of q and s2, given by
 * by_scales (enum kvr_by_scales). */
struct kvr_attend_piece {
    const float *k, *v; /* [n,H,D] */
    int64_t n;
    float log_m;                  /* log of the number of original tokens that each token of the
                                   * slice replaces */
    const float *row_bias;        /* [T,H]: term per query and head; NULL: 0 */
    enum kvr_by_scales by_scales; /* KVR_BY_SCALES_NO: no correction by scales; s2 is not used */
    /* [n,H,D]: squared quantization scale of each key element, after rotation if keys are
     * rotated */
    const float *s2;
};

/* Initializes the softmax state: the running maxima become -infinity, and the denominators and
 * accumulators become 0. */
void kvr_attend_begin_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                           const struct kvr_attend_state *state);
/* Computes the attention of the queries q [T,H,D] to the keys and values of a KV slice, and updates
 * the softmax state. The queries are not yet multiplied by 1/sqrt(D). */
void kvr_attend_piece_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                           const float *q, const struct kvr_attend_piece *piece,
                           const struct kvr_attend_state *state);
/* Writes two floats per key and head to out [n,H,2]: the sum over all queries of the key's softmax
 * weights, and the maximum of these weights. The weight for query i is e^(score - mx[i]) / sum[i],
 * where `mx` and `sum` are the arrays of `state`. The softmax state must include every key of the
 * attention call. The function does not read piece->v. */
void kvr_attend_columns_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                             const float *q, const struct kvr_attend_piece *piece,
                             const struct kvr_attend_state *state, float *out);
/* Merges the softmax state `from`, computed over other keys, into the state `into`. If `from` is an
 * initial state, to which no keys were added, `into` is unchanged. */
void kvr_attend_merge_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                           const struct kvr_attend_state *into,
                           const struct kvr_attend_state *from);
/* Merges the softmax states `from` and io->state. If io->out or io->out16 is set, the function
 * writes the normalized output of the merged state there, and io->state is unchanged. Otherwise it
 * stores the merged state in io->state. */
void kvr_attend_merge_end_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                               const struct kvr_attend_io *io, const struct kvr_attend_state *from);
/* Returns the size in floats of the buffer `parts` for partial results of split-KV. The size
 * suffices for any number of keys and for up to shape->n_query queries. The function returns 0 if
 * the kernels have no split-KV for this head dimension. */
size_t kvr_attend_parts_floats(const struct kvr_attend_shape *shape);
/* Returns how split-KV divides n_tiles tiles of keys among CTAs. The partial results need at most
 * n_floats floats. */
struct kvr_attend_split kvr_attend_split_for(const struct kvr_attend_shape *shape, int64_t n_tiles,
                                             size_t n_floats);
/* Merges the partial results of split-KV in a fixed order and writes them to the softmax state, or
 * to the output in the call's last launch. Without split-KV the function does nothing. `parts`
 * consists of the arrays mx [slots,128], sum [slots,128] and acc [slots,128,D], with one slot of
 * 128 query rows per partial result. */
void kvr_attend_parts_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                           const struct kvr_attend_split *split, const float *parts,
                           const struct kvr_attend_io *io);
/* Writes the normalized output acc / sum to out [T,H,D]. The output of a query without keys is
 * NaN. */
void kvr_attend_finish_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                            const struct kvr_attend_state *state, float *out);
/* Launches a kernel that applies RMSNorm and RoPE (io->norm) to the queries io->q16 and writes the
 * result to io->out16. Returns a copy of io whose queries q16 are those in out16. A later attention
 * launch may write its output to out16 too: each CTA writes only rows whose queries it has already
 * read. */
struct kvr_attend_io kvr_attend_norm_cuda(struct kvr_stream *s,
                                          const struct kvr_attend_shape *shape,
                                          const struct kvr_attend_io *io);
/* If io->begins is set, launches a kernel that initializes the softmax state. If io->out or
 * io->out16 is set, launches a kernel that writes the normalized output of the state there. The
 * function serves attention kernels that do not write outputs, and calls without keys. */
void kvr_attend_separate_passes_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                                     const struct kvr_attend_io *io);

#ifdef __cplusplus
}
#endif
#endif
