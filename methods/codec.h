/* codec.h - how a block of keys or values becomes bytes, and back.
 *
 * A codec is a short pipeline of stages, written as text in a method's row:
 *
 *     "sym(bits=4,group=16)"                 one grid
 *     "hadamard | sym(bits=2)"               a transform, then a grid
 *     "outliers(sigma=6) | asym(bits=4)"     exact values, taken out before the grid is fitted
 *     "sym(bits=2) + sym(bits=4)"            a grid, and a second one over what it left
 *     "raw"                                  uncoded BF16; "raw(type=f32)" for parity checks
 *
 *     KVR_TRY(kvr_codec_open(&c, "sym(bits=4)", KVR_K, false));
 *     KVR_TRY(kvr_codec_encode(c, dev, x, shape, &packed));    x [T,H,D] float
 *     KVR_TRY(kvr_codec_decode(&packed, t0, n, h0, nh, out));  out [n,nh,D] float
 *     kvr_packed_free(&packed);
 *     kvr_codec_close(&c);
 *
 * A stage describes itself: its layout says what it stores and how that reads, its noise how far
 * off the values are, and a transform has a side for queries. Attention, corrections, predictions
 * and kernels read that; only a stage reads its own options.
 *
 * On a device of backend CUDA all of x, work, out and what is packed is its memory; the bytes are
 * those of the CPU, and so are decoded values, but for the payload of a NaN.
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

/* Arithmetic of the grid fit: F32, or every elementary operation rounded to BF16, as the
 * study's quantizers ran. */
enum kvr_compute { KVR_COMPUTE_F32, KVR_COMPUTE_BF16 };

struct kvr_block_shape {
    int64_t n_tok; /* T */
    int n_heads;   /* H */
    int head_dim;  /* D */
};

/* Where a block's tokens come from, as far as that is known: zeros where it is not. */
struct kvr_place {
    int64_t frame_tokens; /* tokens of a frame; the block's first one begins a frame */
    int64_t tok0;         /* the first one's index in the rollout, frame * frame_tokens + s */
    bool whole;           /* and all that follow it: no retention has left any out */
    /* [n_tok] the tokens' indices, ascending, where they do not follow one another; else NULL.
     * Memory of the block's device, lent by who holds the block. */
    const int32_t *list;
    int layer, n_layers; /* whose keys or values they are */
};

enum { KVR_MAX_STAGES = 4 };

enum kvr_stage_kind {
    KVR_STAGE_TRANSFORM, /* a linear change of space for every head, stores nothing */
    KVR_STAGE_SHIFT,     /* takes off what it stores (a mean), in the same space, or undoes what it
                          * can redo by a token's place (a rotation) */
    KVR_STAGE_EXACT,     /* takes single elements out and keeps them */
    KVR_STAGE_GRID,      /* codes; the next grid codes what this one left */
};

/* What one stage stored for one block. */
struct kvr_stage_data {
    struct kvr_buf codes;    /* KVR_MEM_KV */
    struct kvr_buf meta;     /* KVR_MEM_META: scales, zero points, indices */
    int64_t n_entries;       /* of a stage whose bytes depend on the data; else 0 */
    struct kvr_joint *joint; /* NULL, unless keys and values were coded as one */
};

struct kvr_stage;

struct kvr_stage_job {
    const struct kvr_stage *stage;
    const void *opts;    /* the stage's own option struct */
    const void *table;   /* what the stage's `table` wrote; NULL: it has none */
    struct kvr_dev *dev; /* where the data is; NULL: in memory of the CPU */
    enum kvr_side side;
    bool study; /* bug for bug, as the 33-method study ran it */
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
    KVR_DECODE_SUB, /* out -= decoded: what a grid left over */
    /* out = the scale of each element: only of a grid whose noise is KVR_NOISE_SCALES */
    KVR_DECODE_SCALES,
};

/* Which elements of a block share a scale. With C = H*D channels, channel c = h*D + d: */
enum kvr_group_axis {
    KVR_AXIS_TOKENS,   /* scale[t / group * C + c]: `group` tokens of a channel */
    KVR_AXIS_CHANNELS, /* scale[(t * C + c) / group]: `group` channels of a head of a token */
    KVR_AXIS_TOKEN,    /* scale[t]: a whole token, all heads; group is not used */
};
extern const char *const kvr_axis_names[]; /* "tokens", "channels", "token" */

