/* codec.h - encodes blocks of keys or values and decodes them.
 *
 * A codec is a pipeline of up to four stages, written as text in a method's row:
 *
 *     "sym(bits=4,group=16)"                 one grid
 *     "hadamard | sym(bits=2)"               a transform, then a grid
 *     "outliers(sigma=6) | asym(bits=4)"     outliers stored in FP16, other elements quantized
 *     "sym(bits=2) + sym(bits=4)"            a grid, and a second one for its residual
 *     "raw"                                  BF16; "raw(type=f32)" for parity checks
 *
 *     KVR_TRY(kvr_codec_open(&c, "sym(bits=4)", KVR_K, false));
 *     KVR_TRY(kvr_codec_encode(c, dev, x, shape, &packed));    x [T,H,D] float
 *     KVR_TRY(kvr_codec_decode(&packed, t0, n, h0, nh, out));  out [n,nh,D] float
 *     kvr_packed_free(&packed);
 *     kvr_codec_close(&c);
 *
 * A stage describes itself by functions: `layout` returns the storage format, `noise` returns a
 * model of the quantization error, and `transform` also maps queries. Attention, corrections of
 * attention scores, size predictions and kernels use only these functions and never read the
 * options of a stage.
 *
 * If data is on a CUDA device, the arguments `x`, `work` and `out` and the buffers of encoded
 * blocks are device memory. Encoded bytes are the same on CPU and CUDA, and so are decoded values,
 * except for the payloads of NaNs.
 *
 * Encoding and decoding do not change the codec, so several threads may use one codec. */
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

/* Arithmetic of quantizers and transforms: F32, or F32 with the result of every operation rounded
 * to BF16, as in the quantizers of the 33-method study. */
enum kvr_compute { KVR_COMPUTE_F32, KVR_COMPUTE_BF16 };

struct kvr_block_shape {
    int64_t n_tok; /* T */
    int n_heads;   /* H */
    int head_dim;  /* D */
};

/* Position of a block's tokens in the rollout. A field whose value is unknown is 0. */
struct kvr_place {
    int64_t frame_tokens; /* tokens per frame; the block starts at a frame boundary */
    int64_t tok0;         /* index in the rollout of the block's first token */
    bool whole;           /* whether the tokens are consecutive, that is, whether retention has
                           * evicted none of them */
    /* Token indices [n_tok] in ascending order, or NULL if the tokens are consecutive. The list is
     * memory of the block's device. The block does not own the list, which must live as long as the
     * block. */
    const int32_t *list;
    int layer, n_layers; /* index of the layer, and number of layers */
    int head0;           /* index of the block's first head in the layer */
    int frames_per_chunk;
};

enum { KVR_MAX_STAGES = 4 };

enum kvr_stage_kind {
    KVR_STAGE_TRANSFORM, /* linear map of a head's channels; stores nothing */
    KVR_STAGE_SHIFT,     /* subtracts means or centroids, divides by norms, or inverts RoPE */
    KVR_STAGE_EXACT,     /* stores outliers in FP16 and replaces them in the input of the next
                          * stage */
    KVR_STAGE_GRID,      /* quantizes values; a second grid quantizes the residual of the first */
};

/* Data that one stage stores for one block. */
struct kvr_stage_data {
    struct kvr_buf codes;    /* codes, or unquantized elements, with memory tag KVR_MEM_KV */
    struct kvr_buf meta;     /* scales, zero points and indices, with memory tag KVR_MEM_META */
    int64_t n_entries;       /* number of stored entries (such as outliers), for stages whose size
                              * depends on the data; otherwise 0 */
    struct kvr_joint *joint; /* data of a stage that encodes keys and values jointly; otherwise
                              * NULL */
};

struct kvr_stage;

