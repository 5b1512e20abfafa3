/* codec.h - encodes blocks of keys or values and decodes them.
 *
 * A codec is a short pipeline of stages, written as text in a method's row:
 *
 *     "sym(bits=4,group=16)"                 one grid
 *     "hadamard | sym(bits=2)"               a transform, then a grid
 *     "outliers(sigma=6) | asym(bits=4)"     outliers stored exactly, removed before the grid is fitted
 *     "sym(bits=2) + sym(bits=4)"            a grid, and a second one for its residual
 *     "raw"                                  BF16; "raw(type=f32)" for parity checks
 *
 *     KVR_TRY(kvr_codec_open(&c, "sym(bits=4)", KVR_K, false));
 *     KVR_TRY(kvr_codec_encode(c, dev, x, shape, &packed));    x [T,H,D] float
 *     KVR_TRY(kvr_codec_decode(&packed, t0, n, h0, nh, out));  out [n,nh,D] float
 *     kvr_packed_free(&packed);
 *     kvr_codec_close(&c);
 *
 * A stage describes itself: its layout gives the stored format, its noise model the error, and a
 * transform also maps queries. Attention, corrections, predictions and kernels read these
 * descriptions; only the stage reads its own options.
 *
 * On a CUDA device x, work, out and the packed blocks are device memory. Packed bytes equal the
 * CPU's, and so do decoded values except for NaN payloads.
 *
 * A codec is read-only after open and may be shared by threads. */
#ifndef KVR_METHODS_CODEC_H
#define KVR_METHODS_CODEC_H

#include "harness/core/dtype.h"
#include "harness/device/mem.h"
#include "harness/core/opts.h"
#include "methods/joint.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_side { KVR_K, KVR_V };

/* Arithmetic of the grid fit: F32, or every elementary operation rounded to BF16 as in the study's
 * quantizers. */
enum kvr_compute { KVR_COMPUTE_F32, KVR_COMPUTE_BF16 };

struct kvr_block_shape {
    int64_t n_tok; /* T */
    int n_heads;   /* H */
    int head_dim;  /* D */
};

/* Position of a block's tokens; zero fields are unknown. */
struct kvr_place {
    int64_t frame_tokens; /* tokens per frame; the block starts at a frame boundary */
    int64_t tok0;         /* first token's index in the rollout */
    bool whole;           /* tokens are consecutive: retention has dropped none */
    /* [n_tok] token indices, ascending, if they are not consecutive; else NULL. Device memory,
     * borrowed from the block's owner. */
    const int32_t *list;
    int layer, n_layers; /* layer of the keys or values */
    int head0;           /* first head's index in the layer */
    int frames_per_chunk;
};

enum { KVR_MAX_STAGES = 4 };

enum kvr_stage_kind {
    KVR_STAGE_TRANSFORM, /* linear map per head, stores nothing */
    KVR_STAGE_SHIFT,     /* subtracts a stored mean, or inverts a positional map */
    KVR_STAGE_EXACT,     /* removes single elements and stores them */
    KVR_STAGE_GRID,      /* quantizes; the next grid quantizes the residual */
};

/* Data stored by one stage for one block. */
struct kvr_stage_data {
    struct kvr_buf codes;    /* KVR_MEM_KV */
    struct kvr_buf meta;     /* KVR_MEM_META: scales, zero points, indices */
    int64_t n_entries;       /* number of entries, for stages whose size depends on the data; else
                              * 0 */
    struct kvr_joint *joint; /* NULL unless keys and values were coded jointly */
};

struct kvr_stage;

struct kvr_stage_job {
    const struct kvr_stage *stage;
    const void *opts;    /* the stage's option struct */
    const void *table;   /* written by the stage's `table`; NULL: the stage has no table */
    struct kvr_dev *dev; /* device of the data; NULL: host memory */
    enum kvr_side side;
    bool study; /* reproduce the 33-method study, including its bugs */
    bool eager; /* one launch per operation of the formula (eager.h) */
    enum kvr_compute compute;
    struct kvr_block_shape shape;
    struct kvr_place place;
};

struct kvr_stage_bytes {
    size_t codes, meta;
};

