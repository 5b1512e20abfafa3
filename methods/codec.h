/* codec.h - how a block of keys or values becomes bytes, and back.
 *
 * A codec is a short pipeline of stages, written as text in a method's row:
 *
 *     "sym(bits=4,group=16)"                 one grid
 *     "hadamard | sym(bits=2)"               a transform, then a grid
 *     "outliers(sigma=6) | asym(bits=4)"     exact values, taken out before the grid is fitted
 *     "sym(bits=2) + sym(bits=4)"            a grid, and a second one over what it left
 *     "exact"                                uncoded BF16; "exact(type=f32)" for parity checks
 *
 *     KVR_TRY(kvr_codec_open(&c, "sym(bits=4)", KVR_K, false));
 *     KVR_TRY(kvr_codec_encode(c, dev, x, shape, &packed));    x [T,H,D] float
 *     KVR_TRY(kvr_codec_decode(&packed, t0, n, h0, nh, out));  out [n,nh,D] float
 *     kvr_packed_free(&packed);
 *     kvr_codec_close(&c);
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

enum { KVR_MAX_STAGES = 4 };

enum kvr_stage_kind {
    KVR_STAGE_TRANSFORM, /* an orthogonal change of space, stores nothing */
    KVR_STAGE_SHIFT,     /* takes off what it stores (a mean), in the same space */
    KVR_STAGE_EXACT,     /* takes single elements out and keeps them */
    KVR_STAGE_GRID,      /* codes; the next grid codes what this one left */
};

/* What one stage stored for one block. */
struct kvr_stage_data {
    struct kvr_buf codes; /* KVR_MEM_KV */
    struct kvr_buf meta;  /* KVR_MEM_META: scales, zero points, indices */
    int64_t n_exact;      /* elements held exactly (EXACT stages) */
};

struct kvr_stage_job {
    const void *opts;    /* the stage's own option struct */
    struct kvr_dev *dev; /* where the data is */
    enum kvr_side side;
    bool study; /* bug for bug, as the 33-method study ran it */
    enum kvr_compute compute;
    struct kvr_block_shape shape;
};

struct kvr_stage_bytes {
    size_t codes, meta;
};

enum kvr_decode_mode {
    KVR_DECODE_SET, /* out = decoded */
    KVR_DECODE_ADD, /* out += decoded */
    KVR_DECODE_SUB, /* out -= decoded: what a grid left over */
};

/* Which elements of a block share a step, so that a correction can square it without
 * materialising one number per element. With C = H*D channels, channel c = h*D + d: */
enum kvr_steps_kind {
    KVR_STEPS_NONE,     /* no error: exact */
    KVR_STEPS_TOKENS,   /* step[t / group * C + c]: `group` tokens of a channel */
    KVR_STEPS_CHANNELS, /* step[(t * C + c) / group]: `group` channels of a head of a token */
    KVR_STEPS_TOKEN,    /* step[t]: a whole token */
};

/* How the error of an element goes with the element. */
enum kvr_noise_sign {
    KVR_NOISE_DITHER,   /* about uniform within a step, about independent of the element */
    KVR_NOISE_TERNARY,  /* levels -1, 0, 1: a wide dead zone, the error opposes the element */
    KVR_NOISE_CENTROID, /* E[x | code] = decoded: the error opposes the element */
    KVR_NOISE_UNKNOWN,
};

/* Borrowed from a coded block. A step may be negative (its square is what counts) and is not
 * finite where the block held a NaN or an infinity. */
struct kvr_steps {
    enum kvr_steps_kind kind;
    int group; /* elements sharing a step; TOKEN, NONE: 0 */
    const kvr_f16 *step;
    enum kvr_noise_sign sign;
    bool rotated; /* steps are those of H x / sqrt(D): use the rotated query */
    /* Elements held exactly, error 0: ascending flat indices (t*H + h)*D + d. In rotated
     * space where the transform precedes the EXACT stage. */
    const int32_t *exact;
    int64_t n_exact;
};

struct kvr_grid;

/* The work of a stage on a device of backend CUDA (job->dev): as in struct kvr_stage, with all
 * memory the device's. `encode` may wait and allocate, as EXACT stages do, which have to know how
 * many elements they keep; `decode` does neither. */
struct kvr_stage_cuda {
    enum kvr_status (*encode)(const struct kvr_stage_job *job, struct kvr_dev *dev, float *x,
                              struct kvr_stage_data *out);
    void (*decode)(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out);
    /* A GRID of integers (methods/codecs/grid/grid.h): which one, so that a codec can do a chain of
     * them in one go. NULL: it is another kind. */
    void (*grid)(const void *opts, struct kvr_grid *out);
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

/* One kind of stage. Functions are given a job whose opts have passed `check`. */
struct kvr_stage {
    const char *name;  /* as written in a pipeline */
    const char *title; /* one line for `kvreel show` */
    enum kvr_stage_kind kind;
    const struct kvr_opt *options;
    size_t opts_size;
    bool deterministic; /* same input, same bytes */
    /* Coding what it decodes to gives the same values again, bit for bit, as long as its steps
     * are normal FP16 numbers. */
    bool idempotent;