struct kvr_stage_job {
    const struct kvr_stage *stage;
    const void *opts;    /* the stage's option struct */
    const void *table;   /* constants that kvr_stage.table computed from the options, or NULL */
    struct kvr_dev *dev; /* device of the data; NULL: host memory */
    enum kvr_side side;
    bool study; /* reproduce the code of the 33-method study, including its bugs */
    bool eager; /* launch one kernel per arithmetic operation, as PyTorch does (eager.h) */
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
    KVR_DECODE_SUB, /* out -= decoded, which leaves the residual of a grid */
    /* out = the scale of each element; only for grids whose error model is KVR_NOISE_SCALES */
    KVR_DECODE_SCALES,
};

/* Which elements of a block share a scale. A token has C = H*D channels, and element d of head h is
 * channel c = h*D + d: */
enum kvr_group_axis {
    KVR_AXIS_TOKENS,   /* scale[t / group * C + c], shared by `group` tokens of a channel */
    KVR_AXIS_CHANNELS, /* scale[(t * C + c) / group], shared by `group` consecutive channels of one
                        * head of one token */
    KVR_AXIS_TOKEN,    /* scale[t], shared by all heads of a token; `group` is not used */
};
extern const char *const kvr_axis_names[]; /* "tokens", "channels", "token" */

/* Storage format of a stage. Modules that do not implement a format call the stage's decode
 * function. */
enum kvr_form {
    KVR_FORM_OWN,     /* known only to the stage itself */
    KVR_FORM_RAW,     /* `codes` has unquantized elements of data type kvr_layout.type, [T,H,D] */
    KVR_FORM_INTEGER, /* x^ = (q - z) s + m, for code q and scale s, with z and m given by `zero` */
    KVR_FORM_LEVELS,  /* x^ = level[q] s, for code q and scale s: a codebook */
    KVR_FORM_ENTRIES, /* for EXACT stages: `codes` has the outliers in FP16, `meta` their flat
                       * indices in the block (int32, ascending) */
    KVR_FORM_WALSH,   /* for TRANSFORM stages: y = H x / sqrt(D), with the Walsh-Hadamard matrix
                       * H */
};

/* Zero point z and offset m in the decoding x^ = (q - z) s + m of KVR_FORM_INTEGER. */
enum kvr_zero {
    KVR_ZERO_MIDDLE,  /* z = 2^(b-1) for b bits, m = 0 */
    KVR_ZERO_POINT,   /* z = the zero point stored for the group in FP16, m = 0 */
    KVR_ZERO_MINIMUM, /* z = 0, m = the minimum stored for the group in FP16 */
};

/* Size and format of the data that a stage stores for a block. Other modules can read data of every
 * format except KVR_FORM_OWN by this description alone. In the formats INTEGER and LEVELS, the
 * codes q [n_tok, C] are packed into bit planes (pack.h). In these two formats, the side
 * information is FP16: the scales s [n_groups], then the zero points or minima [n_groups] if `zero`
 * requires them. */
struct kvr_layout {
    struct kvr_stage_bytes bytes; /* exact size in bytes of the stored data, except its entries (see
                                   * `entry`) */
    /* For stages whose size depends on the values (outliers, entropy coding): bytes per stored
     * entry, such as an outlier. The function `encode` allocates kvr_stage_data.n_entries entries;
     * this number is at most most_entries. */
    struct kvr_stage_bytes entry;
    int64_t most_entries;
    int unit_tokens; /* number of tokens per quantization group; 0 means 1. A block has no
                      * incomplete group if its number of tokens is a multiple of this number. */
    /* If not 0, groups start at tokens whose index in the rollout is a multiple of origin_tokens.
     * When the next chunk arrives, the cache decodes the tokens of an incomplete last group and
     * encodes them again with the chunk. If origin_tokens is 0, groups start at the first token of
     * the block. */
    int origin_tokens;
    enum kvr_form form;
    enum kvr_dtype type; /* RAW */
    int bits;            /* INTEGER and LEVELS: bits per code */
    int64_t n_tok;       /* stored tokens, padding included */
    enum kvr_group_axis axis;
    int group;
    int64_t n_groups;
    enum kvr_zero zero;
    const float *level; /* LEVELS: [2^bits] */
    /* Set only for kind INTEGER: true if the stage uses the quantizer of methods/codecs/grid. One
     * kernel can run two such stages in sequence (methods/codecs/grid/chain.h). */
    bool chains;
};