enum kvr_decode_mode {
    KVR_DECODE_SET, /* out = decoded */
    KVR_DECODE_ADD, /* out += decoded */
    KVR_DECODE_SUB, /* out -= decoded: the residual of a grid */
    /* out = scale of each element; only for grids with KVR_NOISE_SCALES noise */
    KVR_DECODE_SCALES,
};

/* Elements of a block that share a scale. With C = H*D channels, channel c = h*D + d: */
enum kvr_group_axis {
    KVR_AXIS_TOKENS,   /* scale[t / group * C + c]: `group` tokens of a channel */
    KVR_AXIS_CHANNELS, /* scale[(t * C + c) / group]: `group` channels of a head of a token */
    KVR_AXIS_TOKEN,    /* scale[t]: a whole token, all heads; group is unused */
};
extern const char *const kvr_axis_names[]; /* "tokens", "channels", "token" */

/* Storage format of a stage. Code that does not know a format calls the stage's decode. */
enum kvr_form {
    KVR_FORM_OWN,     /* private to the stage */
    KVR_FORM_RAW,     /* codes = elements of `type`, [T,H,D] */
    KVR_FORM_INTEGER, /* x^ = (q - z) s + m, with z and m given by `zero` */
    KVR_FORM_LEVELS,  /* x^ = level[q] s: a codebook */
    KVR_FORM_ENTRIES, /* EXACT: codes = FP16 values, meta = int32 flat indices, ascending */
    KVR_FORM_WALSH,   /* TRANSFORM: y = H x / sqrt(D), the Walsh-Hadamard matrix H */
};

enum kvr_zero {
    KVR_ZERO_MIDDLE,  /* z = 2^(b-1), m = 0 */
    KVR_ZERO_POINT,   /* z = second FP16 number of a group, m = 0 */
    KVR_ZERO_MINIMUM, /* z = 0, m = second FP16 number of a group */
};

/* Size and format of a stage's data for a block, complete for other modules. INTEGER and LEVELS:
 * codes q are planes (pack.h) of [n_tok, C]; meta has scales s [n_groups] in FP16, then the second
 * numbers [n_groups] in FP16 if `zero` uses them.
 *
 * Possible extensions: a scale type next to n_groups; an output width for low-rank transforms next
 * to WALSH. Merged keys have a multiplicity in their segment (harness/cache/segment.h), and
 * per-head layouts are segments over head ranges. */
struct kvr_layout {
    struct kvr_stage_bytes bytes; /* exact size of a block, entries excluded */
    /* Stages of data-dependent size (outliers, entropy coding): bytes per entry. `encode` allocates
     * for n_entries, at most most_entries. */
    struct kvr_stage_bytes entry;
    int64_t most_entries;
    int unit_tokens; /* smallest number of tokens coded without padding; 0 means 1 */
    /* Groups start at multiples of this many tokens of the rollout. The rest of a chunk is coded
     * again together with the next chunk. 0: groups start at the block. */
    int origin_tokens;
    enum kvr_form form;
    enum kvr_dtype type; /* RAW */
    int bits;            /* INTEGER, LEVELS: bits per code */
    int64_t n_tok;       /* stored tokens, padding included */
    enum kvr_group_axis axis;
    int group;
    int64_t n_groups;
    enum kvr_zero zero;
    const float *level; /* LEVELS: [2^bits] */
    /* INTEGER, coded by the rules of methods/codecs/grid: one kernel may code two such stages
     * (methods/codecs/grid/chain.h). */
    bool chains;
};

/* Error model of a codec. A correction is refused if it needs more than the model states. */
enum kvr_noise_kind {
    KVR_NOISE_UNKNOWN, /* unknown: keys cannot be corrected */
    KVR_NOISE_NONE,    /* lossless */
    KVR_NOISE_UNIFORM, /* uniform within half a scale of the group */
    /* Like UNIFORM, but only the stage can read its scales (kvr_packed_scales). Stored scales are
     * rounded, so elements at the ends of a group may err by more. */
    KVR_NOISE_SCALES,
    KVR_NOISE_RELATIVE, /* UNIFORM with a scale of `relative` times the decoded value */
    KVR_NOISE_MEASURED, /* no model: bias and variance have to be measured */
};