/* How what a stage stores reads. Those who do not know a form ask the stage to decode. */
enum kvr_form {
    KVR_FORM_OWN,     /* as the stage alone knows */
    KVR_FORM_RAW,     /* codes = the elements as `type`, [T,H,D] */
    KVR_FORM_INTEGER, /* x^ = (q - z) s + m; `zero` says where z and m come from */
    KVR_FORM_LEVELS,  /* x^ = level[q] s: a codebook */
    KVR_FORM_ENTRIES, /* EXACT: codes = FP16 values, meta = int32 flat indices, ascending */
    KVR_FORM_WALSH,   /* TRANSFORM: y = H x / sqrt(D), the Walsh-Hadamard matrix H */
};

enum kvr_zero {
    KVR_ZERO_MIDDLE,  /* z = 2^(b-1), m = 0 */
    KVR_ZERO_POINT,   /* z = the second FP16 number of a group, m = 0 */
    KVR_ZERO_MINIMUM, /* z = 0, m = the second FP16 number of a group */
};

/* What a stage stores for a block, and how it reads: all that anyone but the stage needs to know.
 * INTEGER and LEVELS: codes q = planes of pack.h of [n_tok, C]; meta = scales s [n_groups] FP16,
 * then the second numbers [n_groups] FP16 where `zero` asks for them.
 *
 * Not here yet, and where they would go: a scale of another type than FP16 as a type beside
 * n_groups; a transform to fewer channels (low rank) as their number beside Walsh's; keys that are
 * merged have a multiplicity in their segment (harness/cache/segment.h), and layouts that differ by
 * head are segments over ranges of heads. */
struct kvr_layout {
    struct kvr_stage_bytes bytes; /* of a block, to the byte, without entries */
    /* Of a stage whose bytes depend on the data (kept elements, entropy coding): `encode` allocates
     * what it needs for n_entries of them, and there are most_entries at the most. */
    struct kvr_stage_bytes entry;
    int64_t most_entries;
    int unit_tokens; /* tokens that can be coded without padding or loss of grid; 0 is 1 */
    /* Groups begin at multiples of so many tokens of the rollout, not with the block; what a chunk
     * leaves over is coded again together with the next one. 0: with the block. */
    int origin_tokens;
    enum kvr_form form;
    enum kvr_dtype type; /* RAW */
    int bits;            /* INTEGER, LEVELS: of a code */
    int64_t n_tok;       /* tokens as stored, padding included */
    enum kvr_group_axis axis;
    int group;
    int64_t n_groups;
    enum kvr_zero zero;
    const float *level; /* LEVELS: [2^bits] */
    /* INTEGER: coded by the rule of methods/codecs/grid, so that a chain of stages may be coded as
     * one (methods/codecs/grid/chain.h). */
    bool chains;
};

/* What is known of a codec's error. Corrections are refused where they would need to know more. */
enum kvr_noise_kind {
    KVR_NOISE_UNKNOWN, /* nothing: no correction */
    KVR_NOISE_NONE,    /* there is no error */
    KVR_NOISE_UNIFORM, /* within half a scale of the group, about independent of the element */
    /* About the same with scales that only the stage can read (kvr_packed_scales): they are rounded
     * as they are stored, so that the ends of a group may be off by more. */
    KVR_NOISE_SCALES,
    KVR_NOISE_RELATIVE, /* as UNIFORM with a scale of `relative` times what is decoded */
    KVR_NOISE_MEASURED, /* no rule: what becomes of mean and variance has to be measured */
};

/* Borrowed from a coded block. A scale may be negative (its square is what counts) and is not
 * finite where the block held a NaN or an infinity. */
struct kvr_coding_noise {
    enum kvr_noise_kind kind;
    enum kvr_group_axis axis; /* UNIFORM, SCALES */
    int group;
    const kvr_f16 *scale; /* UNIFORM */
    bool dead_zone;       /* UNIFORM, SCALES, levels -1, 0, 1: the error opposes the element */
    float relative;       /* RELATIVE */
    bool rotated;         /* all this is in the space of the codec's transform: rotate the query */
    bool turned;          /* errors turn with the key, by pairs of channels of one scale: lengths of
                           * a query's pairs are what counts, no channel alone */
    /* Elements held exactly, error 0: ascending flat indices (t*H + h)*D + d. In rotated
     * space where the transform precedes the EXACT stage. */
    const int32_t *exact;
    int64_t n_exact;
};