/* Model of a codec's quantization error. kvr_correction_check() rejects a correction of attention
 * scores that needs more information than the model contains. */
enum kvr_noise_kind {
    KVR_NOISE_UNKNOWN, /* the stage does not describe its error; no correction of attention scores
                        * is possible */
    KVR_NOISE_NONE,    /* lossless */
    KVR_NOISE_UNIFORM, /* the error is uniformly distributed in [-s/2, s/2], where s is the group's
                        * scale */
    /* Like UNIFORM, but `scale` is not set, because the scales have a format private to the stage;
     * kvr_packed_scales() reads them. If a scale was rounded down, a group's largest and smallest
     * elements are clipped, with errors that may exceed s/2. */
    KVR_NOISE_SCALES,
    KVR_NOISE_RELATIVE, /* like UNIFORM, but s is the field `relative` times the decoded value */
    KVR_NOISE_MEASURED, /* no formula is known: bias and variance of the error have to be
                         * measured */
};

/* Error model of a quantized block, from which corrections of attention scores are computed. The
 * block owns the memory that the pointers refer to. Corrections use only the squares of scales, so
 * a stage may store negative scales. If a group has a NaN or an infinity, its scale is not
 * finite. */
struct kvr_coding_noise {
    enum kvr_noise_kind kind;
    enum kvr_group_axis axis; /* UNIFORM, SCALES */
    int group;
    const kvr_f16 *scale; /* UNIFORM */
    bool dead_zone;       /* UNIFORM or SCALES: the quantizer is ternary (levels -1, 0, 1). The
                           * error of an element x that becomes 0 is -x, so it depends on x and is
                           * not uniform. */
    float relative;       /* RELATIVE */
    bool rotated;         /* the errors are those of transformed keys, so a correction must use the
                           * transformed query (KVR_QUERY_TO_SPACE) */
    bool rope_rotated;    /* keys are quantized before RoPE, so RoPE rotates the decoded keys and
                           * with them their errors; set only if the two channels of each RoPE pair
                           * share a scale */
    /* Flat indices (t*H + h)*D + d, ascending, of elements that are stored exactly and have no
     * error. If the transform precedes the EXACT stage, the indices refer to elements of the
     * transformed vectors. */
    const int32_t *exact;
    int64_t n_exact;
};

/* Input values of a codec: an array of F32 or BF16 elements. */
struct kvr_values {
    const void *p;
    bool bf16; /* else F32 */
};

/* Values by which an EXACT stage replaces outliers in the input of later stages. value[i] replaces
 * the outlier with flat index at[i], and `at` [n] is in ascending order. */
struct kvr_instead {
    const int32_t *at;
    const float *value;
    int64_t n;
};

/* Ways to apply a TRANSFORM y = R x, where R is a D x D matrix that may differ between heads. */
enum kvr_transform_way {
    KVR_TO_SPACE,       /* R x, applied to keys and values before quantization */
    KVR_QUERY_TO_SPACE, /* R^-T q, applied to queries, so that the dot product with R k equals q .
                         * k; this is R q if R is orthogonal */
    KVR_FROM_SPACE,     /* R^-1 y, applied to decoded values or to the attention output */
};

/* Functions with which an EXACT stage finds outliers while the next stage quantizes n BF16 values
 * in the same pass (methods/codecs/grid/once.h). An element whose magnitude exceeds the bound is an
 * outlier. In the input of the quantizer, an outlier gets the value of the nearest earlier token in
 * its channel that is not an outlier there. If no earlier token qualifies, it gets the value of the
 * first such later token, or 0 if all elements of the channel are outliers. */
