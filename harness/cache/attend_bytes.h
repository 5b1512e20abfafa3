/* attend_bytes.h - int8 attention on sm_90: one launch over keys and values quantized by
 * byte_rows.h.
 *
 *     if (kvr_attend_bytes_supported(s))
 *         kvr_attend_bytes_cuda(s, &shape, &io, spans, n_spans, &rows, parts, n_floats);
 *
 * The formulas are those of attend_dot.h. Codes of queries, keys and values are at most 127, codes
 * of softmax weights at most 255, and tiles have 128 tokens. All tokens of a tile belong to one
 * span. The softmax denominator sums the quantized weights. Products are accumulated exactly in
 * int32, and results are deterministic. A NaN or infinity in a query makes the query's output NaN.
 * A NaN or infinity in a key makes the outputs of all queries that see the key NaN. A NaN or
 * infinity in channel c of a value makes channel c NaN in the outputs of all queries that see the
 * value. */
#ifndef KVR_CACHE_ATTEND_BYTES_H
#define KVR_CACHE_ATTEND_BYTES_H

#include <stdbool.h>

#include "harness/cache/attend_cuda.h"
#include "harness/cache/byte_rows.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_ATTEND_BYTES_SPANS = 64 }; /* spans per launch */

/* A run of n tokens of struct kvr_byte_rows that begins at the first token of a tile. Spans are
 * consecutive. */
struct kvr_byte_span {
    int64_t n;
    float log_m; /* log of the number of original tokens that each token of the span replaces, added
                  * to every score */
};

/* Whether the device has compute capability 9.0 and the program contains sm_90a code. */
bool kvr_attend_bytes_supported(const struct kvr_stream *s);

/* Whether the driver can create TMA tensor maps of `rows` for this number of heads. */
bool kvr_attend_bytes_maps(const struct kvr_byte_rows *rows, int n_heads);

/* Attends to at most KVR_ATTEND_BYTES_SPANS non-empty spans. The queries io->q are F32. If a codec
 * stage has rotated the keys (`hadamard` or `rotate`), rows->mu holds the mean rotated keys, and
 * the caller must have rotated the queries too. The result is the updated softmax state io->state.
 * `parts` [n_floats] is device memory for the partial results of split-KV (see
 * kvr_attend_list_cuda). */
void kvr_attend_bytes_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                           const struct kvr_attend_io *io, const struct kvr_byte_span *span,
                           int n_spans, const struct kvr_byte_rows *rows, float *parts,
                           size_t n_floats);

#ifdef __cplusplus
}
#endif
#endif