/* Borrowed from a coded block. A scale may be negative (only its square is used). It is not finite
 * if the block contained a NaN or an infinity. */
struct kvr_coding_noise {
    enum kvr_noise_kind kind;
    enum kvr_group_axis axis; /* UNIFORM, SCALES */
    int group;
    const kvr_f16 *scale; /* UNIFORM */
    bool dead_zone;       /* UNIFORM, SCALES with levels -1, 0, 1: the error opposes the element */
    float relative;       /* RELATIVE */
    bool rotated;         /* in the space of the codec's transform: rotate the query */
    bool rope_rotated;    /* errors rotate with the key in channel pairs of one scale */
    /* Elements stored exactly (error 0): ascending flat indices (t*H + h)*D + d, in rotated space
     * if the transform precedes the EXACT stage. */
    const int32_t *exact;
    int64_t n_exact;
};

/* Values in F32 or BF16. */
struct kvr_values {
    const void *p;
    bool bf16; /* else F32 */
};

/* Replacements that an EXACT stage hands to later stages for its outliers: values at n ascending
 * flat indices. */
struct kvr_instead {
    const int32_t *at;
    const float *value;
    int64_t n;
};

/* A TRANSFORM is y = R x, with R of D x D, possibly different for each head. */
enum kvr_transform_way {
    KVR_TO_SPACE,       /* R x: keys and values, before coding */
    KVR_QUERY_TO_SPACE, /* R^-T q: (R^-T q) . (R k) = q . k; equals R q for orthogonal R */
    KVR_FROM_SPACE,     /* R^-1 y: decoded values, or attention output */
};

/* What an EXACT stage decides while the next stage codes n BF16 values in one pass
 * (methods/codecs/grid/once.h). An element above the bound takes the value of the channel's nearest
 * earlier element within the bound; without one, that of the first element within it. */
struct kvr_exact_once {
    /* Magnitude bits of BF16 that the bound will probably exceed. False: this block needs `find`. */
    bool (*likely)(const struct kvr_stage_job *job, const struct kvr_values *x, int64_t n,
                   uint16_t *least);
    /* The bound from the sums of the values and of their squares, each off by at most 2^-18 of the
     * sum of magnitudes or of squares. NaN: this block needs `find`. */
    float (*bound)(const struct kvr_stage_job *job, double sum, double square, int64_t n);
    /* Allocates n_exact entries; *fits false: there are too many. */
    enum kvr_status (*alloc)(const struct kvr_stage_job *job, int64_t n, int64_t n_exact,
                             struct kvr_stage_data *out, bool *fits);
    /* The stored values of n elements. */
    void (*hold)(const struct kvr_stage_job *job, kvr_f16 *held, const float *x, int64_t n);
};

/* A stage's functions for one backend; all pointers are memory of job->dev. On CUDA `encode` may
 * synchronise and allocate, which EXACT stages need to count the outliers; the other functions do
 * neither. */
struct kvr_stage_ops {
    /* TRANSFORM (its only function): rows of heads [h0, h0 + nh), x [n,nh,D], in place. */
    void (*transform)(const struct kvr_stage_job *job, enum kvr_transform_way way, float *x,
                      int64_t n, int h0, int nh);
    /* EXACT: stores outliers into `out` and removes them from x. SHIFT: stores into `out` and
     * subtracts from x. GRID: quantizes x into `out`; x is unchanged. The buffers of `out` are
     * allocated from the layout's sizes, except entries. */
    enum kvr_status (*encode)(const struct kvr_stage_job *job, float *x,
                              struct kvr_stage_data *out);
    /* SHIFT: inverse on out [n,nh,D]. EXACT: overwrites the stored elements in out. GRID: sets,
     * adds or subtracts the decoded values according to `mode`. Called by several threads on the
     * CPU. */
    void (*decode)(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out);
    /* EXACT, CPU only; NULL: use `encode`. Stores into `out` like `encode` but leaves x unchanged
     * and returns the replacement values: `at` points into `out`, `value` to the end of `scratch`
     * (T*H*D floats). */
    enum kvr_status (*find)(const struct kvr_stage_job *job, const struct kvr_values *x,
                            float *scratch, struct kvr_stage_data *out,
                            struct kvr_instead *instead);
    /* EXACT, CPU only; NULL: use `find`. */
    const struct kvr_exact_once *once;
};