struct kvr_exact_once {
    /* Reads a sample of x and sets *least to the BF16 bits of a magnitude that is probably below
     * the outlier bound. The bound is known only after the pass, so the pass lists elements above
     * this magnitude as possible outliers. Returns false if the stage's options, the type of x or
     * its size do not allow one pass; the caller must then call `find` before quantization. */
    bool (*likely)(const struct kvr_stage_job *job, const struct kvr_values *x, int64_t n,
                   uint16_t *least);
    /* Computes the outlier bound of a block from `sum`, the sum of its n values, and `square`, the
     * sum of their squares. The rounding error of `sum` is at most 2^-18 times the sum of
     * magnitudes, and that of `square` at most 2^-18 times the sum of squares. Returns NaN if these
     * rounding errors might change which elements are outliers; the caller must then call
     * `find`. */
    float (*bound)(const struct kvr_stage_job *job, double sum, double square, int64_t n);
    /* Allocates the buffers of `out` for n_exact outliers of n elements. If n_exact is more than
     * the stage may store (kvr_layout.most_entries), the function sets *fits to false and allocates
     * nothing. */
    enum kvr_status (*alloc)(const struct kvr_stage_job *job, int64_t n, int64_t n_exact,
                             struct kvr_stage_data *out, bool *fits);
    /* Converts n outliers x to FP16 values `held`, which the stage stores. */
    void (*hold)(const struct kvr_stage_job *job, kvr_f16 *held, const float *x, int64_t n);
};

/* Functions of a stage for one backend, CPU or CUDA; all pointers are memory of job->dev. On CUDA,
 * `encode` may synchronise and allocate, since an EXACT stage counts its outliers before it
 * allocates. The functions `transform` and `decode` neither synchronise nor allocate. */
struct kvr_stage_ops {
    /* Applies the transform or its inverse (`way`) to the vectors x [n,nh,D], in place. The vectors
     * are those of heads [h0, h0 + nh). A TRANSFORM stage has only this function, and other stages
     * do not have it. */
    void (*transform)(const struct kvr_stage_job *job, enum kvr_transform_way way, float *x,
                      int64_t n, int h0, int nh);
    /* EXACT stores outliers into `out` and usually replaces them in x by values that do not widen
     * the grid's range. SHIFT subtracts means or centroids from x, divides x by norms, or applies
     * the inverse RoPE to x. It stores into `out` the means, centroids or norms that `decode`
     * needs. GRID quantizes x into `out` and does not change x. The caller has allocated the
     * buffers of `out` with the sizes kvr_layout.bytes. A stage whose size depends on the values
     * allocates its buffers itself. */
    enum kvr_status (*encode)(const struct kvr_stage_job *job, float *x,
                              struct kvr_stage_data *out);
    /* Decodes tokens [t0, t0 + n) of heads [h0, h0 + nh) into out [n,nh,D]. GRID sets `out` to the
     * decoded values, adds them to `out`, or subtracts them from `out`, as `mode` selects. EXACT
     * overwrites the outliers in `out` by their stored values. SHIFT undoes in `out` what `encode`
     * did to x, except that the stage `demean` leaves `out` unchanged, because it does not store
     * the subtracted mean. On the CPU, several threads may call `decode` at once. */
    void (*decode)(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out);
    /* Variant of `encode` for EXACT stages on the CPU; may be NULL. Stores outliers into `out` like
     * `encode`, but leaves x unchanged and sets *instead to the values that replace the outliers.
     * The array instead->at is out->meta, and instead->value lies in `scratch` [T*H*D]. If there
     * are too many outliers, the function only sets instead->n to T*H*D, and the caller must call
     * `encode`. */
    enum kvr_status (*find)(const struct kvr_stage_job *job, const struct kvr_values *x,
                            float *scratch, struct kvr_stage_data *out,
                            struct kvr_instead *instead);
    /* Functions of an EXACT stage on the CPU that find outliers in the same pass in which the next
     * stage quantizes. If `once` is NULL, `find` finds the outliers in a separate pass. */
    const struct kvr_exact_once *once;
};