/* Values as they are held. */
struct kvr_values {
    const void *p;
    bool bf16; /* else F32 */
};

/* What the stages after an EXACT one see in place of the n elements of ascending flat index at. */
struct kvr_instead {
    const int32_t *at;
    const float *value;
    int64_t n;
};

/* A TRANSFORM is y = R x, R of D x D, perhaps another one for every head. */
enum kvr_transform_way {
    KVR_TO_SPACE,       /* R x: keys and values, before they are coded */
    KVR_QUERY_TO_SPACE, /* R^-T q: (R^-T q) . (R k) = q . k; the same as R q where R is orthogonal
                         */
    KVR_FROM_SPACE,     /* R^-1 y: what is decoded, or what attention made of values */
};

/* A stage's work on one kind of device: job->dev, whose memory all of it is. On CUDA `encode` may
 * wait and allocate, as EXACT stages do, which have to know how many elements they keep; the others
 * do neither. */
struct kvr_stage_ops {
    /* TRANSFORM, and all that one has: rows of heads [h0, h0 + nh), x [n,nh,D], in place. */
    void (*transform)(const struct kvr_stage_job *job, enum kvr_transform_way way, float *x,
                      int64_t n, int h0, int nh);
    /* EXACT: records into `out` and removes from x. SHIFT: records into `out` and takes it off x.
     * GRID: codes x, which stays, into `out`. The buffers of `out` have been allocated from the
     * layout's bytes, unless there are entries. */
    enum kvr_status (*encode)(const struct kvr_stage_job *job, float *x,
                              struct kvr_stage_data *out);
    /* SHIFT: undo on out [n,nh,D]. EXACT: overwrite the kept elements in out. GRID: set, add or
     * subtract the decoded values, as `mode` says. On the CPU from several threads. */
    void (*decode)(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out);
    /* EXACT, on the CPU; NULL: only as `encode`. Records into `out` as `encode` does, but leaves x
     * alone, and says what is to be seen instead: `at` is memory of `out`, `value` of `scratch`,
     * T*H*D floats, at their end. */
    enum kvr_status (*find)(const struct kvr_stage_job *job, const struct kvr_values *x,
                            float *scratch, struct kvr_stage_data *out,
                            struct kvr_instead *instead);
};

/* Of a stage that codes keys and values as one (joint.h). It stands alone in both pipelines, and in
 * memory of the host. */
struct kvr_joint_ops {
    /* What coding and reading need, so that neither pays for it; again does nothing. */
    enum kvr_status (*start)(const struct kvr_stage_job *job);
    /* k, v [T,H,D], which stay. What it stores goes into codes and meta of either, which are empty;
     * the joint of both is the same, with two owners, also when it fails. */
    enum kvr_status (*encode)(const struct kvr_stage_job *job, const float *k, const float *v,
                              struct kvr_stage_data *out_k, struct kvr_stage_data *out_v);
};

/* One kind of stage. Functions are given a job whose opts have passed `check`. */
struct kvr_stage {
    const char *name;  /* as written in a pipeline */
    const char *title; /* one line for `kvreel show` */
    enum kvr_stage_kind kind;
    const struct kvr_opt *options;
    size_t opts_size;
    const void *variant; /* what tells stages of the same functions apart; their own business */
    bool deterministic;  /* same input, same bytes */
    /* Coding what it decodes to gives the same values again, bit for bit, as long as its scales
     * are normal FP16 numbers. */
    bool idempotent;
    /* Undoes the rotation of keys: that of a video's model (kernels/rope.h). */
    bool turns;

    /* NULL: anything goes. Refuses impossible settings for this head width, with a reason; of the
     * shape, n_heads and head_dim count. */
    enum kvr_status (*check)(const struct kvr_stage_job *job);
    /* A TRANSFORM may do without: what it does is its own. A stage whose form is not OWN writes
     * every byte of its buffers. */
    void (*layout)(const struct kvr_stage_job *job, struct kvr_layout *out);
    /* GRID: the kind of its error and all that belongs to the kind; NULL: unknown. EXACT: `exact`
     * and `n_exact`. SHIFT: nothing, unless it does not put back all it took off, or turns what it
     * puts back; then the kind is MEASURED, or `turned` is set. Other fields are left alone. `in` may
     * hold nothing. */
    void (*noise)(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                  struct kvr_coding_noise *out);

