/* attend_bytes.h - attention by products of bytes on sm_90: one launch over keys and values that
 * byte_rows.h has coded.
 *
 *     if (kvr_attend_bytes_here(s))
 *         kvr_attend_bytes_cuda(s, &shape, &io, spans, n_spans, &rows, parts, n_floats);
 *
 * The formulas are attend_dot.h's with codes up to 127 and weights up to 255, in tiles of 128 tokens of
 * one span; the weights that add up are those that are multiplied. Sums of products are exact; the same
 * call gives the same bits every time. A NaN or an infinity among a query, or among keys, makes all of
 * the queries NaN that see it, among values its channel. */
#ifndef KVR_CACHE_ATTEND_BYTES_H
#define KVR_CACHE_ATTEND_BYTES_H

#include <stdbool.h>

#include "harness/cache/attend_cuda.h"
#include "harness/cache/byte_rows.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_ATTEND_BYTES_SPANS = 64 }; /* of a launch */

/* Tokens from a multiple of KVR_BYTE_TILE on, the spans one behind the other. */
struct kvr_byte_span {
    int64_t n;
    float log_m; /* log of the multiplicity that each stands for */
};

/* Whether the stream's device is of compute capability 9.0 and the program has its code. */
bool kvr_attend_bytes_here(const struct kvr_stream *s);

/* Whether the driver makes maps of the rows, of so many heads. */
bool kvr_attend_bytes_maps(const struct kvr_byte_rows *rows, int n_heads);

/* io's queries are floats, in the space of the keys and of mu; it goes on, so that what it comes to is in its
 * state. At most KVR_ATTEND_BYTES_SPANS spans, none of them empty. parts as of kvr_attend_list_cuda.  */
void kvr_attend_bytes_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                           const struct kvr_attend_io *io, const struct kvr_byte_span *span,
                           int n_spans, const struct kvr_byte_rows *rows, float *parts,
                           size_t n_floats);

#ifdef __cplusplus
}
#endif
#endif