    /* NULL: anything goes. Refuses impossible settings for this head width, with a reason. */
    enum kvr_status (*check)(const void *opts, int n_heads, int head_dim);
    /* Smallest number of tokens that can be coded without padding or loss of grid; 1 when NULL. */
    int (*unit_tokens)(const void *opts);
    /* Bytes stored for a block, to the byte (without n_exact entries). TRANSFORM, EXACT: NULL. */
    void (*bytes)(const struct kvr_stage_job *job, struct kvr_stage_bytes *out);
    size_t exact_entry_bytes; /* EXACT: bytes of one kept element, 4 of them its index */

    /* TRANSFORM: x -> transformed x, in place. EXACT: records into `out` and removes from x; it
     * allocates. SHIFT: records into `out` and takes it off x. GRID: codes x into `out`; SHIFT
     * and GRID find the buffers of `out` allocated by the caller from `bytes`. */
    enum kvr_status (*encode)(const struct kvr_stage_job *job, struct kvr_dev *dev, float *x,
                              struct kvr_stage_data *out);
    /* TRANSFORM, SHIFT: undo on out [n,nh,D]. EXACT: overwrite the kept elements in out.
     * GRID: set, add or subtract the decoded values, as `mode` says. */
    void (*decode)(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out);

    /* EXACT, on the CPU; NULL: only as `encode`. Records into `out` as `encode` does, but leaves x
     * alone, and says what is to be seen instead: `at` is memory of `out`, `value` of `scratch`,
     * T*H*D floats, at their end. */
    enum kvr_status (*find)(const struct kvr_stage_job *job, const struct kvr_values *x,
                            float *scratch, struct kvr_stage_data *out,
                            struct kvr_instead *instead);

    /* GRID: where an element's step is (kind, group, step, sign). NULL: no error. EXACT: fills
     * exact and n_exact. Other fields are left alone. */
    void (*steps)(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                  struct kvr_steps *out);

    /* NULL: on CUDA the values are copied to the host, the functions above run there, and the
     * result is copied back. Right, and slow: every call waits. */
    const struct kvr_stage_cuda *cuda;
};

struct kvr_codec_stage {
    const struct kvr_stage *stage;
    void *opts; /* owned by the codec */
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
bool kvr_codec_is_exact(const struct kvr_codec *c); /* nothing is coded */
bool kvr_codec_idempotent(const struct kvr_codec *c);
bool kvr_codec_rotated(const struct kvr_codec *c); /* begins with an orthogonal transform */

/* Format arithmetic for a block, to the byte; n_exact elements held exactly. */
size_t kvr_codec_bytes(const struct kvr_codec *c, const struct kvr_block_shape *shape,
                       int64_t n_exact);
/* The same by tag: KV and META. */
struct kvr_stage_bytes kvr_codec_bytes_by_tag(const struct kvr_codec *c,
                                              const struct kvr_block_shape *shape, int64_t n_exact);

/* Code x [T,H,D]. `x` is not changed. `work` is scratch of T*H*D floats owned by the caller.
 * On failure `out` is empty. Storage comes from `dev`, tags KV and META. On CUDA it waits for the
 * device only in `outliers` (how many elements are kept decides how much is allocated) and in
 * stages without CUDA functions. */
enum kvr_status kvr_codec_encode(const struct kvr_codec *c, struct kvr_dev *dev, const float *x,
                                 const struct kvr_block_shape *shape, float *work,
                                 struct kvr_packed *out);

/* The same of BF16 values: the bytes are those of the same values in F32. */
enum kvr_status kvr_codec_encode_bf16(const struct kvr_codec *c, struct kvr_dev *dev,
                                      const kvr_bf16 *x, const struct kvr_block_shape *shape,
                                      float *work, struct kvr_packed *out);

/* Tokens [t0, t0+n) of heads [h0, h0+nh) -> out [n,nh,D]. Thread-safe on the CPU. On CUDA it
 * belongs to the device's thread and neither waits nor allocates, but for stages without CUDA
 * functions; where the host has no memory for those, out becomes NaN. */
void kvr_codec_decode(const struct kvr_packed *p, int64_t t0, int64_t n, int h0, int nh,
                      float *out);
/* The same, but a leading rotation is left in place: what is read is H x / sqrt(D). */
void kvr_codec_decode_rotated(const struct kvr_packed *p, int64_t t0, int64_t n, int h0, int nh,
                              float *out);

/* The error of a coded block: the step of its LAST grid (what earlier stages lost is coded by
 * the later ones). Borrows from `p`: `step` and `exact` are memory of p->dev. */
void kvr_codec_steps(const struct kvr_packed *p, struct kvr_steps *out);

/* The same bytes under the same tags on device `to`; at least one of the two devices is a CPU or
 * both are the same. Waits for a CUDA device. On failure `out` is empty. */
enum kvr_status kvr_packed_copy(const struct kvr_packed *p, struct kvr_dev *to,
                                struct kvr_packed *out);

size_t kvr_packed_bytes(const struct kvr_packed *p); /* held now: codes + meta */
int64_t kvr_packed_n_exact(const struct kvr_packed *p);
void kvr_packed_free(struct kvr_packed *p);

/* Built-in stages: methods/codecs/stages.def. NULL-terminated. */
extern const struct kvr_stage *const kvr_stages[];
/* Those, then the stages of loaded plug-ins; NULL past the last. */
const struct kvr_stage *kvr_stage_at(int i);

#ifdef __cplusplus
}
#endif
#endif