    struct kvr_stage_ops cpu;
    /* NULL: on CUDA the values are copied to the host, the functions of the CPU run there, and the
     * result is copied back. Right, and slow: every call waits. */
    const struct kvr_stage_ops *cuda;
    const struct kvr_joint_ops *joint; /* NULL: keys and values are coded each by itself */

    /* Writes table_size bytes that depend on the options alone, such as a drawn matrix; NULL: the
     * stage has no table. Each codec allocates its own, which is written when the codec is opened
     * and again when an option is set. */
    void (*table)(const void *opts, void *table);
    size_t table_size;
};

struct kvr_codec_stage {
    const struct kvr_stage *stage;
    void *opts, *table; /* owned by the codec */
};

struct kvr_codec {
    char text[256]; /* canonical pipeline, every option spelled out */
    enum kvr_side side;
    bool study;
    enum kvr_compute compute;
    int n_stages;
    struct kvr_codec_stage stage[KVR_MAX_STAGES];
};

/* One coded block. Owns its stage buffers; borrows the codec. */
struct kvr_packed {
    const struct kvr_codec *codec;
    struct kvr_dev *dev; /* where it is; NULL: bytes are only reckoned with */
    struct kvr_block_shape shape;
    struct kvr_place place;
    struct kvr_stage_data stage[KVR_MAX_STAGES];
};

/* Parse a pipeline. Unknown stage or option: KVR_EINVAL with the nearest match. */
enum kvr_status kvr_codec_open(struct kvr_codec **out, const char *text, enum kvr_side side,
                               bool study);
void kvr_codec_close(struct kvr_codec **c);

/* Set an option ("bits", "group", ...) on every stage that has it. *n_set counts them. */
enum kvr_status kvr_codec_set(struct kvr_codec *c, const char *name, const char *value, int *n_set);

enum kvr_status kvr_codec_check(const struct kvr_codec *c, int n_heads, int head_dim);
int kvr_codec_unit_tokens(const struct kvr_codec *c);
int kvr_codec_origin_tokens(const struct kvr_codec *c); /* the largest of the stages' */
bool kvr_codec_is_raw(const struct kvr_codec *c);       /* nothing is coded */
bool kvr_codec_idempotent(const struct kvr_codec *c);
bool kvr_codec_joint(const struct kvr_codec *c); /* its stage codes keys and values as one */
/* Both pipelines of one tier, or of none. KVR_EINVAL, KVR_EUNSUPPORTED: what a joint stage cannot
 * stand beside. */
enum kvr_status kvr_codec_check_joint(const struct kvr_codec *k, const struct kvr_codec *v);

/* Stage i for a block of this shape. */
void kvr_codec_layout(const struct kvr_codec *c, int i, const struct kvr_block_shape *shape,
                      struct kvr_layout *out);

/* A codec that begins with a TRANSFORM is attended to in the space that leads to. */
bool kvr_codec_rotated(const struct kvr_codec *c);
/* Both begin with the same one, or neither has one. */
bool kvr_codec_same_space(const struct kvr_codec *a, const struct kvr_codec *b);
/* That transform in F32, in place: x [n,nh,D], rows of heads [h0, h0 + nh), memory of `dev` (NULL:
 * the CPU's). On the CPU any thread may call it; on CUDA it belongs to the device's thread. A codec
 * that is not rotated leaves x alone. */
void kvr_codec_transform(const struct kvr_codec *c, struct kvr_dev *dev, enum kvr_transform_way way,
                         float *x, int64_t n, int h0, int nh, int head_dim);

/* Format arithmetic for a block, to the byte, without entries that depend on the data. */
size_t kvr_codec_bytes(const struct kvr_codec *c, const struct kvr_block_shape *shape);

/* Blocks whose bytes depend on their values, of all that were coded: what is coded again counts
 * again. */
struct kvr_varying {
    int64_t elements;
    size_t bytes;
    double most_bits; /* per element, of the block that took the most */
};

/* Whether a block's bytes depend on its values: there are entries, or there may be. */
bool kvr_codec_varies(const struct kvr_codec *c, const struct kvr_block_shape *shape);

/* Code x [T,H,D]. `x` is not changed. `work` is scratch of T*H*D floats owned by the caller.
 * On failure `out` is empty. Storage comes from `dev`, tags KV and META. On CUDA it waits for the
 * device only in `outliers` (how many elements are kept decides how much is allocated) and in
 * stages without CUDA functions. */