/* A stage that codes keys and values jointly (joint.h). It is the only stage of both pipelines and
 * uses host memory. */
struct kvr_joint_ops {
    /* Prepares coding and decoding outside of timed code; idempotent. */
    enum kvr_status (*start)(const struct kvr_stage_job *job);
    /* k, v [T,H,D] are unchanged. Stores into codes and meta of both outputs, which are empty. Both
     * outputs share one joint with two owners, also on failure. */
    enum kvr_status (*encode)(const struct kvr_stage_job *job, const float *k, const float *v,
                              struct kvr_stage_data *out_k, struct kvr_stage_data *out_v);
};

/* One kind of stage. Its functions receive jobs whose opts have passed `check`. */
struct kvr_stage {
    const char *name;  /* as written in a pipeline */
    const char *title; /* one line for `kvreel show` */
    enum kvr_stage_kind kind;
    const struct kvr_opt *options;
    size_t opts_size;
    const void *variant; /* distinguishes stages with shared functions; private to the stage */
    bool deterministic;  /* equal inputs give equal bytes */
    /* Encoding the decoded values again gives bit-identical values while the scales are normal FP16
     * numbers. */
    bool idempotent;
    /* Undoes the keys' rotary embedding; needs a video model (kernels/rope.h). */
    bool undoes_rope;

    /* NULL: accepts everything. Refuses impossible settings for this n_heads and head_dim, with a
     * reason. */
    enum kvr_status (*check)(const struct kvr_stage_job *job);
    /* Optional for a TRANSFORM. A stage whose form is not OWN writes every byte of its buffers. */
    void (*layout)(const struct kvr_stage_job *job, struct kvr_layout *out);
    /* GRID: sets the kind of error and the fields of that kind; NULL means unknown. EXACT: sets
     * `exact` and `n_exact`. SHIFT: sets nothing, unless it restores x incompletely (kind MEASURED)
     * or rotates what it restores (`rope_rotated`). Other fields are unchanged. `in` may be empty. */
    void (*noise)(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                  struct kvr_coding_noise *out);

    struct kvr_stage_ops cpu;
    /* NULL: on CUDA values are copied to the host, coded there by the CPU functions and copied
     * back. Correct but slow: every call synchronises. */
    const struct kvr_stage_ops *cuda;
    const struct kvr_joint_ops *joint; /* NULL: keys and values are coded separately */

    /* Writes table_size bytes that depend on the options alone, such as a random matrix; NULL: no
     * table. Each codec allocates its own table, and writes it at open and whenever an option is
     * set. */
    void (*table)(const void *opts, void *table);
    size_t table_size;
};

struct kvr_codec_stage {
    const struct kvr_stage *stage;
    void *opts, *table; /* owned by the codec */
};

struct kvr_codec {
    char text[256]; /* canonical pipeline with every option */
    enum kvr_side side;
    bool study;
    bool eager; /* kvr_eager_check() */
    enum kvr_compute compute;
    int n_stages;
    struct kvr_codec_stage stage[KVR_MAX_STAGES];
};

/* One coded block. Owns its stage buffers; borrows the codec. */
struct kvr_packed {
    const struct kvr_codec *codec;
    struct kvr_dev *dev; /* device of the buffers; NULL: sizes only, no data */
    struct kvr_block_shape shape;
    struct kvr_place place;
    struct kvr_stage_data stage[KVR_MAX_STAGES];
};

/* Parses a pipeline. KVR_EINVAL, with the nearest match: an unknown stage or option. */
enum kvr_status kvr_codec_open(struct kvr_codec **out, const char *text, enum kvr_side side,
                               bool study);
void kvr_codec_close(struct kvr_codec **c);

/* Sets an option ("bits", "group", ...) on every stage that has it. *n_set: number of these
 * stages. */
enum kvr_status kvr_codec_set(struct kvr_codec *c, const char *name, const char *value, int *n_set);

