/* attend_cuda.h - attention over decoded pieces, on a CUDA stream.
 *
 *     kvr_attend_begin_cuda(s, &shape, state);
 *     for each piece, in a fixed order:
 *         decode into scratch, then
 *         kvr_attend_piece_cuda(s, &shape, q, &piece, state);
 *     kvr_attend_merge_cuda(s, &shape, state, other);       a second state, if there is one
 *     kvr_attend_finish_cuda(s, &shape, state, out);
 *
 * Kernels on tensor cores begin and finish by themselves (struct kvr_attend_io).
 *
 * Every (query, head) keeps (running max, running sum, accumulated output), as in attend_cpu.c.
 * Pieces with rotated keys are met with rotated queries (kvr_fwht_cuda of a copy of q); pieces
 * with rotated values go to a state of their own, whose `acc` is rotated back by kvr_fwht_cuda
 * before it is merged. Sums run in another order than on the CPU: results agree to roundings, and
 * are the same bits every time. Everything is F32; device memory throughout. A plain kernel
 * without tensor cores: correct everywhere, fast nowhere. */
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

/* What a call of attention is given and leaves, beside keys and values: where all of it is one launch
 * of attend_mma_rows or attend_list, nothing else of them is read or written. */
struct kvr_attend_io {
    const float *q;             /* [T,H,D], not scaled; NULL: */
    const kvr_bf16 *q16;        /* as BF16, at a multiple of 16 bytes: what q comes to, rounded */
    struct kvr_query_norm norm; /* of q16, with out16 */
    /* What the call has when it is neither at its begin nor its end. */
    struct kvr_attend_state state;
    bool begins;     /* nothing has been seen: the state is not read */
    float *out;      /* [T,H,D]: what all comes to, normalised; NULL: */
    kvr_bf16 *out16; /* that, rounded; both NULL: it is left in the state */
};

/* Has a call of its own end, or one that goes on from its state? */
static inline bool kvr_attend_ends(const struct kvr_attend_io *io)
{
    return io->out || io->out16;
}

/* Of a call of several launches what one has that is not the last. */
static inline struct kvr_attend_io kvr_attend_goes_on(const struct kvr_attend_io *io)
{
    struct kvr_attend_io some = *io;

    some.out = NULL;
    some.out16 = NULL;
    return some;
}

/* Keys and values, and what the score of a query and a key is beside their product: + log_m, then
 * - row_bias of the query, then - what `by_scales` makes of the key's squared scales. */
struct kvr_attend_piece {
    const float *k, *v; /* [n,H,D] */
    int64_t n;
    float log_m;                  /* log of the multiplicity that each token stands for */
    const float *row_bias;        /* [T,H]; NULL: 0 */
    enum kvr_by_scales by_scales; /* not NO: */
    const float *s2;              /* [n,H,D], in the space of k and q */
};

void kvr_attend_begin_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                           const struct kvr_attend_state *state);
/* q [T,H,D], not scaled. */
void kvr_attend_piece_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                           const float *q, const struct kvr_attend_piece *piece,
                           const struct kvr_attend_state *state);
/* out [n,H][2]: of each key of the piece the sum and the maximum over all queries of its weight
 * e^(score - mx) / sum, by a state that has seen every key. piece->v is not read. */
void kvr_attend_columns_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                             const float *q, const struct kvr_attend_piece *piece,
                             const struct kvr_attend_state *state, float *out);
/* `into` has seen what `from` has seen as well; an empty `from` changes nothing. */
void kvr_attend_merge_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                           const struct kvr_attend_state *into,
                           const struct kvr_attend_state *from);
/* The same, as the end of a call: `into` is io's state, and is left as it was. */
void kvr_attend_merge_end_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                               const struct kvr_attend_io *io, const struct kvr_attend_state *from);
/* Floats that `parts` are, of any number of keys and up to so many queries; 0: no head so wide is cut. */
size_t kvr_attend_parts_floats(const struct kvr_attend_shape *shape);
/* How blocks over n_tiles are cut where there is so much room for what their parts come to. */
struct kvr_attend_split kvr_attend_split_for(const struct kvr_attend_shape *shape, int64_t n_tiles,
                                             size_t n_floats);
/* What parts have come to is added up in order, to the state or to what the call ends with; nothing
 * where nothing is cut. parts: of all slots, 128 rows each, mx; sum; acc [slots,128,D]. */
void kvr_attend_parts_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                           const struct kvr_attend_split *split, const float *parts,
                           const struct kvr_attend_io *io);
/* out [T,H,D] = acc / sum; NaN where nothing was seen. */
void kvr_attend_finish_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                            const struct kvr_attend_state *state, float *out);
/* The norm of q16 as a pass of its own, into out16, which has as many values and is written last: the call
 * that is left to do. A block may write its output where its queries are. */
struct kvr_attend_io kvr_attend_norm_cuda(struct kvr_stream *s,
                                          const struct kvr_attend_shape *shape,
                                          const struct kvr_attend_io *io);
/* Begin and end of a call as passes of their own, as far as no launch had them. */
void kvr_attend_rest_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                          const struct kvr_attend_io *io);

#ifdef __cplusplus
}
#endif
#endif