enum kvr_status kvr_codec_encode(const struct kvr_codec *c, struct kvr_dev *dev, const float *x,
                                 const struct kvr_block_shape *shape, float *work,
                                 struct kvr_packed *out);

/* The same of tokens whose place is known. */
enum kvr_status kvr_codec_encode_at(const struct kvr_codec *c, struct kvr_dev *dev, const float *x,
                                    const struct kvr_block_shape *shape,
                                    const struct kvr_place *place, float *work,
                                    struct kvr_packed *out);

/* The same of values as they are held: of BF16 the bytes are those of the same values in F32. */
enum kvr_status kvr_codec_encode_values(const struct kvr_codec *c, struct kvr_dev *dev,
                                        const struct kvr_values *x,
                                        const struct kvr_block_shape *shape,
                                        const struct kvr_place *place, float *work,
                                        struct kvr_packed *out);
enum kvr_status kvr_codec_encode_bf16(const struct kvr_codec *c, struct kvr_dev *dev,
                                      const kvr_bf16 *x, const struct kvr_block_shape *shape,
                                      float *work, struct kvr_packed *out);

/* Of codecs that are joint: once before anything is coded, and keys and values at once. */
enum kvr_status kvr_codec_start_joint(const struct kvr_codec *k);
enum kvr_status kvr_codec_encode_joint(const struct kvr_codec *ck, const struct kvr_codec *cv,
                                       struct kvr_dev *dev, const float *k, const float *v,
                                       const struct kvr_block_shape *shape,
                                       struct kvr_packed *out_k, struct kvr_packed *out_v);

/* Tokens [t0, t0+n) of heads [h0, h0+nh) -> out [n,nh,D]. Thread-safe on the CPU. On CUDA it
 * belongs to the device's thread and neither waits nor allocates, but for stages without CUDA
 * functions; where the host has no memory for those, out becomes NaN. */
void kvr_codec_decode(const struct kvr_packed *p, int64_t t0, int64_t n, int h0, int nh,
                      float *out);
/* The same, but a leading rotation is left in place: what is read is H x / sqrt(D). */
void kvr_codec_decode_rotated(const struct kvr_packed *p, int64_t t0, int64_t n, int h0, int nh,
                              float *out);

/* The error of a coded block: that of its LAST grid (what earlier stages lost is coded by
 * the later ones). Borrows from `p`: `scale` and `exact` are memory of p->dev. */
void kvr_codec_noise(const struct kvr_packed *p, struct kvr_coding_noise *out);

/* The scale of every element where the noise is KVR_NOISE_SCALES: tokens [t0, t0 + n), heads
 * [h0, h0 + nh), in the space of that grid; out [n,nh,D], memory of p->dev. As kvr_codec_decode. */
void kvr_packed_scales(const struct kvr_packed *p, int64_t t0, int64_t n, int h0, int nh,
                       float *out);

/* The same bytes under the same tags on device `to`; at least one of the two devices is a CPU or
 * both are the same. Waits for a CUDA device. On failure `out` is empty. A list that the place has
 * is not copied: out's is NULL until the caller lends it one of that device. */
enum kvr_status kvr_packed_copy(const struct kvr_packed *p, struct kvr_dev *to,
                                struct kvr_packed *out);

/* Stage i of a block that has been coded, or is only reckoned with. */
void kvr_packed_layout(const struct kvr_packed *p, int i, struct kvr_layout *out);
size_t kvr_packed_bytes(const struct kvr_packed *p); /* held now: codes + meta */
/* Format arithmetic, by tag: what a block of this shape and these entries takes. */
struct kvr_stage_bytes kvr_packed_nominal(const struct kvr_packed *p);
int64_t kvr_packed_n_entries(const struct kvr_packed *p);
void kvr_packed_free(struct kvr_packed *p);

/* The name that a stage has today, where `name` is one it had before; else `name` (FORMER in
 * methods.def). */
const char *kvr_stage_name_now(const char *name);
/* A canonical text with every stage called as when it was first stored: what keys of cells are made
 * of. The longest such text fits into 256 bytes; more is cut off. */
void kvr_codec_first_text(const char *text, char *to, size_t n);

/* Built-in stages, in the order of methods.def. NULL-terminated. */
extern const struct kvr_stage *const kvr_stages[];
/* Those, then the stages of loaded plug-ins; NULL past the last. */
const struct kvr_stage *kvr_stage_at(int i);

#ifdef __cplusplus
}
#endif
#endif