enum kvr_status kvr_codec_check(const struct kvr_codec *c, int n_heads, int head_dim);
int kvr_codec_unit_tokens(const struct kvr_codec *c);
int kvr_codec_origin_tokens(const struct kvr_codec *c); /* maximum over the stages */
bool kvr_codec_is_raw(const struct kvr_codec *c);       /* stores values unchanged */
bool kvr_codec_is_bf16(const struct kvr_codec *c);      /* raw, stored as rows of BF16 */
bool kvr_codec_idempotent(const struct kvr_codec *c);
bool kvr_codec_joint(const struct kvr_codec *c); /* one stage codes keys and values jointly */
/* Checks both pipelines of one tier: a joint stage must be the only stage of both. KVR_EINVAL or
 * KVR_EUNSUPPORTED if not. */
enum kvr_status kvr_codec_check_joint(const struct kvr_codec *k, const struct kvr_codec *v);

/* Layout of stage i for a block of this shape. */
void kvr_codec_layout(const struct kvr_codec *c, int i, const struct kvr_block_shape *shape,
                      struct kvr_layout *out);

/* Whether the codec begins with a TRANSFORM; attention then runs in the transformed space. */
bool kvr_codec_rotated(const struct kvr_codec *c);
/* Whether both codecs begin with the same transform, or neither has one. */
bool kvr_codec_same_space(const struct kvr_codec *a, const struct kvr_codec *b);
/* Applies the codec's leading transform in F32, in place: x [n,nh,D], rows of heads [h0, h0 + nh),
 * memory of `dev` (NULL: the CPU's). Thread-safe on the CPU; on CUDA only the device's thread may
 * call it. Does nothing for a codec without a transform. */
void kvr_codec_transform(const struct kvr_codec *c, struct kvr_dev *dev, enum kvr_transform_way way,
                         float *x, int64_t n, int h0, int nh, int head_dim);

/* Size of a block from format arithmetic, without data-dependent entries. */
size_t kvr_codec_bytes(const struct kvr_codec *c, const struct kvr_block_shape *shape);

/* Totals over coded blocks of data-dependent size; a block that is coded again counts again. */
struct kvr_varying {
    int64_t elements;
    size_t bytes;
    double most_bits; /* bits per element of the largest block */
};

/* Whether a block's size depends on its values. */
bool kvr_codec_varies(const struct kvr_codec *c, const struct kvr_block_shape *shape);

/* Floats of the scratch `work` that encoding needs: T*H*D, or more with `eager`. */
int64_t kvr_codec_work_floats(const struct kvr_codec *c, const struct kvr_block_shape *shape);

/* Encodes x [T,H,D], which is unchanged. `work`: scratch of kvr_codec_work_floats(), owned by the
 * caller. On failure `out` is empty. Storage comes from `dev` with tags KV and META. On CUDA only
 * `outliers`, whose allocation depends on the outlier count, and stages without CUDA functions
 * synchronise. */
enum kvr_status kvr_codec_encode(const struct kvr_codec *c, struct kvr_dev *dev, const float *x,
                                 const struct kvr_block_shape *shape, float *work,
                                 struct kvr_packed *out);

/* kvr_codec_encode for tokens whose positions are known. */
enum kvr_status kvr_codec_encode_at(const struct kvr_codec *c, struct kvr_dev *dev, const float *x,
                                    const struct kvr_block_shape *shape,
                                    const struct kvr_place *place, float *work,
                                    struct kvr_packed *out);

/* kvr_codec_encode_at for F32 or BF16 values: BF16 input gives the same bytes as its values in
 * F32. */
enum kvr_status kvr_codec_encode_values(const struct kvr_codec *c, struct kvr_dev *dev,
                                        const struct kvr_values *x,
                                        const struct kvr_block_shape *shape,
                                        const struct kvr_place *place, float *work,
                                        struct kvr_packed *out);
enum kvr_status kvr_codec_encode_bf16(const struct kvr_codec *c, struct kvr_dev *dev,
                                      const kvr_bf16 *x, const struct kvr_block_shape *shape,
                                      float *work, struct kvr_packed *out);