/* Functions of a stage that encodes keys and values jointly (joint.h). A joint stage must be the
 * only stage in the pipelines of K and V, and it uses host memory. */
struct kvr_joint_ops {
    /* Prepares the stage before the first block, so that the preparation does not count as encoding
     * time. A second call has no effect. */
    enum kvr_status (*start)(const struct kvr_stage_job *job);
    /* Encodes k and v [T,H,D], which are not changed. Stores the encoded data into the buffers
     * `codes` and `meta` of both outputs, which must be empty before the call. Both outputs point
     * to one struct kvr_joint with a count of its owners; it is freed with the second output. After
     * a failure, the caller must free both outputs. */
    enum kvr_status (*encode)(const struct kvr_stage_job *job, const float *k, const float *v,
                              struct kvr_stage_data *out_k, struct kvr_stage_data *out_v);
};

/* Description of a kind of stage, such as `hadamard`. Its functions receive jobs whose options have
 * passed `check`. */
struct kvr_stage {
    const char *name;  /* name of the stage in the text of a pipeline */
    const char *title; /* one-line description for `kvreel show` */
    enum kvr_stage_kind kind;
    const struct kvr_opt *options;
    size_t opts_size;
    const void *variant; /* distinguishes stages that share functions, such as `sym` and `asym`;
                          * only the functions of the stage read it */
    bool deterministic;  /* whether equal inputs are encoded to equal bytes */
    /* Whether a second encoding and decoding reproduces the values that the first decoding
     * returned. This holds only for blocks whose scales are normal FP16 numbers. */
    bool idempotent;
    /* Whether the stage applies the inverse RoPE to keys; supported only for the RoPE of video
     * models (kernels/rope.h). */
    bool undoes_rope;

    /* Fails if the stage's options are impossible for n_heads and head_dim of job->shape; the error
     * message gives the reason. If `check` is NULL, all options are accepted. */
    enum kvr_status (*check)(const struct kvr_stage_job *job);
    /* Describes the stored data; a TRANSFORM may omit this function. In every format except OWN,
     * `encode` must write all bytes of its buffers, which are not zeroed. */
    void (*layout)(const struct kvr_stage_job *job, struct kvr_layout *out);
    /* Sets those fields of the error model `out` that the stage determines. If no block was
     * encoded, and the caller needs only the kind of the error model, the stage's data `in` is
     * empty. GRID sets `kind` and the fields that this kind uses; if a GRID has no function
     * `noise`, the kind is KVR_NOISE_UNKNOWN. EXACT sets `exact` and `n_exact`. SHIFT sets
     * `rope_rotated` if `decode` applies RoPE to the keys. SHIFT sets the kind to
     * KVR_NOISE_MEASURED if no other kind describes the errors after `decode`. */
    void (*noise)(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                  struct kvr_coding_noise *out);

    struct kvr_stage_ops cpu;
    /* Functions for CUDA. If `cuda` is NULL, every call copies the data to the host, runs the CPU
     * function and copies the result back (bounce.h). This is slow, because every call synchronises
     * the device. */
    const struct kvr_stage_ops *cuda;
    const struct kvr_joint_ops *joint; /* functions of joint encoding, or NULL if keys and values
                                        * are encoded separately */

    /* Writes a table of table_size bytes that depends on the options alone, such as a random
     * matrix. If the pointer `table` is NULL, the stage has no table. Each codec allocates its own
     * tables, and calls this function when the codec is opened and whenever an option is set. */
    void (*table)(const void *opts, void *table);
    size_t table_size;
};

struct kvr_codec_stage {
    const struct kvr_stage *stage;
    void *opts, *table; /* owned by the codec */
};

