/* trace.h - kvtrace: recorded queries, keys and values of a model's attention, in a folder that may be larger
 * than memory. docs/kvtrace.md defines the format.
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
 * index.json describes the trace. Every attention call (one pass of one layer) has its own safetensors file,
 * named by chunk, pass and layer. Invalid files are refused with file, tensor, value and limit. */
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

/* Common to all calls. A language model's frame is one token. */
struct kvr_trace_layout {
    int n_layers, n_heads, n_kv_heads, head_dim; /* L, H, Hkv, D; query head h reads key head
                                                    h / (H / Hkv) */
    int tokens_per_frame, frames_per_chunk;
    bool causal; /* causal mask within the chunk */
};

/* RoPE of the recorded keys and queries, as information; attention does not use it.
 */
struct kvr_trace_rope {
    bool rotary;     /* false: no rotary embedding; the other fields are unused */
    bool halves;     /* pairs are (i, i + n/2) of an axis; else adjacent, (2i, 2i + 1) */
    int channels[3]; /* of a head, by axis t, h, w; together at most D */
    double base;
};

/* One forward of one chunk. */
struct kvr_trace_pass {
    int chunk, index; /* index: 0 .. of the chunk's passes */
    int frame0, n_frames;
    bool clean;                     /* the chunk's last pass, whose keys and values stay */
    bool queries;                   /* false: a clean pass recorded without queries */
    char (*sha256)[KVR_SHA256_HEX]; /* [L], of the files */
};

struct kvr_trace_info {
    const char *model, *licence; /* licence: SPDX name or text, never empty */
    const char *source, *text;   /* origin of the model; the prompt; "": unknown */
    uint64_t seed;
    int window_frames,
        sink_frames; /* of the recorded attention; window 0: all frames are visible; sink 0: no
                      * sink */
    struct kvr_trace_layout layout;
    struct kvr_trace_rope rope;
    int n_passes, n_chunks, n_frames;
    int most_passes;             /* maximum number of passes of a chunk */
    struct kvr_trace_pass *pass; /* [n_passes], in order */
};

struct kvr_trace;

/* Reads index.json only. KVR_ENOTFOUND: no such folder, or no index in it (an unfinished trace);
 * KVR_EFORMAT: an inconsistent index. */
enum kvr_status kvr_trace_open(struct kvr_trace **out, const char *dir);
void kvr_trace_close(struct kvr_trace **t); /* accepts NULL */

const struct kvr_trace_info *kvr_trace_info(const struct kvr_trace *t);
const char *kvr_trace_dir(const struct kvr_trace *t);
/* Hash of index.json, which has the hashes of all other files: it identifies the trace. */
const char *kvr_trace_sha256(const struct kvr_trace *t);

/* Reads a document in the format of index.json; messages use `where`. Strings belong to the
 * document; kvr_trace_info_free frees `pass`. On failure there is nothing to free. */
enum kvr_status kvr_trace_info_read(struct kvr_trace_info *out, const json_t *doc,
                                    const char *where);
void kvr_trace_info_free(struct kvr_trace_info *i);
/* Checks the layout only, with the same bounds. */
enum kvr_status kvr_trace_layout_check(const struct kvr_trace_layout *l, const char *where);

/* One call, in a mapped file. T = n_frames * tokens_per_frame. */
struct kvr_trace_call {
    struct kvr_st *file;
    int64_t n_tok;              /* T */
    struct kvr_tensor k, v;     /* [T,Hkv,D] F32, F16 or BF16, as attention reads them */
    struct kvr_tensor q;        /* [T,H,D]; data NULL in a pass without queries */
    struct kvr_tensor out;      /* [T,H,D]: attention's output; data NULL: not recorded */
    struct kvr_tensor position; /* I32 [T,3]: t, h, w */
};

/* KVR_EFORMAT: the file's hash differs from the index, or tensors are missing. Values are not
 * checked. */
enum kvr_status kvr_trace_call_open(struct kvr_trace_call *c, const struct kvr_trace *t, int pass,
                                    int layer);
void kvr_trace_call_close(struct kvr_trace_call *c); /* accepts {0} */
/* Finds the tensors in an open file; on success `c` owns the file. */
enum kvr_status kvr_trace_call_read(struct kvr_trace_call *c, struct kvr_st *file,
                                    const struct kvr_trace_info *info, int pass);

/* "c00012-p04-l029.safetensors" */
void kvr_trace_file_name(const struct kvr_trace_pass *p, int layer, char out[KVR_TRACE_FILE_NAME]);

#ifdef __cplusplus
}
#endif
#endif