/* For joint codecs: kvr_codec_start_joint starts the stage, once before any coding;
 * kvr_codec_encode_joint encodes keys and values together. */
enum kvr_status kvr_codec_start_joint(const struct kvr_codec *k);
enum kvr_status kvr_codec_encode_joint(const struct kvr_codec *ck, const struct kvr_codec *cv,
                                       struct kvr_dev *dev, const float *k, const float *v,
                                       const struct kvr_block_shape *shape,
                                       const struct kvr_place *place, struct kvr_packed *out_k,
                                       struct kvr_packed *out_v);

/* Decodes tokens [t0, t0+n) of heads [h0, h0+nh) into out [n,nh,D]. Thread-safe on the CPU. On CUDA
 * only the device's thread may call it; it neither synchronises nor allocates, except for stages
 * without CUDA functions. If these run out of host memory, out becomes NaN. */
void kvr_codec_decode(const struct kvr_packed *p, int64_t t0, int64_t n, int h0, int nh,
                      float *out);
/* kvr_codec_decode without the inverse of a leading transform: out is in the transformed space. */
void kvr_codec_decode_rotated(const struct kvr_packed *p, int64_t t0, int64_t n, int h0, int nh,
                              float *out);

/* Whether a device decodes this codec to BF16, inverse transform included, without F32 in memory.
 * Depends on the format and the head width alone, so plans can call it without a device. */
bool kvr_codec_decodes_bf16(const struct kvr_codec *c, int n_heads, int head_dim);
/* kvr_codec_decode rounded to BF16: out [n,nh,D], device memory, 16-byte aligned. Requires
 * kvr_codec_decodes_bf16. Neither synchronises nor allocates. */
void kvr_codec_decode_bf16(const struct kvr_packed *p, int64_t t0, int64_t n, int h0, int nh,
                           kvr_bf16 *out);

/* Error model of a coded block: that of its LAST grid, since later stages code the residual of
 * earlier ones. Borrows from `p`: `scale` and `exact` are memory of p->dev. */
void kvr_codec_noise(const struct kvr_packed *p, struct kvr_coding_noise *out);

/* Scale of every element for KVR_NOISE_SCALES: tokens [t0, t0 + n), heads [h0, h0 + nh), in the
 * space of that grid; out [n,nh,D], memory of p->dev. Threads as in kvr_codec_decode. */
void kvr_packed_scales(const struct kvr_packed *p, int64_t t0, int64_t n, int h0, int nh,
                       float *out);

/* Copies a block to device `to`, with the same bytes and tags. One of the two devices is a CPU, or
 * both are the same. Synchronises a CUDA device. On failure `out` is empty. place.list is not
 * copied: it is NULL in `out` until the caller sets one in that device's memory. */
enum kvr_status kvr_packed_copy(const struct kvr_packed *p, struct kvr_dev *to,
                                struct kvr_packed *out);

/* Layout of stage i of a coded or sizes-only block. */
void kvr_packed_layout(const struct kvr_packed *p, int i, struct kvr_layout *out);
size_t kvr_packed_bytes(const struct kvr_packed *p); /* resident bytes: codes + meta */
/* Size by tag from format arithmetic, for this shape and these entries. */
struct kvr_stage_bytes kvr_packed_nominal(const struct kvr_packed *p);
int64_t kvr_packed_n_entries(const struct kvr_packed *p);
void kvr_packed_free(struct kvr_packed *p);

/* Current name of a stage whose former name is `name`; else `name` (FORMER in methods.def). */
const char *kvr_stage_name_now(const char *name);
/* The canonical text with every stage's original name, used in cell keys; truncated to 256
 * bytes. */
void kvr_codec_first_text(const char *text, char *to, size_t n);

/* Built-in stages, in the order of methods.def. NULL-terminated. */
extern const struct kvr_stage *const kvr_stages[];
/* Built-in stages, then stages of loaded plug-ins; NULL past the last. */
const struct kvr_stage *kvr_stage_at(int i);
/* KVR_EINVAL, with the nearest name: no such stage. */
enum kvr_status kvr_stage_find(const struct kvr_stage **out, const char *name);

#ifdef __cplusplus
}
#endif
#endif