struct kvr_codec {
    char text[256]; /* canonical text of the pipeline, with all options */
    enum kvr_side side;
    bool study;
    bool eager; /* kvr_eager_check() */
    enum kvr_compute compute;
    int n_stages;
    struct kvr_codec_stage stage[KVR_MAX_STAGES];
};

/* One encoded block. A block owns the buffers of its stages. The codec must outlive the block. */
struct kvr_packed {
    const struct kvr_codec *codec;
    struct kvr_dev *dev; /* device of the buffers, or NULL for a block that has a size but no
                          * data */
    struct kvr_block_shape shape;
    struct kvr_place place;
    struct kvr_stage_data stage[KVR_MAX_STAGES];
};

/* Creates a codec from the text of a pipeline. Fails with KVR_EINVAL for an unknown stage or
 * option; the error message suggests the nearest name. */
enum kvr_status kvr_codec_open(struct kvr_codec **out, const char *text, enum kvr_side side,
                               bool study);
void kvr_codec_close(struct kvr_codec **c);

/* Sets an option, such as "bits" or "group", of stage `stage` of the pipeline, counted from 1, or
 * of every stage that has the option if `stage` is 0. *n_set becomes the number of stages that were
 * set. */
enum kvr_status kvr_codec_set(struct kvr_codec *c, int stage, const char *name, const char *value,
                              int *n_set);

/* Checks that all stages support n_heads and head_dim; the error message names the stage that does
 * not. */
enum kvr_status kvr_codec_check(const struct kvr_codec *c, int n_heads, int head_dim);
/* Largest quantization group of any stage, in tokens (kvr_layout.unit_tokens). */
int kvr_codec_unit_tokens(const struct kvr_codec *c);
int kvr_codec_origin_tokens(const struct kvr_codec *c); /* largest kvr_layout.origin_tokens of any
                                                         * stage; 0 if no stage aligns its groups to
                                                         * the rollout */
bool kvr_codec_is_raw(const struct kvr_codec *c);       /* stores values unchanged */
bool kvr_codec_is_bf16(const struct kvr_codec *c);      /* whether the codec stores unquantized BF16
                                                         * values (`raw`) */
bool kvr_codec_idempotent(const struct kvr_codec *c);
bool kvr_codec_joint(const struct kvr_codec *c); /* whether one stage encodes keys and values
                                                  * jointly */
/* Checks whether the codecs of the keys and the values of one tier can be used together. Fails with
 * KVR_EINVAL if a codec combines a joint stage with other stages, or if only one codec has the
 * joint stage, or if the options of the joint stage differ. */
enum kvr_status kvr_codec_check_joint(const struct kvr_codec *k, const struct kvr_codec *v);

/* Layout of the data that job->stage stores for a block of job->shape; all zero if the stage stores
 * no data. */
struct kvr_layout kvr_stage_layout(const struct kvr_stage_job *job);
/* Layout of the data that stage i of the codec stores for a block of this shape. */
void kvr_codec_layout(const struct kvr_codec *c, int i, const struct kvr_block_shape *shape,
                      struct kvr_layout *out);

/* Whether the codec begins with a TRANSFORM; attention then computes scores in the transformed
 * space. */
bool kvr_codec_rotated(const struct kvr_codec *c);
/* Whether codecs a and b begin with the same transform, or neither begins with a transform. */
bool kvr_codec_same_space(const struct kvr_codec *a, const struct kvr_codec *b);
/* Applies the codec's leading transform to x [n,nh,D] in place, in F32. The rows are those of heads
 * [h0, h0 + nh), in memory of `dev` or, if `dev` is NULL, of the host. Any thread may call the
 * function on the CPU; on CUDA only the device's thread may call it. For a codec without a leading
 * transform, the function has no effect. */
void kvr_codec_transform(const struct kvr_codec *c, struct kvr_dev *dev, enum kvr_transform_way way,
                         float *x, int64_t n, int h0, int nh, int head_dim);

