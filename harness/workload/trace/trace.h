/* trace.h - reads a kvtrace, a folder with recorded queries, keys and values of a model's
 * attention, which may be larger than memory. The format is defined in docs/kvtrace.md.
 *
 *     struct kvr_trace *t;
 *     KVR_TRY(kvr_trace_open(&t, "red-disc.kvtrace"));
 *     for (int p = 0; p < kvr_trace_info(t)->n_passes; p++)
 *         for (int l = 0; l < kvr_trace_info(t)->layout.n_layers; l++) {
 *             struct kvr_trace_call c;
 *             KVR_TRY(kvr_trace_call_open(&c, t, p, l));       c.q, c.k, c.v: mapped, one layer's
 *             kvr_trace_call_close(&c);
 *         }
 *     kvr_trace_close(&t);
 *
 * The file index.json describes the trace. Every attention call (one pass of one layer) has its own
 * safetensors file, named by chunk, pass and layer. For an invalid file, the error message names
 * the file, tensor, value and limit. */
#ifndef KVR_TRACE_TRACE_H
#define KVR_TRACE_TRACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "harness/core/safetensors.h"
#include "harness/core/sha256.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KVR_TRACE_VERSION = 1,
    KVR_TRACE_MAX_LAYERS = 1024,
    KVR_TRACE_MAX_HEADS = 1024,
    KVR_TRACE_MAX_HEAD_DIM = 256,   /* attention's limit */
    KVR_TRACE_MAX_TOKENS = 1 << 24, /* of all chunks */
    KVR_TRACE_MAX_FRAMES = 100000,
    KVR_TRACE_MAX_PASSES = 65, /* of one chunk */
    KVR_TRACE_FILE_NAME = 40
};

/* Dimensions that are common to all attention calls. A frame of a language model is one token. */
struct kvr_trace_layout {
    int n_layers, n_heads, n_kv_heads, head_dim; /* numbers of layers L, query heads H and KV heads
                                                  * Hkv, and head dimension D; query head h
                                                  * attends to KV head h / (H / Hkv) */
    int tokens_per_frame, frames_per_chunk;
    bool causal; /* whether attention within a chunk is causal */
};

/* Describes the RoPE that was applied to the recorded keys and queries; a replay does not use
 * it. */
struct kvr_trace_rope {
    bool rotary;     /* whether RoPE was applied; if false, the other fields of this struct are
                      * unused */
    bool halves;     /* whether RoPE rotates the channel pairs (i, i + n/2) of an axis of n
                      * channels; false: the pairs (2i, 2i + 1) */
    int channels[3]; /* for each axis (time, height, width), the number of channels per head that
                      * RoPE rotates by the token's position on this axis; the sum is at most D */
    double base;
};

/* A pass is one forward pass over one chunk. */
struct kvr_trace_pass {
    int chunk, index; /* chunk: index of the chunk in the video; index: index of the pass among the
                       * passes over this chunk */
    int frame0, n_frames;
    bool clean;                     /* whether this is the cache-update pass, the chunk's last pass,
                                     * whose keys and values later chunks attend to */
    bool queries;                   /* whether queries were recorded; only a cache-update pass can
                                     * have none */
    char (*sha256)[KVR_SHA256_HEX]; /* hashes [L] of the pass's files, one file per layer */
};

struct kvr_trace_info {
    const char *model, *licence; /* licence: SPDX name or text of the model's licence, never
                                  * empty */
    const char *source, *text;   /* source: where the model comes from, such as a URL; text: prompt
                                  * of the recorded run; "" if unknown */
    uint64_t seed;
    int window_frames,
        sink_frames; /* numbers of frames in the attention window and in the sink of the recorded
                      * run; window_frames 0: all frames are visible */
    struct kvr_trace_layout layout;
    struct kvr_trace_rope rope;
    int n_passes, n_chunks, n_frames;
    int most_passes;             /* largest number of recorded passes of any chunk */
    struct kvr_trace_pass *pass; /* [n_passes], in order */
};

struct kvr_trace;

/* Opens a trace and reads its index.json only. Returns KVR_ENOTFOUND if the folder does not exist
 * or has no index.json, as in an unfinished trace. Returns KVR_EFORMAT if index.json is not valid
 * JSON, lacks a required key, or has a value that is not allowed. */
enum kvr_status kvr_trace_open(struct kvr_trace **out, const char *dir);
void kvr_trace_close(struct kvr_trace **t); /* accepts NULL */

const struct kvr_trace_info *kvr_trace_info(const struct kvr_trace *t);
const char *kvr_trace_dir(const struct kvr_trace *t);
/* Returns the hash of index.json. The hash identifies the whole trace, because index.json has the
 * hashes of all other files. */
const char *kvr_trace_sha256(const struct kvr_trace *t);

/* Reads a JSON document in the format of index.json. `where` names the document in error messages.
 * The strings in *out are owned by `doc`, so *out is valid only while `doc` is. Free *out by
 * kvr_trace_info_free(), except after an error. */
enum kvr_status kvr_trace_info_read(struct kvr_trace_info *out, const json_t *doc,
                                    const char *where);
void kvr_trace_info_free(struct kvr_trace_info *i);
/* Checks that the dimensions of a trace are within the limits of the format, such as
 * KVR_TRACE_MAX_LAYERS. `where` begins the error message. */
enum kvr_status kvr_trace_layout_check(const struct kvr_trace_layout *l, const char *where);

/* The tensors of one attention call in a mapped file, with T = n_frames * tokens_per_frame
 * tokens. */
struct kvr_trace_call {
    struct kvr_st *file;
    int64_t n_tok;              /* T */
    struct kvr_tensor k, v;     /* keys after RoPE, and values, [T,Hkv,D] F32, F16 or BF16 */
    struct kvr_tensor q;        /* queries after RoPE [T,H,D]; data is NULL if the pass was recorded
                                 * without queries */
    struct kvr_tensor out;      /* attention output [T,H,D]; data is NULL if the output was not
                                 * recorded */
    struct kvr_tensor position; /* I32 [T,3]: position of each token in time, height and width */
};

/* Opens the file of one attention call without checking the tensors' values. Returns KVR_EFORMAT if
 * the file's hash differs from that in index.json, or if tensors are missing. */
enum kvr_status kvr_trace_call_open(struct kvr_trace_call *c, const struct kvr_trace *t, int pass,
                                    int layer);
void kvr_trace_call_close(struct kvr_trace_call *c); /* accepts {0} */
/* Finds the tensors of an attention call in the open file `file`. If the function succeeds, `c`
 * owns `file`. */
enum kvr_status kvr_trace_call_read(struct kvr_trace_call *c, struct kvr_st *file,
                                    const struct kvr_trace_info *info, int pass);

/* "c00012-p04-l029.safetensors" */
void kvr_trace_file_name(const struct kvr_trace_pass *p, int layer, char out[KVR_TRACE_FILE_NAME]);

#ifdef __cplusplus
}
#endif
#endif