/* Size of an encoded block in bytes, computed from its shape, without entries whose number depends
 * on the values (kvr_layout.entry). */
size_t kvr_codec_bytes(const struct kvr_codec *c, const struct kvr_block_shape *shape);

/* Total elements and stored bytes of all encoded blocks whose size depends on their values; bytes /
 * elements is the average number of bytes per element. If a block is encoded a second time, it is
 * counted again. */
struct kvr_varying {
    int64_t elements;
    size_t bytes;
    double most_bits; /* bits per element of the least compressed block */
};

/* Whether the size of an encoded block depends on its values. */
bool kvr_codec_varies(const struct kvr_codec *c, const struct kvr_block_shape *shape);

/* Number of floats of scratch memory `work` that encoding needs: T*H*D, and if c->eager is set,
 * also the largest kvr_eager_floats() of any stage. */
int64_t kvr_codec_work_floats(const struct kvr_codec *c, const struct kvr_block_shape *shape);

/* Encodes x [T,H,D], which is not changed. The caller owns the scratch `work` of
 * kvr_codec_work_floats() floats. After a failure `out` is empty. The buffers `codes` and `meta` of
 * the stages are allocated on `dev` with the memory tags KVR_MEM_KV and KVR_MEM_META. On CUDA, the
 * function synchronises only for the stage `outliers`, whose allocation depends on the number of
 * outliers, and for stages without CUDA functions. */
enum kvr_status kvr_codec_encode(const struct kvr_codec *c, struct kvr_dev *dev, const float *x,
                                 const struct kvr_block_shape *shape, float *work,
                                 struct kvr_packed *out);

/* Encodes like kvr_codec_encode; `place` is the position of the tokens in the rollout. */
enum kvr_status kvr_codec_encode_at(const struct kvr_codec *c, struct kvr_dev *dev, const float *x,
                                    const struct kvr_block_shape *shape,
                                    const struct kvr_place *place, float *work,
                                    struct kvr_packed *out);

/* Encodes like kvr_codec_encode_at, from F32 or BF16 values. BF16 values give the same bytes as the
 * equal F32 values. */
enum kvr_status kvr_codec_encode_values(const struct kvr_codec *c, struct kvr_dev *dev,
                                        const struct kvr_values *x,
                                        const struct kvr_block_shape *shape,
                                        const struct kvr_place *place, float *work,
                                        struct kvr_packed *out);
/* Encodes like kvr_codec_encode, from BF16 values. */
enum kvr_status kvr_codec_encode_bf16(const struct kvr_codec *c, struct kvr_dev *dev,
                                      const kvr_bf16 *x, const struct kvr_block_shape *shape,
                                      float *work, struct kvr_packed *out);

/* Calls the function kvr_joint_ops.start of a joint codec, which prepares the codec's stage before
 * the first block is encoded. */
enum kvr_status kvr_codec_start_joint(const struct kvr_codec *k);
/* Encodes keys k and values v [T,H,D] together, with a joint codec. */
enum kvr_status kvr_codec_encode_joint(const struct kvr_codec *ck, const struct kvr_codec *cv,
                                       struct kvr_dev *dev, const float *k, const float *v,
                                       const struct kvr_block_shape *shape,
                                       const struct kvr_place *place, struct kvr_packed *out_k,
                                       struct kvr_packed *out_v);

/* Decodes tokens [t0, t0+n) of heads [h0, h0+nh) to out [n,nh,D]. Any thread may call the function
 * on the CPU; on CUDA only the device's thread may call it. The function neither synchronises nor
 * allocates, except for stages without CUDA functions. If a stage without CUDA functions runs out
 * of host memory, `out` becomes NaN. */
void kvr_codec_decode(const struct kvr_packed *p, int64_t t0, int64_t n, int h0, int nh,
                      float *out);
/* Decodes like kvr_codec_decode, but without inverting a leading transform, so `out` is in the
 * transformed space. */
void kvr_codec_decode_rotated(const struct kvr_packed *p, int64_t t0, int64_t n, int h0, int nh,
                              float *out);

/* Whether a CUDA device can decode blocks of this codec directly to BF16, including the inverse
 * transform, without writing F32 values to memory. The result depends only on the three arguments,
 * so it can be computed on a machine without a GPU. */
bool kvr_codec_decodes_bf16(const struct kvr_codec *c, int n_heads, int head_dim);
/* Decodes like kvr_codec_decode, but rounds to BF16. The array out [n,nh,D] is device memory,
 * aligned to 16 bytes. kvr_codec_decodes_bf16() must be true for the block's codec. The function
 * neither synchronises nor allocates. */
void kvr_codec_decode_bf16(const struct kvr_packed *p, int64_t t0, int64_t n, int h0, int nh,
                           kvr_bf16 *out);

/* Error model of a quantized block. If the codec has several grids, the error is that of the last
 * grid, since each grid quantizes the residual of the grid before. The pointers out->scale and
 * out->exact point to memory on p->dev, which the block owns. */
void kvr_codec_noise(const struct kvr_packed *p, struct kvr_coding_noise *out);

/* Writes the scale of every element to out [n,nh,D], in memory of p->dev. The block's error model
 * must have the kind KVR_NOISE_SCALES. The elements are tokens [t0, t0 + n) of heads [h0, h0 + nh).
 * If the codec has a transform, they are elements of the transformed vectors. Any thread may call
 * the function on the CPU; on CUDA only the device's thread may call it. */
void kvr_packed_scales(const struct kvr_packed *p, int64_t t0, int64_t n, int h0, int nh,
                       float *out);

/* Copies a block to device `to`, with the same bytes and memory tags. One of the two devices must
 * be a CPU, or the devices must be the same. The function synchronises the source device before it
 * copies. After a failure `out` is empty. The pointer place.list is not copied: it is NULL in `out`
 * until the caller sets it to memory of the new device. */
enum kvr_status kvr_packed_copy(const struct kvr_packed *p, struct kvr_dev *to,
                                struct kvr_packed *out);

/* Layout of the data that stage i stores for a block. The block may also have a shape but no data
 * (p->dev is NULL). */
void kvr_packed_layout(const struct kvr_packed *p, int i, struct kvr_layout *out);
size_t kvr_packed_bytes(const struct kvr_packed *p); /* allocated bytes of codes and side
                                                      * information */
/* Bytes of codes and bytes of side information that the storage format prescribes for the block's
 * shape and its number of entries (kvr_packed_n_entries). */
struct kvr_stage_bytes kvr_packed_nominal(const struct kvr_packed *p);
/* Number of entries, such as outliers, that the stages of a block store, if this number depends on
 * the values. */
int64_t kvr_packed_n_entries(const struct kvr_packed *p);
/* Frees the buffers of a block. */
void kvr_packed_free(struct kvr_packed *p);

/* Current name of the stage that was called `name` in an earlier version (FORMER in methods.def).
 * If no stage was renamed from `name`, the result is `name`. */
const char *kvr_stage_name_now(const char *name);
/* Writes the text of a pipeline to `to` [n], with the original name of every stage that has been
 * renamed. The hash that identifies a result uses this text, so that renaming a stage does not
 * change the hash. */
void kvr_codec_first_text(const char *text, char *to, size_t n);

/* Built-in stages in the order of the STAGE() lines in methods.def. NULL-terminated. */
extern const struct kvr_stage *const kvr_stages[];
/* The i-th stage, or NULL if there are fewer: built-in stages first, then those of loaded
 * plug-ins. */
const struct kvr_stage *kvr_stage_at(int i);
/* Finds a stage by its name. Fails with KVR_EINVAL for an unknown name; the message suggests the
 * nearest name. */
enum kvr_status kvr_stage_find(const struct kvr_stage **out, const char *name);

#ifdef __cplusplus
}
#endif
#endif
